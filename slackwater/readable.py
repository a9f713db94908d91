"""Writes values as people write them: durations, sizes, times, numbers, shares, keys. Verbs and pages take
their texts from here, so that they show the same.

Pure functions of single values, standard library only. Where a value is None, the text is a dash.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import IntEnum
from itertools import pairwise
from typing import Any

from slackwater.errors import without_credentials
from slackwater.windowing.times import MILLISECOND, to_datetime

NOTHING = "–"

# Milliseconds of each unit, its symbol in a text of two units, and the noun that stands alone.
_UNITS = (
    (86_400_000, "d", "day"),
    (3_600_000, "h", "hour"),
    (60_000, "min", "minute"),
    (1000, "s", None),
)
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
# Unicode's categories of what is not seen or moves other characters: controls (ESC, line feeds), formats
# (directions of writing, joiners), halves of surrogate pairs, separators of lines and paragraphs.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Precision(IntEnum):
    """The smallest unit that a text of a time shows; a greater one shows more."""

    DAY = 0
    MINUTE = 1
    SECOND = 2
    MILLISECOND = 3


_FORMATS = {
    Precision.DAY: "%Y-%m-%d",
    Precision.MINUTE: "%Y-%m-%d %H:%M",
    Precision.SECOND: "%Y-%m-%d %H:%M:%S",
    Precision.MILLISECOND: "%Y-%m-%d %H:%M:%S",
}


def duration_text(duration: float | timedelta | None) -> str:
    """A duration in its two greatest units, rounded to the smaller one: `5 d 20 h`, `1 day`, `4 hours`,
    `2 min 5 s`, `1.5 s`, `250 ms`.

    Args:
        duration: milliseconds, or a timedelta.
    """
    if duration is None:
        return NOTHING
    ms = duration / MILLISECOND if isinstance(duration, timedelta) else duration
    if ms < 0:
        return "−" + duration_text(-ms)
    return _seconds_text(ms) if ms < 59_950 else _duration_text_in_units(_rounded_to_two_units(ms))


def exact_duration_text(duration: float | timedelta | None) -> str:
    """A duration that somebody has declared, in as many units as it needs: `1 h 30 min 2 ms`."""
    if duration is None:
        return NOTHING
    ms = round(duration / MILLISECOND if isinstance(duration, timedelta) else duration)
    if ms < 0:
        return "−" + exact_duration_text(-ms)
    return _seconds_text(ms) if ms < 60_000 else _duration_text_in_units(ms)


def _seconds_text(ms: float) -> str:
    """A duration of less than a minute."""
    if ms == 0:
        return "0 s"
    if ms < 999.5:
        return f"{ms:.0f} ms" if ms >= 1 else f"{ms:.2g} ms"
    tenths = f"{ms / 1000:.1f}"
    return f"{tenths.removesuffix('.0')} s"


def _rounded_to_two_units(ms: float) -> int:
    for (size, _, _), (smaller, _, _) in pairwise(_UNITS):
        if ms >= size - smaller / 2:
            return int(ms / smaller + 0.5) * smaller
    raise ValueError(f"{ms} ms is less than a minute")


def _duration_text_in_units(ms: int) -> str:
    counts = []
    for size, symbol, noun in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            counts.append((count, symbol, noun))
    if ms:
        counts.append((ms, "ms", None))
    count, symbol, noun = counts[0]
    if len(counts) == 1 and noun is not None:
        return f"{count:,} {noun}" + ("" if count == 1 else "s")
    return " ".join(f"{count:,} {symbol}" for count, symbol, _ in counts)


def size_text(size: float | None) -> str:
    """A number of bytes: `812 B`, `3.4 kB`, `64 MB`, `1.2 GB`; a kB is 1000 bytes."""
    if size is None:
        return NOTHING
    value = float(size)
    for unit in _SIZES:
        if abs(value) < 999.5 or unit == _SIZES[-1]:
            is_round = unit == "B" or abs(value) >= 99.5 or f"{value:.1f}".endswith(".0")
            return f"{value:,.0f} {unit}" if is_round else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes every size")


def number_text(number: float | Decimal | None) -> str:
    """A number with its thousands apart; a float with two decimals, or two digits where it is less than
    0.01.
    """
    if number is None:
        return NOTHING
    if isinstance(number, float):
        return f"{number:.2g}" if 0 < abs(number) < 0.01 else f"{number:,.2f}"
    return f"{number:,}"


def count_text(count: int, singular: str, plural: str | None = None) -> str:
    """A number of things: `1 row`, `1,200 rows`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def share_text(share: float | None) -> str:
    """A share of a whole between 0 and 1: `3.4 %`; one that is above nothing or below the whole never reads
    as `0 %` or `100 %`.
    """
    if share is None:
        return NOTHING
    percent = share * 100
    if 0 < percent < 0.05:
        return "< 0.1 %"
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f}".removesuffix(".0") + " %"


def time_text(moment: datetime | float | None, precision: Precision | None = None) -> str:
    """A time in UTC, `2013-01-02 06:00`, cut to `precision`; None shows all that it has, at least minutes.

    The last millisecond of a second, which ends windows and bounded watermarks, reads as the second after it
    wherever milliseconds are not shown: a watermark of 05:59:59.999 as `06:00`, the end that it has reached.

    Args:
        moment: an aware datetime, or milliseconds since 1970.
    """
    if moment is None:
        return NOTHING
    value = _utc(moment)
    if precision is None:
        precision = precision_of([value], finest=Precision.MILLISECOND)
    if precision < Precision.MILLISECOND and value.microsecond // 1000 == 999:
        value += MILLISECOND
    text = value.strftime(_FORMATS[precision])
    return text + f".{value.microsecond // 1000:03d}" if precision == Precision.MILLISECOND else text


def precision_of(
    moments: Iterable[datetime | float | None], finest: Precision = Precision.SECOND
) -> Precision:
    """The precision, from minutes to `finest`, at which texts of all these times can be told apart from times
    beside them. Tables that show all their times with it have one format.
    """
    precision = Precision.MINUTE
    for moment in moments:
        if moment is None:
            continue
        value = _utc(moment)
        milliseconds = value.microsecond // 1000
        if finest == Precision.MILLISECOND and milliseconds:
            return finest
        if milliseconds == 999:
            value += MILLISECOND
        if value.second:
            precision = min(Precision.SECOND, finest)
    return precision


def _utc(moment: datetime | float) -> datetime:
    return to_datetime(int(moment)) if isinstance(moment, int | float) else moment.astimezone(UTC)


def range_text(
    start: datetime | float | None,
    end: datetime | float | None,
    precision: Precision | None = None,
    zone: tzinfo = UTC,
) -> str:
    """A half-open range of times: `2013-01-02` where it is a whole day, `2013-01-02 06:00–09:00` within a day
    (24:00 is its end), else its start and its length, `2013-01-02 18:00 + 12 hours`. By the clocks of
    another zone than UTC its name comes last.
    """
    if start is None or end is None:
        return NOTHING
    if str(zone) != "UTC":
        first, last = (_utc(moment).astimezone(zone).replace(tzinfo=UTC) for moment in (start, end))
        return f"{range_text(first, last, precision)} {zone}"
    first, last = _utc(start), _utc(end)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    next_midnight = midnight + timedelta(days=1)
    if precision is None:
        precision = precision_of([first, last], finest=Precision.MILLISECOND)
    if last > next_midnight:
        day = first == midnight and (last - first) % timedelta(days=1) == timedelta(0)
        moment = time_text(first, Precision.DAY if day else precision)
        return f"{moment} + {exact_duration_text(last - first)}"
    if last == next_midnight:
        return (
            time_text(first, Precision.DAY) if first == midnight else f"{time_text(first, precision)}–24:00"
        )
    return f"{time_text(first, precision)}–{time_text(last, precision)[11:]}"


def range_of_slice(text: str, zone: tzinfo = UTC) -> str:
    """A slice as the protocol logs it, `[start, end)`, for people; any other text as it is."""
    try:
        start, end = map(datetime.fromisoformat, text.strip("[)").split(", "))
    except ValueError:
        return text
    return range_text(start, end, zone=zone)


def plain_text(text: str) -> str:
    r"""A text on one line, with its control characters and characters that can't be seen as escapes: `\n`,
    `\x1b`, `\u202e`. What a terminal or a page shows of it can't be taken for anything else.
    """
    if text.isprintable():
        return text
    return "".join(
        _escape(character) if unicodedata.category(character) in _HIDDEN else character for character in text
    )


def _escape(character: str) -> str:
    short_form = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character)
    if short_form is not None:
        return short_form
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value_text(value: Any, precision: Precision | None = None) -> str:
    """A value of any type, on one line and without control characters.

    Args:
        precision: of times, as `time_text` takes it.
    """
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int() | float() | Decimal():
            return number_text(value)
        case datetime():
            return time_text(value, precision)
        case date():
            return value.isoformat()
        case timedelta():
            return duration_text(value)
        case bytes():
            return value.hex()
        case list() | tuple():
            return ", ".join(value_text(item, precision) for item in value) or NOTHING
        case Mapping():
            return ", ".join(
                f"{plain_text(str(name))} {value_text(item, precision)}" for name, item in value.items()
            )
        case _:
            return plain_text(without_credentials(str(value)))


def bytes_text(value: bytes) -> str:
    """The text whose UTF-8 the bytes are, where it is one to be read; else hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    has_controls = any(unicodedata.category(one) == "Cc" and one not in "\t\n\r" for one in text)
    return value.hex() if has_controls else text


def key_text(values: Any) -> str:
    """A key for people, its components separated by commas: `JFK`, `JFK, 7`. Control characters are escaped;
    an empty component, one with spaces at its ends, and a dash are quoted, so that they can be seen.

    Args:
        values: the components in the order of the key columns, or the only one.
    """
    components: Sequence[Any] = values if isinstance(values, list | tuple) else [values]
    return ", ".join(_component_text(component) for component in components)


def _component_text(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    text = plain_text(str(value))
    return f'"{text}"' if text != text.strip() or text in ("", NOTHING) else text
