"""Random sources that hold the columns of these events in other shapes, and derive them.

Not a test: the part that the properties share. A shape stores a value in a column of its own, or in a field
of the item of a list, and has the expression that brings the value back.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.pipelines import Pipeline
from slackwater.windowing.times import to_ms

ZONE = "Asia/Kathmandu"  # half an hour beside the others
BROKEN = "broken"  # no number, no time, no JSON
_NUMBERS = pa.struct([("n", pa.int64()), ("of", pa.struct([("n", pa.int64())]))])
_TEXTS = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Shape:
    """How a source holds a value.

    Attributes:
        kind: the type of the column.
        encode: the value (times in milliseconds, not null) → what the column holds.
        expression: SQL for the value, in which ``{c}`` is the column.
        broken: what the column holds so that the expression fails on it; None: it never does.
        is_local: whether the expression gives a time of the source's zone.
    """

    kind: pa.DataType
    encode: Callable[[Any], Any]
    expression: str
    broken: Any = None
    is_local: bool = False


def _utc(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _local(ms: int) -> str:
    return _utc(ms).astimezone(ZoneInfo(ZONE)).strftime("%d.%m.%Y %H:%M:%S.%f")


TIMES = (
    Shape(pa.int64(), lambda ms: ms, "epoch_ms({c})"),
    Shape(pa.int64(), lambda ms: ms * 1000, "make_timestamp({c})"),
    Shape(
        pa.string(),
        lambda ms: _utc(ms).astimezone(ZoneInfo(ZONE)).isoformat(),
        "CAST({c} AS TIMESTAMP WITH TIME ZONE)",
        BROKEN,
    ),
    Shape(pa.string(), _local, "strptime({c}, '%d.%m.%Y %H:%M:%S.%f')", BROKEN, is_local=True),
    Shape(_NUMBERS, lambda ms: {"n": 0, "of": {"n": ms}}, "epoch_ms({c}.of.n)"),
    Shape(_TEXTS, lambda ms: [("ms", str(ms))], "epoch_ms(CAST({c}['ms'] AS BIGINT))", [("ms", BROKEN)]),
    Shape(
        pa.binary(),
        lambda ms: json.dumps({"at": {"ms": ms}}).encode(),
        "epoch_ms(CAST({c} ->> '$.at.ms' AS BIGINT))",
        b'{"at": {"ms": ',
    ),
)
TEXTS = (
    Shape(pa.binary(), str.encode, "{c}", b"\xff"),
    Shape(pa.string(), lambda text: f"k{text}", "substr({c}, 2)"),
    Shape(pa.string(), lambda text: json.dumps({"id": text}), "{c} ->> '$.id'", '{"id": '),
    Shape(_TEXTS, lambda text: [("id", text), ("other", "o")], "{c}['id']"),
    Shape(pa.list_(pa.string()), lambda text: [text, "o"], "{c}[1]"),
)
INTEGERS = (
    Shape(pa.string(), str, "CAST({c} AS {type})", BROKEN),
    Shape(_NUMBERS, lambda n: {"n": n, "of": None}, "CAST({c}.n AS {type})"),
    Shape(pa.string(), lambda n: json.dumps([n]), "CAST({c} ->> '$[0]' AS {type})", "["),
    Shape(pa.int64(), lambda n: 3 * n, "CAST({c} // 3 AS {type})"),
)
SHAPES: Mapping[str, tuple[Shape, ...]] = {
    "event_time": TIMES,
    "arrival_time": TIMES,
    "source": TEXTS,
    "key": TEXTS,
    "row": tuple(replace(one, expression=one.expression.replace("{type}", "BIGINT")) for one in INTEGERS),
    "x": tuple(replace(one, expression=one.expression.replace("{type}", "INTEGER")) for one in INTEGERS),
}


@dataclass(frozen=True)
class RawColumns:
    """The columns that a source derives.

    Attributes:
        shapes: the column → how its values are held.
        in_items: the columns that are held in the items of a list; none where nothing is exploded.
        key_by: whether the key is derived by the pipeline's `key_by`, not by the source.
    """

    shapes: Mapping[str, Shape]
    in_items: tuple[str, ...] = ()
    key_by: bool = False

    def expression(self, name: str) -> str:
        shape, column = self.shapes[name], f"raw_{name}"
        return shape.expression.replace("{c}", f"item.{column}" if name in self.in_items else column)

    def over(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, over a source that derives the columns."""
        derive = {name: self.expression(name) for name in self.shapes}
        zone = ZONE if any(shape.is_local for shape in self.shapes.values()) else None
        key_by = {"key": derive.pop("key")} if self.derives_key_in_pipeline else pipeline.key_by
        derive |= {name: f"item.{name}" for name in self.in_items if name not in self.shapes}
        source = replace(
            pipeline.sources[0], derive=derive, zone=zone, explode="items" if self.in_items else None
        )
        return replace(pipeline, source=source, key_by=key_by)

    @property
    def derives_key_in_pipeline(self) -> bool:
        return self.key_by and "key" in self.shapes

    @property
    def breakable(self) -> list[str]:
        return [name for name, shape in self.shapes.items() if shape.broken is not None]

    def stored(self, rows: pa.Table, broken: Mapping[int, str]) -> pa.Table:
        """The rows as the source holds them; `broken` says by their numbers `far` which column is broken."""
        columns = {name: rows.column(name) for name in rows.column_names if name not in self.shapes}
        numbers = rows.column("far").to_pylist() if broken else [None] * rows.num_rows
        for name, shape in self.shapes.items():
            values = [
                shape.broken if broken.get(number) == name else _encoded(shape, value)
                for number, value in zip(numbers, rows.column(name).to_pylist(), strict=True)
            ]
            columns[f"raw_{name}"] = pa.chunked_array([pa.array(values, shape.kind)])
        return pa.table(columns)

    def stored_in_lists(self, rows: pa.Table, broken: Mapping[int, str]) -> pa.Table:
        """The rows as items of lists: one row for each value of `code`, and one with an empty or null list
        after each third.
        """
        raw = self.stored(rows, broken)
        in_items = [f"raw_{name}" if name in self.shapes else name for name in self.in_items]
        by_list: dict[int, list[dict[str, Any]]] = {}
        for row in raw.to_pylist():
            by_list.setdefault(row["code"], []).append(row)
        stored = []
        for number, items in by_list.items():
            outer = {name: value for name, value in items[0].items() if name not in in_items}
            stored.append({**outer, "items": [{name: item[name] for name in in_items} for item in items]})
            if number % 3 == 0:
                stored.append({**outer, "items": [] if number % 2 else None})
        fields = [field for field in raw.schema if field.name not in in_items]
        items_kind = pa.list_(pa.struct([raw.schema.field(name) for name in in_items]))
        return pa.Table.from_pylist(stored, schema=pa.schema([*fields, ("items", items_kind)]))


def _encoded(shape: Shape, value: Any) -> Any:
    if value is None:
        return None
    return shape.encode(to_ms(value) if isinstance(value, datetime) else value)


def raw_columns(names: Sequence[str] = tuple(SHAPES)) -> st.SearchStrategy[RawColumns]:
    """Some of the columns, each in some shape."""
    some_shapes = st.fixed_dictionaries({}, optional={name: st.sampled_from(SHAPES[name]) for name in names})
    return st.builds(RawColumns, some_shapes.filter(bool), key_by=st.booleans())
