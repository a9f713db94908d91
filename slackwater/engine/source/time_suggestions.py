"""How a time can be made out of a column that holds none: of numbers that count since 1970, texts, dates, and
such values within structs or JSON objects. A suggestion is an expression for `derive`, with its reason.

It looks at values in memory and at no table. Whether a column is an event's time or its arrival is for the
caller to judge.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from slackwater.pipelines.expressions import column_as_written

_FIRST_SECOND, _LAST_SECOND = 946_684_800, 4_102_444_800  # the years 2000 to 2099
_COUNTS = (  # ticks a second, the unit's name, the function that makes a time of it
    (1, "seconds", "to_timestamp({})"),
    (1_000, "milliseconds", "epoch_ms({})"),
    (1_000_000, "microseconds", "make_timestamp({})"),
    (1_000_000_000, "nanoseconds", "make_timestamp({} // 1000)"),
)
_DIGITS = ((8, "%Y%m%d"), (12, "%Y%m%d%H%M"), (14, "%Y%m%d%H%M%S"))  # 20240131 and longer ones
_LEAST_SHARE = 0.9
_MOST_VALUES = 1000
_ISO = re.compile(
    r"\d{4}([-/])\d{1,2}\1\d{1,2}"
    r"([ T]\d{1,2}:\d\d(:\d\d(\.\d+)?)?(?P<zone> ?(Z|UTC)|[+-]\d\d(:?\d\d)?)?)?"
)
_DATES: tuple[tuple[str, tuple[str, ...]], ...] = (  # which dates have the shape; its formats
    (r"\d{1,2}\.\d{1,2}\.\d{4}", ("%d.%m.%Y",)),
    (r"\d{1,2}\.\d{1,2}\.\d{2}", ("%d.%m.%y",)),
    (r"\d{1,2}/\d{1,2}/\d{4}", ("%d/%m/%Y", "%m/%d/%Y")),
    (r"\d{1,2}/\d{1,2}/\d{2}", ("%d/%m/%y", "%m/%d/%y")),
    (r"\d{1,2}-\d{1,2}-\d{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"\d{4}-\d\d-\d\d", ("%Y-%m-%d",)),
    (r"\d{4}/\d\d/\d\d", ("%Y/%m/%d",)),
    (r"\d{4}\.\d{1,2}\.\d{1,2}", ("%Y.%m.%d",)),
    (r"\d{8}", ("%Y%m%d",)),
    *(
        (rf"\d{{1,2}}{mark}[A-Za-z]+{mark}\d{{4}}", (f"%d{mark}%b{mark}%Y", f"%d{mark}%B{mark}%Y"))
        for mark in (" ", "-", "/")
    ),
    (r"[A-Za-z]+ \d{1,2} \d{4}", ("%b %d %Y", "%B %d %Y")),
    (r"[A-Za-z]+ \d{1,2}, \d{4}", ("%b %d, %Y", "%B %d, %Y")),
)
_TEXT = re.compile(
    r"(?P<weekday>(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(, | ))?(?P<date>.*?)"
    r"((?P<gap>, | |T|:|-)(?P<clock>\d{1,2}:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d{1,6})?)?|\d{6})"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?)?"
)
_NAMES_OF_TIMES = re.compile(r"(^|[^a-z])(ts|t|at|time|timestamp|date|datetime|when|ms)($|[^a-z])|time|_at$")


class TimeSuggestion(NamedTuple):
    """A way to make times out of a column.

    Attributes:
        expression: SQL for `derive`; of times without a zone it makes some without, which are the source's.
        reason: what the values are, e.g. "64-bit numbers between 1.70e12 and 1.71e12: epoch milliseconds".
        field: the path to the value within a struct or a JSON object, e.g. ``user.ts``; "" for the column.
    """

    expression: str
    reason: str
    field: str = ""


def suggest_time(name: str, sample: pa.Array | pa.ChunkedArray) -> TimeSuggestion | None:
    """The likeliest way to make times out of the column `name`, by a sample of its values; None if its values
    look like no times, or are timestamps already.
    """
    suggestions = suggest_times(name, sample)
    return suggestions[0] if suggestions else None


def suggest_times(name: str, sample: pa.Array | pa.ChunkedArray) -> list[TimeSuggestion]:
    """All ways to make times out of the column `name`: several if it is a struct or holds JSON objects. Those
    that are named like times come first.
    """
    suggestions = _suggestions(column_as_written(name), "", "", sample)
    return sorted(suggestions, key=lambda one: not _NAMES_OF_TIMES.search(_words(one.field)))


def json_paths(sample: pa.Array | pa.ChunkedArray) -> dict[tuple[str, ...], pa.Array]:
    """Each path to a field of the JSON objects in a sample of texts or bytes, down to the second level, with
    its values, null where an object lacks it. Empty if the values are no JSON objects. Fields of several
    types are left out.
    """
    if not (_is_text(sample.type) or _is_bytes(sample.type)):
        return {}
    objects = [_json_object(value) for value in _spread(sample.drop_null()).to_pylist()]
    present = [json_object for json_object in objects if json_object is not None]
    if not present or len(present) < _LEAST_SHARE * len(objects):
        return {}
    paths = dict.fromkeys(path for json_object in present for path in _paths(json_object))
    columns: dict[tuple[str, ...], pa.Array] = {}
    for path in paths:
        try:
            columns[path] = pa.array([_value_at(json_object, path) for json_object in present])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
    return columns


def json_text(column: str, path: Sequence[str]) -> str:
    """SQL for the text of a field of the JSON objects in `column`, which is written as in an expression."""
    keys = ".".join(
        key if re.fullmatch(r"[A-Za-z_]\w*", key) else '"' + key.replace('"', '\\"') + '"' for key in path
    )
    return f"{column} ->> '$.{keys.replace(chr(39), chr(39) * 2)}'"


def _suggestions(
    operand: str, field: str, prefix: str, sample: pa.Array | pa.ChunkedArray
) -> Iterator[TimeSuggestion]:
    """`operand` is SQL for the values, `prefix` what their reason begins with."""
    if isinstance(sample, pa.ChunkedArray):
        sample = sample.combine_chunks()
    kind = sample.type
    if pa.types.is_dictionary(kind):
        yield from _suggestions(operand, field, prefix, sample.dictionary_decode())
    elif pa.types.is_struct(kind):
        for child, values in zip(kind, sample.flatten(), strict=True):
            path = f"{field}.{child.name}".lstrip(".")
            inner = f"{operand}.{column_as_written(child.name)}"
            if pa.types.is_timestamp(child.type):
                yield TimeSuggestion(inner, f"{prefix}the field {path}: a timestamp", path)
            else:
                yield from _suggestions(inner, path, f"the field {path}: ", values)
    elif json_fields := json_paths(sample):
        for keys, values in json_fields.items():
            name = ".".join(keys)
            suggestion = _suggestion_of_plain(
                json_text(operand, keys), f"{field}.{name}".lstrip("."), values, is_text=True
            )
            if suggestion is not None:
                yield suggestion._replace(
                    reason=f"{prefix}the key {name} of the JSON objects: {suggestion.reason}"
                )
    else:
        suggestion = _suggestion_of_plain(operand, field, sample, is_text=False)
        if suggestion is not None:
            yield suggestion._replace(reason=prefix + suggestion.reason)


def _suggestion_of_plain(
    operand: str, field: str, sample: pa.Array, *, is_text: bool
) -> TimeSuggestion | None:
    """For numbers, texts and dates. `is_text`: the operand is the text of the values, whatever their type."""
    values, kind = _spread(sample.drop_null()), sample.type
    if not len(values):
        return None
    if pa.types.is_date(kind):
        return TimeSuggestion(
            f"CAST({operand} AS TIMESTAMP)", "dates, without a time of day: midnight of each", field
        )
    if _is_bytes(kind):
        try:
            values, kind = values.cast(pa.binary()).cast(pa.string()), pa.string()
        except pa.ArrowInvalid:
            return None
    if _is_text(kind):
        return _suggestion_of_texts(operand, field, list(dict.fromkeys(values.to_pylist())))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = f"{kind.bit_width}-bit numbers" if pa.types.is_integer(kind) and not is_text else "numbers"
        text = operand if is_text else f"CAST({operand} AS VARCHAR)"
        return _suggestion_of_numbers(
            operand, field, values, numbers, is_text=is_text
        ) or _suggestion_of_digits(text, field, _whole_texts(values))
    return None


def _suggestion_of_numbers(
    operand: str, field: str, values: pa.Array, what: str, *, is_text: bool
) -> TimeSuggestion | None:
    numbers = [float(value) for value in values.to_pylist()]
    for ticks, unit, function in _COUNTS:
        first, last = _FIRST_SECOND * ticks, _LAST_SECOND * ticks
        within = [number for number in numbers if first <= number < last]
        if len(within) < _LEAST_SHARE * len(numbers):
            continue
        takes_fractions = ticks == 1 and not all(number.is_integer() for number in within)
        if takes_fractions and is_text:
            operand = f"CAST({operand} AS DOUBLE)"
        elif not takes_fractions and (is_text or not pa.types.is_integer(values.type)):
            operand = f"CAST({operand} AS BIGINT)"
        low, high = min(within), max(within)
        numbers_between = " and ".join(
            dict.fromkeys(f"{bound:.2e}".replace("e+", "e") for bound in (low, high))
        )
        days = " to ".join(dict.fromkeys(_day(bound / ticks) for bound in (low, high)))
        return TimeSuggestion(
            function.format(operand),
            f"{what} {'between' if ' and ' in numbers_between else 'about'} {numbers_between}: epoch {unit}, "
            f"{days}{_share(len(within), len(numbers))}",
            field,
        )
    return None


def _suggestion_of_texts(operand: str, field: str, texts: list[str]) -> TimeSuggestion | None:
    texts = [text for text in texts if text.strip()]
    if not texts:
        return None
    if all(re.fullmatch(r"\d+(\.\d+)?", text) for text in texts):
        numbers = pa.array([float(text) for text in texts]) if any("." in text for text in texts) else None
        if numbers is None:
            try:
                numbers = pa.array([int(text) for text in texts], pa.int64())
            except (pa.ArrowInvalid, OverflowError):
                return None
        return _suggestion_of_digits(operand, field, texts) or _suggestion_of_numbers(
            operand, field, numbers, "numbers as text", is_text=True
        )
    matches = [match for match in map(_ISO.fullmatch, (text.strip() for text in texts)) if match]
    if len(matches) >= _LEAST_SHARE * len(texts):
        has_zone = any(match["zone"] for match in matches)
        kind = "TIMESTAMP WITH TIME ZONE" if has_zone else "TIMESTAMP"
        reason = f"ISO 8601 texts such as '{texts[0]}'{'' if has_zone else ', without a zone'}"
        return TimeSuggestion(f"CAST({operand} AS {kind})", reason + _share(len(matches), len(texts)), field)
    return _suggestion_of_formats(operand, field, texts)


def _suggestion_of_formats(operand: str, field: str, texts: list[str]) -> TimeSuggestion | None:
    formats = dict.fromkeys(form for text in texts[:20] for form in _formats_of(text))
    counts = {form: sum(_fits(text, form) for text in texts) for form in formats}
    best = max(counts, key=lambda form: counts[form], default=None)
    if best is None or counts[best] < _LEAST_SHARE * len(texts):
        return None
    others = [form for form in counts if form != best and counts[form] == counts[best]]
    is_unsure = any({best[:2], other[:2]} == {"%d", "%m"} for other in others)
    doubt = "; no value tells the day from the month, so check which comes first" if is_unsure else ""
    expression = f"strptime({operand}, '{best}')"
    return TimeSuggestion(
        f"timezone('UTC', {expression})" if best.endswith("Z") and not best.endswith("%Z") else expression,
        f"texts such as '{texts[0]}'{_share(counts[best], len(texts))}{doubt}",
        field,
    )


def _suggestion_of_digits(operand: str, field: str, texts: list[str]) -> TimeSuggestion | None:
    for length, form in _DIGITS:
        fitting = [
            text
            for text in texts
            if len(text) == length and "2000" <= text[:4] < "2100" and _fits(text, form)
        ]
        if texts and len(fitting) >= _LEAST_SHARE * len(texts):
            return TimeSuggestion(
                f"strptime({operand}, '{form}')",
                f"digits of a date, such as {fitting[0]}{_share(len(fitting), len(texts))}",
                field,
            )
    return None


def _formats_of(text: str) -> Iterator[str]:
    """The formats of `strptime` that a text may have, by its shape."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return
    weekday = "" if match["weekday"] is None else "%a" + match["weekday"][3:]
    clock = _clock_format(match)
    for shape, formats in _DATES:
        if re.fullmatch(shape, match["date"]):
            # Where clocks have halves of a day, months come first.
            ordered_formats = formats if match["half"] is None else formats[::-1]
            yield from (weekday + form + clock for form in ordered_formats)


def _clock_format(match: re.Match[str]) -> str:
    if match["clock"] is None:
        return ""
    hour = "%I" if match["half"] else "%H"
    if ":" in match["clock"]:
        clock = f"{hour}:%M" + (":%S" if match["seconds"] else "") + (".%f" if match["fraction"] else "")
    else:
        clock = "%H%M%S"
    half = "" if match["half"] is None else match["half"][:-2] + "%p"
    zone = match["zone"] or ""
    name = zone.strip()  # DuckDB takes a final Z for no zone, so it is a letter of the format
    directive = name if name in ("", "Z") else "%Z" if name in ("UTC", "GMT") else "%z"
    return match["gap"] + clock + half + zone.removesuffix(name) + directive


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)  # noqa: DTZ007 - whether it can be read is all that is asked
    except ValueError:
        return False
    return True


def _spread(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """At most so many of the values that Python looks at them in a moment."""
    step = -(-len(values) // _MOST_VALUES)
    return values if step < 2 else values.take(pa.array(range(0, len(values), step)))


def _whole_texts(values: pa.Array) -> list[str]:
    return [
        str(int(value)) if value == int(value) else "" for value in values.to_pylist() if _is_finite(value)
    ]


def _is_finite(value: Any) -> bool:
    return float("-inf") < float(value) < float("inf")


def _json_object(value: str | bytes) -> dict[str, Any] | None:
    try:
        json_object = json.loads(value)
    except ValueError:
        return None
    return json_object if isinstance(json_object, dict) else None


def _paths(json_object: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in json_object.items():
        if isinstance(value, dict):
            yield from ((key, inner) for inner in value)
        else:
            yield (key,)


def _value_at(json_object: Any, path: Iterable[str]) -> Any:
    for key in path:
        json_object = json_object.get(key) if isinstance(json_object, dict) else None
    return json_object if not isinstance(json_object, dict) else None


def _day(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).date().isoformat()


def _share(count: int, total: int) -> str:
    return "" if count == total else f" ({100 * count // total} % of the values)"


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
