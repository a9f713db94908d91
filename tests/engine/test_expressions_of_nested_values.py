"""Expressions that reach into JSON, structs, lists, maps and bytes, against plain Python value by value."""

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.expressions import type_of, values_of, values_of_all
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import parse_expression

FAILS = object()
USER = pa.struct([("id", pa.int64()), ("Full name", pa.string()), ("photo", pa.binary())])
SCHEMA = pa.schema(
    [
        ("j", pa.string()),
        ("payload", pa.struct([("user", USER), ("raw", pa.binary()), ("at", pa.timestamp("ms"))])),
        ("items", pa.list_(pa.int64())),
        ("raws", pa.list_(pa.struct([("raw", pa.binary()), ("n", pa.int64())]))),
        ("props", pa.map_(pa.string(), pa.string())),
        ("blobs", pa.map_(pa.string(), pa.binary())),
        ("bytes", pa.binary()),
        ("id", pa.string()),
    ]
)
texts = st.sampled_from(["", "a", "grün", 'say "x"', "\\x41", "7", "it's"])
raw = st.none() | texts.map(str.encode) | st.sampled_from([b"gr\xfcn", b"\xff", b"a\0b", b"\xed\xa0\x80"])
members = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)
documents = members.map(lambda value: json.dumps(value, ensure_ascii=False))
rows = st.fixed_dictionaries(
    {
        "j": st.none() | documents | documents.map(lambda text: text + "}") | st.just(""),
        "payload": st.none()
        | st.fixed_dictionaries(
            {
                "user": st.none()
                | st.fixed_dictionaries(
                    {"id": st.none() | st.integers(-3, 3), "Full name": st.none() | texts, "photo": raw}
                ),
                "raw": raw,
                "at": st.none() | st.just(datetime(2013, 7, 1, 23, 30)),  # noqa: DTZ001
            }
        ),
        "items": st.none() | st.lists(st.none() | st.integers(-3, 3), max_size=3),
        "raws": st.none()
        | st.lists(
            st.none() | st.fixed_dictionaries({"raw": raw, "n": st.none() | st.integers(0, 3)}), max_size=2
        ),
        "props": st.none() | st.dictionaries(st.sampled_from(["k", "l"]), st.none() | texts),
        "blobs": st.none() | st.dictionaries(st.sampled_from(["k", "l"]), raw),
        "bytes": raw,
        "id": st.none() | st.uuids().map(str) | st.uuids().map(lambda id: id.hex.upper()) | texts,
    }
)


class Fails(Exception):
    """The row fails."""


def document(row: dict[str, Any]) -> Any:
    try:
        return json.loads(row["j"])
    except ValueError:
        raise Fails from None


def decoded(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        raise Fails from None


def member(value: Any, *path: str | int) -> Any:
    """What a path leads to; None where it leads nowhere."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and 0 <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def as_text(value: Any) -> str | None:
    """What ``->>`` gives: a text without its quotes, anything else as JSON without blanks, null for null."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def on_json(function: Any) -> Any:
    return lambda row: None if row["j"] is None else function(document(row))


def kind(value: Any) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "UBIGINT" if value >= 0 else "BIGINT"
    return {type(None): "NULL", str: "VARCHAR", list: "ARRAY", dict: "OBJECT"}[type(value)]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def part(row: dict[str, Any], *path: str) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def item(values: list[Any] | None, number: int) -> Any:
    """The item of a number that counts from one, or from the end below zero."""
    if values is None or number == 0 or abs(number) > len(values):
        return None
    return values[number - 1 if number > 0 else number]


def all_decoded(values: Any) -> Any:
    """A value with every bytes within as text."""
    if isinstance(values, bytes):
        return decoded(values)
    if isinstance(values, list):
        return [all_decoded(value) for value in values]
    if isinstance(values, dict):
        return {name: all_decoded(value) for name, value in values.items()}
    return values


def unless_none(function: Any, value: Any) -> Any:
    return None if value is None else function(value)


def unless_it_fails(function: Any) -> Any:
    def value(row: dict[str, Any]) -> Any:
        try:
            return function(row)
        except Fails:
            return None

    return value


def uuid_text(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise Fails from None


VALUES: dict[str, Any] = {
    "j ->> 'a'": on_json(lambda value: as_text(member(value, "a"))),
    "json_extract_string(j, '$.a.b')": on_json(lambda value: as_text(member(value, "a", "b"))),
    "j -> 'a' ->> 'b'": on_json(lambda value: as_text(member(value, "a", "b"))),
    "(j -> 'a' ->> 'b') = '7'": on_json(
        lambda value: unless_none("7".__eq__, as_text(member(value, "a", "b")))
    ),
    "j ->> '$.a[0]'": on_json(lambda value: as_text(member(value, "a", 0))),
    "json_array_length(j)": on_json(lambda value: len(value) if isinstance(value, list) else 0),
    "json_type(j)": on_json(kind),
    "json_valid(j)": lambda row: unless_none(is_json, row["j"]),
    "TRY(j ->> 'a')": unless_it_fails(on_json(lambda value: as_text(member(value, "a")))),
    "CASE WHEN json_valid(j) THEN j ->> 'a' END": unless_it_fails(
        on_json(lambda value: as_text(member(value, "a")))
    ),
    "array_to_string(json_keys(j), '+')": on_json(
        lambda value: "+".join(value) if isinstance(value, dict) else ""
    ),
    "payload.user.id": lambda row: part(row, "payload", "user", "id"),
    "payload.user.ID + 1": lambda row: unless_none(lambda n: n + 1, part(row, "payload", "user", "id")),
    'upper(payload.user."Full name")': lambda row: unless_none(
        str.upper, part(row, "payload", "user", "Full name")
    ),
    "payload.user IS NULL": lambda row: part(row, "payload", "user") is None,
    "hour(payload.at AT TIME ZONE 'Europe/Berlin')": lambda row: unless_none(
        lambda _: 1, part(row, "payload", "at")
    ),
    "payload.raw": lambda row: decoded(part(row, "payload", "raw")),
    "CAST(payload.user.photo AS VARCHAR) || '!'": lambda row: unless_none(
        "{}!".format, decoded(part(row, "payload", "user", "photo"))
    ),
    "payload.raw = 'grün'": lambda row: unless_none("grün".__eq__, decoded(part(row, "payload", "raw"))),
    "TRY_CAST(payload.raw AS VARCHAR)": unless_it_fails(lambda row: decoded(part(row, "payload", "raw"))),
    "sha256(payload.raw)": lambda row: unless_none(
        lambda content: hashlib.sha256(content).hexdigest(), part(row, "payload", "raw")
    ),
    "items[1]": lambda row: item(row["items"], 1),
    "items[-1]": lambda row: item(row["items"], -1),
    "items[9]": lambda row: None,
    "len(items[2:3])": lambda row: unless_none(lambda values: len(values[1:3]), row["items"]),
    "len(items)": lambda row: unless_none(len, row["items"]),
    "list_contains(items, 1)": lambda row: unless_none(lambda values: 1 in values, row["items"]),
    "1 IN items": lambda row: unless_none(lambda values: 1 in values, row["items"]),
    "array_to_string([n + 1 FOR n IN items IF n > 0], ',')": lambda row: unless_none(
        lambda values: ",".join(str(n + 1) for n in values if n is not None and n > 0), row["items"]
    ),
    "len(list_filter(items, lambda n: n > 0))": lambda row: unless_none(
        lambda values: sum(n is not None and n > 0 for n in values), row["items"]
    ),
    "raws[1].raw": lambda row: decoded(part({"raw": item(row["raws"], 1)}, "raw", "raw")),
    "raws[1].n + len(raws)": lambda row: unless_none(
        lambda n: n + len(row["raws"]), part({"raw": item(all_decoded(row["raws"]), 1)}, "raw", "n")
    ),
    "raws[1]['n'] * 2": lambda row: unless_none(
        lambda n: n * 2, part({"raw": item(row["raws"], 1)}, "raw", "n")
    ),
    "(raws)[-1].raw": lambda row: part({"raw": item(all_decoded(row["raws"]), -1)}, "raw", "raw"),
    "payload['raw'] || payload['user']['id']": lambda row: (
        None
        if None in (decoded(part(row, "payload", "raw")), part(row, "payload", "user", "id"))
        else f"{part(row, 'payload', 'raw').decode()}{part(row, 'payload', 'user', 'id')}"
    ),
    "bytes[1]": lambda row: unless_none(lambda text: text[:1], decoded(row["bytes"])),
    "hex(raws[1].raw)": lambda row: unless_none(
        lambda content: content.hex().upper(), part({"raw": item(row["raws"], 1)}, "raw", "raw")
    ),
    "coalesce(array_to_string([r.raw FOR r IN raws], ''), left(to_json(raws), 0))": lambda row: unless_none(
        lambda values: "".join(value["raw"] or "" for value in values if value), all_decoded(row["raws"])
    ),
    "to_json(raws)": lambda row: unless_none(
        lambda values: as_text([value and {"raw": value["raw"], "n": value["n"]} for value in values]),
        all_decoded(row["raws"]),
    ),
    "TRY_CAST(to_json(raws) AS VARCHAR) IS NULL": lambda row: (
        all_decoded(row["raws"]) is None  # it fails before the cast
    ),
    "props['k']": lambda row: unless_none(lambda props: props.get("k"), row["props"]),
    "props.l": lambda row: unless_none(lambda props: props.get("l"), row["props"]),
    "cardinality(props)": lambda row: unless_none(len, row["props"]),
    "array_to_string(list_sort(map_keys(props)), '')": lambda row: unless_none(
        lambda props: "".join(sorted(props)), row["props"]
    ),
    "blobs['k']": lambda row: unless_none(lambda blobs: decoded(blobs.get("k")), row["blobs"]),
    "array_to_string(list_sort([coalesce(x, '') FOR x IN map_values(blobs)]), '')": lambda row: unless_none(
        lambda blobs: "".join(sorted(text or "" for text in blobs.values())),
        all_decoded(row["blobs"]),
    ),
    "base64(blobs['k'])": lambda row: unless_none(
        lambda content: base64.b64encode(content).decode(), (row["blobs"] or {}).get("k")
    ),
    "bytes": lambda row: decoded(row["bytes"]),
    "decode(bytes)": lambda row: decoded(row["bytes"]),
    "TRY(bytes)": unless_it_fails(lambda row: decoded(row["bytes"])),
    "length(bytes)": lambda row: unless_none(len, decoded(row["bytes"])),
    "octet_length(bytes)": lambda row: unless_none(len, row["bytes"]),
    "hex(bytes)": lambda row: unless_none(lambda content: content.hex().upper(), row["bytes"]),
    "md5(bytes)": lambda row: unless_none(lambda content: hashlib.md5(content).hexdigest(), row["bytes"]),
    "sha256(bytes)": lambda row: unless_none(
        lambda content: hashlib.sha256(content).hexdigest(), row["bytes"]
    ),
    "decode(from_base64(base64(bytes)))": lambda row: decoded(row["bytes"]),
    "octet_length(encode(bytes))": lambda row: unless_none(
        lambda text: len(text.encode()), decoded(row["bytes"])
    ),
    "CAST(id AS UUID)": lambda row: unless_none(uuid_text, row["id"]),
    "TRY_CAST(id AS UUID)": unless_it_fails(lambda row: unless_none(uuid_text, row["id"])),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", VALUES)
@settings(max_examples=25, deadline=None)
@given(values=st.lists(rows, min_size=1, max_size=6))
def test_an_expression_gives_what_python_computes(text: str, values: list[dict[str, Any]]) -> None:
    expression = parse_expression("p", "derive['x']", text)
    table = pa.Table.from_pylist(values, schema=SCHEMA)
    got = values_of(expression, table)
    assert got.column.type == type_of("p", "derive['x']", expression, SCHEMA)
    is_failed = [False] * len(values) if got.is_failed is None else got.is_failed.tolist()
    for number, row in enumerate(values):
        try:
            expected = VALUES[text](row)
        except Fails:
            expected = FAILS
        assert (FAILS if is_failed[number] else got.column[number].as_py()) == expected, row
        alone = values_of(expression, table.slice(number, 1))
        assert alone.column.to_pylist() == got.column.slice(number, 1).to_pylist()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    texts_of_some=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5),
    values=st.lists(rows, min_size=1, max_size=6),
)
def test_expressions_computed_together_give_what_each_gives_alone(
    texts_of_some: list[str], values: list[dict[str, Any]]
) -> None:
    expressions = [parse_expression("p", "d", text) for text in texts_of_some]
    table = pa.Table.from_pylist(values, schema=SCHEMA)
    for expression, together in zip(expressions, values_of_all(expressions, table), strict=True):
        alone = values_of(expression, table)
        assert together.column.equals(alone.column)
        assert (together.is_failed is None) == (alone.is_failed is None)
        assert alone.is_failed is None or (together.is_failed == alone.is_failed).all()


CASES = pa.table(
    {
        "s": ["Europe/Berlin", "Nowhere", None],
        "t": pa.array([datetime(2013, 7, 1, tzinfo=UTC)] * 3, pa.timestamp("us")),
        "a.b": [1, 2, 3],
        "user-id": [1, 2, 3],
        "Ärger": [1, 2, 3],
        "ärger": [4, 5, 6],
        "order": [1, 2, 3],
        'odd "name"': [1, 2, 3],
        "rows": [{"id": 1}, {"id": 2}, None],
        "Twin": [1, 2, 3],
        "twin": [1, 2, 3],
        "twins": pa.array([{"Id": 1, "iD": 2}] * 3),
        "list": pa.array([[{"x": 1}]] * 3),
        "main": pa.array([{"rows": {"id": 7}}] * 3),
        "number": pa.array([2**63, 1, None], pa.uint64()),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a.b"', [1, 2, 3]),
        ('"user-id" + "order"', [2, 4, 6]),
        ("ärger * Ärger", [4, 10, 18]),
        ('"odd ""name"""', [1, 2, 3]),
        ("rows.id", [1, 2, None]),
        ("main.rows.id", [7, 7, 7]),
        ("number", [FAILS, 1, None]),
        ("t AT TIME ZONE s", [datetime(2013, 7, 1, 2, tzinfo=UTC), FAILS, None]),
        ('epoch_ms(9223372036854775806 + "order")', [FAILS] * 3),
        ('to_timestamp(1e300 * "order")', [FAILS] * 3),
        ("epoch_ms(253402300800000) IS NULL", [False] * 3),  # year 10000 is a time like any other
        ("make_timestamp_ns(1999)", [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)] * 3),
        ("try_strptime(s, '%Y')", [None] * 3),
        ("try_strptime('2013', ['%m', '%Y'])", [datetime(2013, 1, 1, tzinfo=UTC)] * 3),
        ("170141183460469231731687303715884105727", [FAILS] * 3),
        ("CAST(CAST('{\"a\": [1, 2]}' AS JSON) AS STRUCT(a BIGINT[])).a[2]", [2] * 3),
        ("CAST('{\"a\": 1}'::JSON AS MAP(VARCHAR, INTEGER))['a']", [1] * 3),
        ("json_object('a', {'b': [1, NULL]})", ['{"a":{"b":[1,null]}}'] * 3),
        ('TRY(1 / ("order" - 1))', [None, 1, 0]),
    ],
)
def test_what_is_hard_to_name_or_to_hold(text: str, expected: list[Any]) -> None:
    expression = parse_expression("p", "d", text)
    type_of("p", "d", expression, CASES.schema)
    column, is_failed = values_of(expression, CASES)
    fails = [False] * 3 if is_failed is None else is_failed.tolist()
    assert [FAILS if f else value for f, value in zip(fails, column.to_pylist(), strict=True)] == expected


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@settings(max_examples=100, deadline=None)
@given(number=st.sampled_from([0, 1]), seconds=st.integers(-4 * 3600, 4 * 3600))
def test_a_local_time_that_does_not_exist_has_the_offset_before_and_one_of_two_is_the_later(
    zone: str, number: int, seconds: int
) -> None:
    change = changes_of_offset(zone)[number]
    local = (change.astimezone(ZoneInfo(zone)) + timedelta(seconds=seconds)).replace(tzinfo=None, fold=0)
    before, after = (local.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    exists = before.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local
    text = f"timezone('{zone}', (strptime(local, '%Y-%m-%d %H:%M:%S')))"
    column, is_failed = values_of(parse_expression("p", "d", text), pa.table({"local": [str(local)]}))
    assert is_failed is None
    assert column[0].as_py() == (after if exists else before).astimezone(UTC)


def changes_of_offset(zone: str) -> list[datetime]:
    """The two hours of 2013 before whose ends the clock of a zone is put forward or back."""
    hours = [datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(365 * 24)]
    offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
    return [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("user-id", "at column 1: .* no column 'user'; the column user-id is written \"user-id\""),
        ("a.b", "at column 1: .* no column 'a'; the column a.b is written \"a.b\""),
        ("1 + user id", 'at column 10: .*; a column of the name user id is written "user id"'),
        ("rows.no", "at column 1: rows has no field no; it has id"),
        ("rows.id.no", "rows.id is int64, which has no fields"),
        ("list.x", r"list is a list; a field of its first item is written list\[1\].x"),
        ("s.a", "s is text, which has no fields; a member of JSON is written s ->> 'a'"),
        ("twin", "columns 'Twin' and 'twin', which SQL can't tell apart; rename one of them"),
        ("twins.id", "twins has fields 'Id' and 'iD', which SQL can't tell apart"),
        ("to_json(twins)", "twins has fields 'Id' and 'iD', which SQL can't tell apart"),
        ("MAIN.rows.id", "no column 'MAIN'; it is written main"),
        ("s ->> '$.a['", "JSON path error"),
        ("t AT TIME ZONE 'Europe/Berln'", "no time zone; one is written e.g. 'Europe/Berlin'"),
        ("1 + s -> 'a'", r"put them in parentheses, e.g. 'x' \|\| \(payload ->> 'a'\)"),
        ("s -> 'a' = '1'", r"put it in parentheses, e.g. \(payload -> 'a'\) = '1'"),
        ("list_filter(list, x -> x)", "a lambda is written lambda x"),
        ("unhex(s) = 'a'", r"unhex\(…\) gives bytes: decode\(unhex\(…\)\) is their text"),
        ("CAST(from_base64(s) AS VARCHAR)", r"decode\(from_base64\(…\)\) is their text"),
        ("CAST('now' AS TIMESTAMP)", "now"),
        ("rows", r"cast it to a number, .*, take one part of it, or make text of it: to_json\("),
    ],
)
def test_a_refusal_names_the_line_to_write(text: str, rule: str) -> None:
    with pytest.raises(PipelineError, match=rule):
        type_of("p", "d", parse_expression("p", "d", text), CASES.schema)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "unnest(list)",
            "getenv('HOME')",
            "nextval('a')",
            "current_setting('TimeZone')",
            "range(3)",
            "uuidv7()",
        ),
        *(
            "list_aggregate(list, 'sum')",
            "list_distinct(list)",
            "json_serialize_sql('SELECT 1')",
            "getvariable('a')",
        ),
        *(
            "list_transform(list, lambda x: random())",
            "[now() FOR x IN list]",
            "s = ANY(list)",
            "main.upper(s)",
        ),
        *(
            "json_group_array(s)",
            "#1",
            "read_json('a')",
            "array_agg(s)",
            "s IN (SELECT 1)",
            "rows.*",
            "COLUMNS(*)",
        ),
        *("json_execute_serialized_sql(s)", "query('SELECT 1')", "struct_pack(a := now())", "txid_current()"),
    ],
)
def test_nothing_but_the_row_is_let_in(text: str) -> None:
    with pytest.raises(PipelineError):
        type_of("p", "d", parse_expression("p", "d", text), CASES.schema, may_be_nested=True)


def test_a_list_a_map_or_a_struct_is_a_value_where_the_caller_takes_one() -> None:
    expression = parse_expression("p", "d", "list")
    kind = type_of("p", "d", expression, CASES.schema, may_be_nested=True)
    assert values_of(expression, CASES).column.type == kind
    assert values_of(expression, CASES).column.to_pylist() == [[{"x": 1}]] * 3


def test_json_and_time_zones_are_part_of_duckdb_and_nothing_else_can_be_loaded() -> None:
    import duckdb

    from slackwater.pipelines.expression_database import connect

    loaded = duckdb.sql(
        "SELECT extension_name, install_mode FROM duckdb_extensions() WHERE loaded"
    ).fetchall()
    assert {("icu", "STATICALLY_LINKED"), ("json", "STATICALLY_LINKED")} <= set(loaded)
    with connect() as connection:
        for statement in (
            "LOAD httpfs",
            "INSTALL spatial",
            "SET enable_external_access = true",
            "SET threads = 2",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT * FROM 'LICENSE'")
