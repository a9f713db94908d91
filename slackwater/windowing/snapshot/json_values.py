"""Python values as canonical JSON text: equal values give equal text; reading returns value and type."""

from __future__ import annotations

import base64
import io
import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from slackwater.windowing.errors import PickleRefusedError, SnapshotFormatError, SnapshotValueError
from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow, Window

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_WIDEST_LITERAL_BITS: Final = 14_000  # Python reads and writes decimal text of up to 4300 digits
_MICROSECOND: Final = timedelta(microseconds=1)

# (value, careful) → what the C encoder of `json` writes. Careful is the second try, after the encoder has
# refused a value: floats, long integers and texts are checked one by one.
Encode = Callable[[Any, bool], Any]


class JsonValues:
    """Values ↔ JSON text. Types that JSON lacks are an object with one key, a tag that begins with `$`.

    | tag | value |
    |---|---|
    | `$float` | NaN and the infinities: "nan", "inf", "-inf" |
    | `$int` | integers of more than 14,000 bits, in hexadecimal |
    | `$text` | text with lone surrogates: base64 of its UTF-8 |
    | `$bytes` | base64 |
    | `$tuple`, `$set`, `$frozenset` | items; a set's in the order of their texts |
    | `$dict` | [key, value] pairs in order, of a dict whose keys are not all plain text or begin with `$` |
    | `$decimal`, `$timedelta` | text; microseconds |
    | `$date`, `$time`, `$datetime` | ISO 8601, or [that, named zone or null, fold] |
    | `$window` | [start, end], or "global" |
    | `$timestamped` | [element, timestamp] as an evictor keeps them |
    | `$record` | [name of a declared named tuple, its fields] |
    | `$pickle` | base64 of a pickle |

    A dict keeps its order, which its owner can see. `records` are the named tuples that state may hold,
    identified by their class names; `pickles` allows pickling values of other types and reading pickles,
    which are code: only for one's own rows.
    """

    def __init__(self, records: Iterable[type] = (), pickles: bool = False) -> None:
        self._records: dict[str, Any] = {record.__name__: record for record in records}
        self._pickles = pickles
        self._encoders: dict[type, Encode] = {
            **dict.fromkeys((type(None), bool), lambda value, careful: value),
            int: _encode_int,
            float: _encode_float,
            str: _encode_text,
            list: self._encode_list,
            tuple: lambda value, careful: {"$tuple": self._encode_list(value, careful)},
            set: lambda value, careful: {"$set": self._encode_set(value, careful)},
            frozenset: lambda value, careful: {"$frozenset": self._encode_set(value, careful)},
            dict: self._encode_dict,
            bytes: lambda value, careful: {"$bytes": base64.b64encode(value).decode()},
            Decimal: lambda value, careful: {"$decimal": str(value)},
            date: lambda value, careful: {"$date": value.isoformat()},
            time: self._encode_moment,
            datetime: self._encode_moment,
            timedelta: lambda value, careful: {"$timedelta": value // _MICROSECOND},
            TimeWindow: lambda value, careful: {"$window": list(value)},
            GlobalWindow: lambda value, careful: {"$window": "global"},
            TimestampedValue: lambda value, careful: {
                "$timestamped": [self._encode(value[0], careful), value[1]]
            },
            **dict.fromkeys(self._records.values(), self._encode_record),
        }
        self._decoders: dict[str, Callable[[Any], Any]] = {
            **_DECODERS,
            "$record": self._decode_record,
            "$pickle": self._decode_pickle,
        }

    def dumps(self, value: Any) -> str:
        """The value's text. Raises SnapshotValueError for a value of an undeclared type."""
        try:
            text = _dump(self._encode(value, False))
            if not text.isascii():
                text.encode()
        except (
            ValueError
        ) as error:  # not-a-number and the like, integers of thousands of digits, lone surrogates
            if isinstance(error, SnapshotValueError):
                raise
            return _dump(self._encode(value, True))
        return text

    def loads(self, text: str) -> Any:
        """Raises SnapshotFormatError, and PickleRefusedError where pickles are not allowed."""
        try:
            return json.loads(text, object_hook=self._decode)
        except json.JSONDecodeError as error:
            raise SnapshotFormatError(f"State is JSON, but this is not: {text!r:.100}.") from error

    def _encode(self, value: Any, careful: bool) -> Any:
        return self._encoders.get(type(value), self._encode_other)(value, careful)

    def _encode_list(self, values: Iterable[Any], careful: bool) -> list[Any]:
        items = list(values)
        if not careful and _PLAIN.issuperset(map(type, items)):
            return items
        return [self._encode(value, careful) for value in items]

    def _encode_set(self, values: Iterable[Any], careful: bool) -> list[Any]:
        return sorted((self._encode(value, careful) for value in values), key=_dump)

    def _encode_dict(self, value: dict[Any, Any], careful: bool) -> Any:
        items: Iterator[tuple[Any, Any]] = ((key, self._encode(item, careful)) for key, item in value.items())
        if all(
            type(key) is str and not key.startswith("$") and (not careful or _is_unicode(key))
            for key in value
        ):
            return dict(items)
        return {"$dict": [[self._encode(key, careful), item] for key, item in items]}

    def _encode_moment(self, value: datetime | time, careful: bool) -> Any:
        zone = value.tzinfo
        is_named = type(zone) is ZoneInfo and zone.key is not None
        if not (zone is None or is_named or type(zone) is timezone):
            return self._encode_other(value, careful)
        tag = "$datetime" if isinstance(value, datetime) else "$time"
        text = value.replace(tzinfo=None if is_named else zone, fold=0).isoformat()
        return {
            tag: [text, zone.key if isinstance(zone, ZoneInfo) else None, value.fold]
            if is_named or value.fold
            else text
        }

    def _encode_record(self, value: Any, careful: bool) -> Any:
        fields = value._asdict()  # their names are identifiers, which no tag is
        items = zip(fields, self._encode_list(fields.values(), careful), strict=True)
        return {"$record": [type(value).__name__, dict(items)]}

    def _encode_other(self, value: Any, careful: bool) -> Any:
        kind = type(value)
        if value.__class__ is not kind and value.__class__ in self._records.values():
            return self._encode_record(value, careful)  # it stands in for such a record
        if self._pickles:
            return {"$pickle": base64.b64encode(_pickle(value)).decode()}
        raise SnapshotValueError(
            f"State holds a {kind.__module__}.{kind.__qualname__}, which has no JSON form: {value!r:.100}. "
            "Keep plain values, declare the named tuple, or ask for pickles.",
            type_name=kind.__qualname__,
        )

    def _decode(self, value: dict[str, Any]) -> Any:
        if len(value) == 1:
            [(tag, item)] = value.items()
            if tag.startswith("$"):
                if tag not in self._decoders:
                    raise SnapshotFormatError(
                        f"State has a value with the tag {tag!r}; known are {', '.join(self._decoders)}."
                    )
                return self._decoders[tag](item)
        return value

    def _decode_record(self, item: list[Any]) -> Any:
        name, fields = item
        if name not in self._records:
            raise SnapshotFormatError(
                f"State holds a {name}, but only {', '.join(self._records) or 'no named tuple'} is declared."
            )
        record = self._records[name]
        lacking = [
            field for field in record._fields if field not in fields and field not in record._field_defaults
        ]
        if lacking or not fields.keys() <= set(record._fields):
            raise SnapshotFormatError(
                f"State holds a {name} of {', '.join(fields)}, but the declared one is of "
                f"{', '.join(record._fields)}."
            )
        return record(**fields)

    def _decode_pickle(self, item: str) -> Any:
        if not self._pickles:
            raise PickleRefusedError(
                "State holds pickled values. A pickle is code: ask for pickles only if nobody else could "
                "write these."
            )
        return pickle.loads(base64.b64decode(item))


# `json.dumps` makes an encoder for each call with options.
_dump: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _encode_int(value: int, careful: bool) -> Any:
    return value if value.bit_length() <= _WIDEST_LITERAL_BITS else {"$int": hex(value)}


def _encode_float(value: float, careful: bool) -> Any:
    return value if not careful or math.isfinite(value) else {"$float": str(value)}


def _encode_text(value: str, careful: bool) -> Any:
    if not careful or _is_unicode(value):
        return value
    return {"$text": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _decode_moment(kind: Any, item: Any) -> Any:
    if isinstance(item, str):
        return kind.fromisoformat(item)
    text, zone, fold = item
    moment = kind.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo if zone is None else ZoneInfo(zone), fold=fold)


def _pickle(value: Any) -> bytes:
    """Without a memo if possible, so that equal objects have equal bytes whether or not they share parts."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (ValueError, RecursionError):  # it contains itself
        return pickle.dumps(value, 5)
    return buffer.getvalue()


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$int": lambda item: int(item, 16),
    "$text": lambda item: base64.b64decode(item).decode("utf-8", "surrogatepass"),
    "$bytes": base64.b64decode,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": dict,
    "$decimal": Decimal,
    "$date": date.fromisoformat,
    "$time": lambda item: _decode_moment(time, item),
    "$datetime": lambda item: _decode_moment(datetime, item),
    "$timedelta": lambda item: item * _MICROSECOND,
    "$window": lambda item: GLOBAL_WINDOW if item == "global" else TimeWindow(*item),
    "$timestamped": lambda item: TimestampedValue(*item),
}


KINDS: Final = frozenset({"value", "list", "map", "reducing", "aggregating"})

KindAndValue = tuple[str, Any]


def with_kind(json: JsonValues, kind: str, value: Any) -> dict[str, Any]:
    """`{kind: value}`; a map as its [key, value] pairs in the order of the keys' texts."""
    if kind == "map":
        return {kind: [[key, value[key]] for key in sorted(value, key=json.dumps)]}
    return {kind: value}


def kind_and_value(tagged_value: Mapping[str, Any], name: str) -> KindAndValue:
    """The inverse of `with_kind`. Raises SnapshotFormatError for an unknown kind."""
    [(kind, value)] = tagged_value.items()
    if kind not in KINDS:
        raise SnapshotFormatError(
            f"State {name!r} is stored as {kind!r} state; there is {', '.join(sorted(KINDS))}."
        )
    return kind, dict(value) if kind == "map" else value


def dump_value(json: JsonValues, value: Any, state_name: str, key: Any, namespace: Window | None) -> str:
    """The text of a value. Raises SnapshotValueError with state, key and window."""
    try:
        return json.dumps(value)
    except SnapshotValueError as error:
        error.state_name = state_name
        error.locate(key, namespace, None)
        raise


def dump_states(
    json: JsonValues, states: Mapping[str, Mapping[str, Any]], key: Any, window: Window
) -> str | None:
    """The text of state name → tagged values; None for none."""
    return (
        dump_value(json, {name: states[name] for name in sorted(states)}, ", ".join(states), key, window)
        if states
        else None
    )


def load_states(json: JsonValues, text: str | None) -> dict[str, dict[str, Any]]:
    return {} if text is None else json.loads(text)
