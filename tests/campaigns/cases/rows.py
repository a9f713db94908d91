"""Rows that are bad by themselves: times, keys and values."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from math import inf, nan
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tests.campaigns.cases.world import LAST_HOUR, SETTINGS, Case, Row, World, assert_equal, row
from tests.cli.own_source import SCHEMA, TIME, moment

GOOD = [row(hour, x=int(hour)) for hour in (0, 1, 2, 5, 9.5)]
Act = Callable[[World], None]
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _times()
    yield from _types_of_times()
    yield from _keys()
    yield from _values()


# --- times


def _with_numbers(world: World, rows: list[Row], column: str, number: int) -> None:
    """Fill the source; in the first row the column of times has a number of microseconds that Python has no
    time for.
    """
    table = pa.Table.from_pylist([*rows, row(LAST_HOUR, "zz-last")], schema=SCHEMA)
    numbers = [number, *table.column(column).cast(pa.int64()).to_pylist()[1:]]
    place = table.column_names.index(column)
    table = table.set_column(place, column, pa.array(numbers, pa.int64()).cast(TIME))
    write_deltalake(world.source, table, mode="append")


def _one_bad_time(world: World, column: str, number: int, code: str | None) -> None:
    _with_numbers(world, [row(3, "bad"), *GOOD], column, number)
    world.runs()
    world.publishes_what_duckdb_counts(GOOD)
    world.quarantines({} if code is None else {code: 1})


def _one_bad_row(world: World, bad: Row, codes: dict[str, int]) -> None:
    world.fill([bad, *GOOD])
    world.runs()
    world.publishes_what_duckdb_counts(GOOD)
    world.quarantines(codes)


def _us(year: int, month: int = 1, day: int = 1) -> int:
    return int(
        (datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
        / timedelta(microseconds=1)
    )


def _times() -> Iterator[Case]:
    for name, number, code in (
        ("the last microsecond of int64", INT64_MAX, "time_out_of_range"),
        ("the first microsecond of int64", INT64_MIN, "time_out_of_range"),
        ("the year 0", _us(1) - 1, "time_out_of_range"),
        ("the first moment of the year 1", _us(1), "time_out_of_range"),
        (
            "the last microsecond of the year 9999",
            _us(9999, 12, 31) + 86_400_000_000 - 1,
            "time_out_of_range",
        ),
        ("the year 10000", _us(9999, 12, 31) + 86_400_000_000, "time_out_of_range"),
        ("the year 9998", _us(9998), "ahead_of_arrival"),
        ("a day and a microsecond ahead", _us(2013) + 27 * 3_600_000_000 + 1_000, "ahead_of_arrival"),
    ):
        yield Case(
            "times",
            f"event time: {name}",
            "quarantine",
            partial(_one_bad_time, column="e", number=number, code=code),
        )
    for name, number in (
        ("the last microsecond of int64", INT64_MAX),
        ("the year 10000", _us(9999, 12, 31) + 86_400_000_000),
    ):
        yield Case(
            "times",
            f"arrival time: {name}",
            "quarantine",
            partial(_one_bad_time, column="a", number=number, code="arrival_out_of_range"),
        )
    for name, number in (
        ("the first microsecond of int64", INT64_MIN),
        ("the year 1", _us(1)),
        ("the year 9999", _us(9999)),
        ("a microsecond before the lineage's start", _us(2013) - 1),
    ):
        yield Case(
            "times",
            f"arrival time: {name}",
            "right result",
            partial(_one_bad_time, column="a", number=number, code=None),
        )
    for name, bad, code in (
        ("null event time", {**row(3), "e": None}, "null_event_time"),
        ("null arrival time", {**row(3), "a": None}, "null_arrival"),
        ("null key", row(3, None), "null_key"),
        ("all null", {"e": None, "a": None, "k": None, "x": None}, "null_arrival"),
        ("null key and event time", {**row(3, None), "e": None}, "null_key"),
    ):
        yield Case("times", name, "quarantine", partial(_one_bad_row, bad=bad, codes={code: 1}))
    microsecond = timedelta(microseconds=1)
    edges = [
        {**row(3), "e": moment(2) - microsecond},
        {**row(3), "e": moment(2)},
        {**row(3), "e": moment(4) - microsecond},
        {**row(24), "a": moment(24) - microsecond},
        {**row(24), "a": moment(24)},
        {**row(24), "e": datetime(2012, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "a": moment(0)},
    ]
    yield Case(
        "times",
        "times at the edges of windows and slices",
        "right result",
        partial(publishes_all, rows=edges),
    )
    early = [{**row(0), "e": moment(-hours)} for hours in (1, 30, 60)]
    yield Case(
        "times", "events before the lineage's start", "right result", partial(publishes_all, rows=early)
    )
    yield Case("times", "events of the year 2", "right result", _year_2)
    for name, factor in (("seconds", 1_000_000), ("milliseconds", 1_000)):
        yield Case(
            "times", f"{name} that were read as microseconds", "right result", partial(_unit, factor=factor)
        )
    behind = partial(_behind, codes={"behind_arrival": 1})
    yield Case("times", "an event longer before its arrival than max_behind", "quarantine", behind)


def publishes_all(world: World, rows: list[Row], schema: pa.Schema | None = None) -> None:
    """Every row is usable, and published."""
    world.fill(rows, schema)
    world.runs()
    world.publishes_what_duckdb_counts(rows, schema)
    world.quarantines({})


def _year_2(world: World) -> None:
    rows = [{**row(0), "e": datetime(2, 1, 1, hour, tzinfo=UTC)} for hour in (0, 1, 5)]
    publishes_all(world, rows)


def _behind(world: World, codes: dict[str, int]) -> None:
    world.declare(f"{SETTINGS}, max_behind=timedelta(hours=2)")
    _one_bad_row(world, {**row(4), "e": moment(1)}, codes)


def _unit(world: World, factor: int) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows = [{**one, "e": epoch + (one["e"] - epoch) / factor} for one in GOOD]
    world.write(rows)
    words = "as a smaller unit"
    planned = world.succeeds("plan", "own", "--to", "2013-01-02")
    assert words in planned, f"`plan` says nothing of the unit: {planned}"
    text = world.runs("2013-01-02")
    assert words in text, f"`run` says nothing of the unit: {text}"


def _types_of_times() -> Iterator[Case]:
    for unit in ("ms", "us", "ns"):
        for zone in ("UTC", None):
            kind = pa.timestamp(unit, tz=zone)
            schema = pa.schema([("e", kind), ("a", kind), *[SCHEMA.field(n) for n in ("k", "x")]])
            name = f"times as {kind}"
            yield Case("times", name, "right result", partial(_right_of_type, schema=schema))
    for column in ("e", "a"):
        for kind, value in (
            (pa.string(), "2013-01-01T03:00:00Z"),
            (pa.int64(), 1_356_998_400),
            (pa.date32(), date(2013, 1, 1)),
            (pa.float64(), 1.5),
            (pa.bool_(), True),
        ):
            schema = pa.schema([pa.field(f.name, kind) if f.name == column else f for f in SCHEMA])
            act = partial(_refused_type, schema=schema, column=column, value=value)
            yield Case("times", f"column {column!r} of type {kind}", "error", act)


def _right_of_type(world: World, schema: pa.Schema) -> None:
    last = row(LAST_HOUR, "zz-last")
    rows = [*GOOD, last]
    if schema.field("e").type.tz is None:
        rows = [
            {**one, "e": one["e"].replace(tzinfo=None), "a": one["a"].replace(tzinfo=None)} for one in rows
        ]
    world.write(rows, schema)
    world.runs()
    world.publishes_what_duckdb_counts(GOOD)


def _refused_type(world: World, schema: pa.Schema, column: str, value: Any) -> None:
    world.write([{**row(3), column: value}], schema)
    world.refuses(["run", "own", "--to", "2013-01-02"], f"{column}")
    world.refuses(["plan", "own", "--to", "2013-01-02"], f"{column}")


# --- keys

TEXTS = {
    "empty": "",
    "a space": " ",
    "trailing spaces": "a  ",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "NUL": "a\x00b",
    "control characters": "\x01\x02\x1b[31m\x7f",
    "quotes": "a'b\"c`d",
    "SQL": "'; DROP TABLE published; --",
    "a path": "../../etc/passwd",
    "an absolute path": "/tmp/x",
    "a drive": "C:\\Windows",
    "a partition": "k=a/k=b",
    "newlines": "a\nb\r\nc\td",
    "percent": "%2F%00%",
    "the text null": "null",
    "Hive's null": "__HIVE_DEFAULT_PARTITION__",
    "JSON": '{"a": [1, null]}',
    "composed": "é",
    "decomposed": "e\u0301",
    "right to left": "\u202eabc",
    "beyond the BMP": "\U0010ffff",
    "a byte order mark": "\ufeffa",
    "the last code points": "\uffff\ufffe",
    "an option": "--help",
    "glob": "*?[a-z]{x}",
    "a megabyte": "k" * (1 << 20),
}
_LONGEST_ARGUMENT = 100_000


def _keys() -> Iterator[Case]:
    for name, text in TEXTS.items():
        yield Case("keys", f"text: {name}", "right result", partial(_key, key=text))
    everything = [row(hour, text, x=hour) for hour, text in enumerate(TEXTS.values())]
    yield Case("keys", "all of these texts together", "right result", partial(publishes_all, rows=everything))
    numbers = {pa.int8(): (-128, 127), pa.int16(): (-32768, 32767), pa.int32(): (-(2**31), 2**31 - 1)}
    for kind, values in {
        **numbers,
        pa.int64(): (INT64_MIN, INT64_MAX, 0),
        pa.bool_(): (True, False),
        pa.date32(): (date.min, date.max, date(1970, 1, 1)),
    }.items():
        yield Case(
            "keys",
            f"{kind}: the least and the greatest",
            "right result",
            partial(_typed_keys, kind=kind, values=values),
        )
    for kind, value in (
        (pa.float64(), 1.0),
        (pa.float32(), 1.0),
        (pa.decimal128(10, 2), Decimal("1.00")),
        (TIME, moment(0)),
        (pa.binary(), b"a"),
        (pa.list_(pa.string()), ["a"]),
        (pa.struct([("a", pa.int64())]), {"a": 1}),
    ):
        schema = pa.schema([pa.field("k", kind) if f.name == "k" else f for f in SCHEMA])
        yield Case(
            "keys", f"of type {kind}", "error", partial(_refused_type, schema=schema, column="k", value=value)
        )
    yield Case("keys", "two columns whose texts could be one", "right result", _two_columns)
    yield Case("keys", "one key with all of 50,000 rows", "right result", partial(_many, keys=1))
    yield Case("keys", "20,000 keys", "right result", partial(_many, keys=20_000))


def _key(world: World, key: str) -> None:
    rows = [row(hour, key, x=int(hour)) for hour in (0, 1, 2.5)]
    publishes_all(world, [*rows, *GOOD] if key != "a" else rows)
    world.succeeds("state", "windows", "own")
    world.succeeds("verify", "own", "--tables")
    if "\x00" not in key and len(key) < _LONGEST_ARGUMENT:
        text = world.succeeds("history", "own", "--output", "json", f"--key={key}")
        assert text.count('"insert"') == 2, f"`history --key` shows other rows: {text[:800]}"


def _typed_keys(world: World, kind: pa.DataType, values: tuple[Any, ...]) -> None:
    schema = pa.schema([pa.field("k", kind) if f.name == "k" else f for f in SCHEMA])
    rows = [row(hour, key, x=hour) for hour, key in enumerate(values)]
    last = [row(LAST_HOUR, key) for key in values]
    world.write([*rows, *last], schema)
    world.runs()
    world.publishes_what_duckdb_counts(rows, schema)
    world.succeeds("verify", "own", "--tables")


def _two_columns(world: World) -> None:
    schema = pa.schema([*SCHEMA, ("j", pa.string())])
    world.declare(f"{SETTINGS}, key_by=['k', 'j']")
    pairs = [("a", "b|c"), ("a|b", "c"), ("", "ab"), ("ab", ""), ("a", "b"), ("a,b", "")]
    rows = [{**row(1, k), "j": j} for k, j in pairs]
    world.write([*rows, {**row(LAST_HOUR, "zz-last"), "j": ""}], schema)
    world.runs()
    published = {(one["k"], one["j"]): one["n"] for one in world.rows("published") if one["k"] != "zz-last"}
    assert_equal(published, dict.fromkeys(pairs, 1), "published")


def _many(world: World, keys: int) -> None:
    count = 50_000
    rows = [row(number * 20 / count, f"key {number % keys}", x=number) for number in range(count)]
    publishes_all(world, rows)


# --- values


def _values() -> Iterator[Case]:
    fields = {
        "total": 'agg.sum("x")',
        "least": 'agg.min("x")',
        "most": 'agg.max("x")',
        "mean": 'agg.mean("x")',
    }
    for name, kind, values, right in (
        ("NaN", pa.float64(), [1.0, nan], (nan, 1.0, nan, nan)),
        ("infinity", pa.float64(), [1.0, inf], (inf, 1.0, inf, inf)),
        ("both infinities", pa.float64(), [inf, -inf], (nan, -inf, inf, nan)),
        ("negative zero", pa.float64(), [-0.0, -0.0], (0.0, 0.0, 0.0, 0.0)),
        ("a NaN alone", pa.float64(), [nan], (nan, nan, nan, nan)),
        ("numbers that cancel", pa.float64(), [1e308, 1.0, -1e308], (1.0, -1e308, 1e308, 1 / 3)),
        ("the least denormal", pa.float64(), [5e-324, 5e-324], (1e-323, 5e-324, 5e-324, 5e-324)),
        ("float32", pa.float32(), [0.5, 0.25], (0.75, 0.25, 0.5, 0.375)),
        ("nulls alone", pa.float64(), [None, None], (None, None, None, None)),
        ("nulls alone", pa.int64(), [None, None], (None, None, None, None)),
        (
            "edges that cancel",
            pa.int64(),
            [INT64_MAX, INT64_MAX, -INT64_MAX],
            (INT64_MAX, -INT64_MAX, INT64_MAX, INT64_MAX / 3),
        ),
        ("edges", pa.int8(), [127, 127, -128], (126, -128, 127, 42.0)),
        ("edges", pa.int32(), [2**31 - 1] * 2, (2**32 - 2, 2**31 - 1, 2**31 - 1, float(2**31 - 1))),
    ):
        act = partial(_aggregated, kind=kind, values=values, fields=fields, right=right)
        yield Case("values", f"{kind}: {name}", "right result", act)
    huge = Decimal("9" * 38)
    tiny = Decimal("0.0000000001")
    for name, kind, values, right in (
        ("decimals that cancel", pa.decimal128(38, 0), [huge, huge.copy_negate(), Decimal(7)], Decimal(7)),
        (
            "decimals of ten places",
            pa.decimal128(28, 10),
            [Decimal("1") + tiny, tiny],
            Decimal("1.0000000002"),
        ),
    ):
        act = partial(
            _aggregated, kind=kind, values=values, fields={"total": fields["total"]}, right=(right,)
        )
        yield Case("values", name, "right result", act)
    for engine in ("columnar", "operator"):
        for name, kind, values in (
            ("int64", pa.int64(), [INT64_MAX, 1]),
            ("int64 below", pa.int64(), [INT64_MIN, -1]),
            ("decimal", pa.decimal128(38, 0), [huge, huge]),
        ):
            act = partial(_overflow, kind=kind, values=values, engine=engine)
            yield Case("values", f"a sum beyond {name}, {engine}", "error", act)
    for kind, value in (
        (pa.string(), "1"),
        (pa.bool_(), True),
        (pa.date32(), date(2013, 1, 1)),
        (pa.binary(), b"1"),
    ):
        schema = pa.schema([pa.field("x", kind) if f.name == "x" else f for f in SCHEMA])
        yield Case(
            "values",
            f"a sum of {kind}",
            "error",
            partial(_refused_type, schema=schema, column="x", value=value),
        )
    for text, code in (("10 / x", 1), ("CAST(k AS INTEGER)", 6), ("x * 9223372036854775807", 1)):
        yield Case(
            "values",
            f"an expression that fails: {text}",
            "quarantine",
            partial(_expression, text=text, count=code),
        )


def _aggregated(
    world: World, kind: pa.DataType, values: list[Any], fields: dict[str, str], right: tuple[Any, ...]
) -> None:
    schema = pa.schema([pa.field("x", kind) if f.name == "x" else f for f in SCHEMA])
    select = "{" + ", ".join(f"{name!r}: {text}" for name, text in fields.items()) + "}"
    for engine in ("columnar", "operator"):
        one = World(world.root / engine, schema)
        one.declare(f"{SETTINGS}, select={select}")
        one.write([*(row(0.5, x=value) for value in values), row(LAST_HOUR, "zz-last", None)], schema)
        one.succeeds("run", "own", "--to", "2013-01-03", "--engine", engine)
        [(_, published)] = one.results(*fields).items()
        # By their texts: a NaN equals none, and 0.0 equals -0.0.
        assert_equal(str(published), str(right), f"{engine}: published")


def _overflow(world: World, kind: pa.DataType, values: list[Any], engine: str) -> None:
    schema = pa.schema([pa.field("x", kind) if f.name == "x" else f for f in SCHEMA])
    world.write([*(row(0.5, x=value) for value in values), row(23, "zz-last", None)], schema)
    command = ["run", "own", "--to", "2013-01-02", "--engine", engine]
    world.refuses(command, "'a'", "2013-01-01", codes=(1,))


def _expression(world: World, text: str, count: int) -> None:
    world.declare(f"{SETTINGS}, derive={{'y': {text!r}}}, select={{'n': agg.count(), 'total': agg.sum('y')}}")
    rows = [row(0, x=0), row(1, x=2), *([] if "CAST" in text else [row(2, x=-1), row(3, x=1)])]
    world.fill(rows)
    world.runs()
    [code] = world.quarantine_codes()
    assert_equal(code, "expression_failed", "quarantine")
