"""Lays rows out as lines of text: as a table whose columns fit the terminal, or as a record for each row.

    origin  window start      window end        elements  firings   headings wrap between words
    EWR     2013-01-10 18:00  2013-01-10 19:00        15        1   numbers to the right, texts to the left

Columns are in the order of their importance. On a terminal columns without room are left out; a text
wraps within its column, a long key is cut. Pure: rows and a width in, lines out. Knows no verb and no stream.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from slackwater import readable
from slackwater.inspection.answer_tables import Column, Kind, Row
from slackwater.readable import (
    NOTHING,
    Precision,
    duration_text,
    exact_duration_text,
    key_text,
    plain_text,
    precision_of,
    range_text,
    share_text,
    size_text,
)

_GAP = "  "
_RIGHT = frozenset({"duration", "exact_duration", "size", "share"})
# A word, or words within backticks with what is written to them.
_UNBROKEN = re.compile(r"(?:[^\s`]*`[^`]*`)+\S*|\S+")
_COLOUR_CODES = {"green": 32, "yellow": 33, "red": 31}
# What a key or a text keeps of its width before columns behind it are left out.
_LEAST_WIDTH = {"key": 20, "value": 24, "text": 24}


@dataclass(frozen=True)
class Layout:
    lines: list[str]
    headings_without_room: list[str]


def value_text(value: Any, kind: Kind = "value", precision: Precision | None = None) -> str:
    """A value as a table shows it, on one line and without control characters. `precision` of times; None:
    minutes, and seconds where they are not zero.
    """
    if precision is None:
        precision = common_precision([(value, kind)], is_wide=False)
    match kind:
        case "duration":
            return duration_text(value)
        case "exact_duration":
            return exact_duration_text(value)
        case "size":
            return size_text(value)
        case "share":
            return share_text(value)
        case "range":
            return range_text(value[0], value[1], precision)
        case "key":
            return key_text(value)
        case "exact" if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return str(value)
        case "id":
            return NOTHING if value is None else plain_text(str(value))
        case _:
            return readable.value_text(value, precision)


def table(rows: Sequence[Row], columns: Sequence[Column], width: int | None, *, is_wide: bool) -> Layout:
    """`rows` as a table no wider than `width` (None: as wide as its values), or, where all its columns are
    wanted and have no room, as a record for each row.
    """
    table_columns = [
        column
        for column in columns
        if (is_wide or not column.is_wide) and (not column.is_optional or column.has_values(rows))
    ]
    texts = _texts(rows, table_columns, is_wide=is_wide)
    places = [
        _ColumnPlace(column, column_texts, is_right=_is_right(rows, column))
        for column, column_texts in zip(table_columns, texts, strict=True)
    ]
    if width is None:
        return Layout(_lines(places, [place.greatest_width for place in places]), [])
    if is_wide and sum(place.natural_width + len(_GAP) for place in places) - len(_GAP) > width:
        return Layout(_records(places, width), [])
    fitting_places, widths = _fitting(places, width)
    headings_without_room = [place.column.title for place in places if place not in fitting_places]
    return Layout(_lines(fitting_places, widths), headings_without_room)


def facts(pairs: Sequence[tuple[str, str]], width: int | None) -> list[str]:
    if not pairs:
        return []
    names = max(cell_width(name) for name, _ in pairs)
    lines = []
    for name, text in pairs:
        room = None if width is None else max(width - names - len(_GAP), 20)
        for number, line in enumerate(wrap(text, room)):
            lines.append((pad(name if number == 0 else "", names) + _GAP + line).rstrip())
    return lines


def _is_right(rows: Sequence[Row], column: Column) -> bool:
    """Whether a column's texts are aligned to the right: numbers, whose digits line up."""
    if column.kind in _RIGHT:
        return True
    values = [value for value in (column.value(row) for row in rows) if value is not None]
    return bool(values) and all(
        column.kind in ("value", "exact")
        and isinstance(value, int | float | Decimal)
        and not isinstance(value, bool)
        for value in values
    )


def _texts(rows: Sequence[Row], columns: Sequence[Column], *, is_wide: bool) -> list[list[str]]:
    """The text of each value, column by column. All times have the same precision."""
    values = [[column.value(row) for row in rows] for column in columns]
    values_and_kinds = (
        (value, column.kind)
        for column, column_values in zip(columns, values, strict=True)
        for value in column_values
    )
    precision = common_precision(values_and_kinds, is_wide=is_wide)
    return [
        [value_text(value, column.kind, precision) for value in column_values]
        for column, column_values in zip(columns, values, strict=True)
    ]


def common_precision(values_and_kinds: Iterable[tuple[Any, Kind]], *, is_wide: bool) -> Precision:
    """The precision of all times that are shown together; milliseconds are only shown where everything is."""
    moments = (moment for value, kind in values_and_kinds for moment in _moments(value, kind))
    return precision_of(moments, finest=Precision.MILLISECOND if is_wide else Precision.SECOND)


def _moments(value: Any, kind: Kind) -> Iterator[datetime]:
    if kind in ("value", "exact", "text") and isinstance(value, datetime):
        yield value
    elif kind in ("range", "value", "exact") and isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, datetime))


class _ColumnPlace:
    """A column's texts and how much room they want: at least, unwrapped, and with the heading on one line."""

    def __init__(self, column: Column, texts: list[str], *, is_right: bool) -> None:
        self.column, self.texts, self.is_right = column, texts, is_right
        longest_word = max((cell_width(word) for word in column.title.split()), default=0)
        self.natural_width = max([longest_word, *(cell_width(text) for text in texts)])
        self.greatest_width = max(self.natural_width, cell_width(column.title))
        least = _LEAST_WIDTH.get(column.kind) if not is_right else None
        self.least_width = self.natural_width if least is None else min(self.natural_width, least)

    def cells(self, width: int) -> list[list[str]]:
        if self.column.kind == "text":
            return [wrap(text, width) for text in self.texts]
        return [[shorten(text, width)] for text in self.texts]

    def colour_cell(self, cell: str) -> str:
        code = _COLOUR_CODES.get(self.column.colours.get(cell.strip(), ""))
        return cell if code is None else f"\x1b[{code}m{cell}\x1b[0m"


def _fitting(places: list[_ColumnPlace], width: int) -> tuple[list[_ColumnPlace], list[int]]:
    fitting_places: list[_ColumnPlace] = []
    room = width
    for place in places:
        wanted_width = place.least_width + (len(_GAP) if fitting_places else 0)
        if wanted_width <= room or not fitting_places:
            fitting_places.append(place)
            room -= wanted_width
    widths = [place.least_width for place in fitting_places]
    for wanted_widths in (
        [place.natural_width for place in fitting_places],
        [place.greatest_width for place in fitting_places],
    ):
        for number, wanted_width in enumerate(wanted_widths):
            more = max(0, min(wanted_width - widths[number], room))
            widths[number] += more
            room -= more
    return fitting_places, [min(column_width, width) for column_width in widths]


def _lines(places: list[_ColumnPlace], widths: list[int]) -> list[str]:
    """The headings, which wrap and end on the same line, and a line or more for each row."""
    headings = [wrap(place.column.title, width) for place, width in zip(places, widths, strict=True)]
    height = max((len(heading) for heading in headings), default=0)
    blocks = [[[""] * (height - len(heading)) + heading for heading in headings]]
    cells = [place.cells(width) for place, width in zip(places, widths, strict=True)]
    blocks += [list(row_cells) for row_cells in zip(*cells, strict=True)]
    return [
        _GAP.join(
            place.colour_cell(pad(cell[number] if number < len(cell) else "", width, is_right=place.is_right))
            for place, width, cell in zip(places, widths, block, strict=True)
        ).rstrip()
        for block in blocks
        for number in range(max((len(cell) for cell in block), default=0))
    ]


def _records(places: list[_ColumnPlace], width: int) -> list[str]:
    lines: list[str] = []
    for number in range(len(places[0].texts)):
        lines += ["", *facts([(place.column.title, place.texts[number]) for place in places], width)]
    return lines[1:]


def cell_width(text: str) -> int:
    """How many columns of a terminal a text takes; a Chinese character takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int, *, is_right: bool = False) -> str:
    spaces = " " * (width - cell_width(text))
    return spaces + text if is_right else text + spaces


def shorten(text: str, width: int) -> str:
    """A text of at most `width` columns; one that is cut ends with an ellipsis."""
    if cell_width(text) <= width:
        return text
    length = 0
    for end, character in enumerate(text):
        length += cell_width(character)
        if length > width - 1:
            return text[:end] + "…"
    return text


def wrap(text: str, width: int | None) -> list[str]:
    """A text in lines of at most `width` columns, broken between words where that is possible."""
    if width is None or cell_width(text) <= width:
        return [text]
    return _fill_lines((piece for word in text.split(" ") for piece in _pieces(word, width)), width)


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word in pieces of at most `width` columns."""
    while cell_width(word) > width:
        head = word[:width]
        while cell_width(head) > width:
            head = head[:-1]
        yield head
        word = word[len(head) :]
    yield word


def wrap_sentence(sentence: str, width: int | None) -> list[str]:
    """A sentence in lines of at most `width` columns where it can be broken: between words, and not within
    backticks. Spaces in front of it stay.
    """
    if width is None or cell_width(sentence) <= width:
        return [sentence]
    indent = sentence[: len(sentence) - len(sentence.lstrip())]
    first, *others = _UNBROKEN.findall(sentence) or [""]
    return _fill_lines([indent + first, *others], width)


def _fill_lines(words: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        if not lines[-1]:
            lines[-1] = word
        elif cell_width(lines[-1]) + 1 + cell_width(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines if lines[-1] else lines[:-1]
