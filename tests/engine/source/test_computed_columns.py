"""Computed columns of a source: times of a zone, exploded lists, derived columns, and what fails."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.computed_columns import (
    compute,
    description,
    schema_with_computed_columns,
    stored_names,
)
from slackwater.engine.source.parquet_folder import FolderPlace
from slackwater.engine.source.pinning import pin
from slackwater.pipelines import DeltaSource, ParquetSource
from slackwater.pipelines.errors import PipelineError
from tests.properties.search import searched

NAIVE = pa.timestamp("us")
BERLIN = ZoneInfo("Europe/Berlin")


def declared(**declarations):
    return DeltaSource("t", event_time="at", arrival_time="seen", **declarations)


def computed(source, rows, *columns):
    schema = schema_with_computed_columns(source, rows.schema)
    return compute(schema, columns, rows.select(stored_names(schema, columns)))


def moment_in_berlin(local):
    """The moment of a local time: a skipped one as the clocks before it go on, the second of two."""
    first = local.replace(tzinfo=BERLIN).astimezone(UTC)
    is_skipped = first.astimezone(BERLIN).replace(tzinfo=None) != local
    return first if is_skipped else local.replace(tzinfo=BERLIN, fold=1).astimezone(UTC)


CHANGES_OF_CLOCKS = st.sampled_from(["2025-03-30T02:00", "2025-10-26T02:00"]).map(datetime.fromisoformat)
MINUTES = st.integers(-100, 160)


@given(st.lists(st.tuples(CHANGES_OF_CLOCKS, MINUTES), min_size=1))
@searched(30, long=300)
def test_times_without_a_zone_are_of_the_zone_of_the_source(places):
    local = [change + timedelta(minutes=minutes) for change, minutes in places]
    rows = pa.table({"at": pa.array([*local, None], NAIVE)})
    source = declared(zone="Europe/Berlin", derive={"hour": 'hour("at")'})
    schema = schema_with_computed_columns(source, rows.schema)
    assert schema.field("at").type == pa.timestamp("us", tz="UTC")
    values = computed(source, rows, "at", "hour").rows
    expected = [*map(moment_in_berlin, local), None]
    assert values.column("at").to_pylist() == expected
    assert values.column("hour").to_pylist() == [None if at is None else at.hour for at in expected]


def test_a_skipped_hour_counts_as_the_next_and_of_two_the_second_counts():
    local = [datetime.fromisoformat(text) for text in ("2025-03-30T02:30", "2025-10-26T02:30")]
    rows = pa.table({"at": pa.array(local, NAIVE)})
    assert computed(declared(zone="Europe/Berlin"), rows, "at").rows.column("at").to_pylist() == [
        datetime(2025, 3, 30, 1, 30, tzinfo=UTC),  # 03:30 of the summer
        datetime(2025, 10, 26, 1, 30, tzinfo=UTC),  # 02:30 of the winter
    ]


def test_a_derived_time_without_a_zone_is_of_the_zone_too_and_a_moment_stays():
    rows = pa.table({"text": ["2025-07-01 12:00", None], "ms": [1751364000000, None]})
    source = declared(
        zone="Europe/Berlin",
        derive={"at": "strptime(text, '%Y-%m-%d %H:%M')", "seen": "to_timestamp(ms / 1000)"},
    )
    values = computed(source, rows, "at", "seen").rows
    noon = datetime(2025, 7, 1, 10, tzinfo=UTC)
    assert values.column("at").to_pylist() == values.column("seen").to_pylist() == [noon, None]


def test_numbers_that_count_since_1970_are_moments_of_utc_whatever_the_zone():
    noon = datetime(2025, 7, 1, 12, tzinfo=UTC)
    rows = pa.table({"s": [int(noon.timestamp()), None]})
    texts = ["to_timestamp(s)", "epoch_ms(1000 * s)", "(make_timestamp(1000000 * s))"]
    texts += ["make_timestamp_ms(1000 * s)", "make_timestamp_ns(1000000000 * s)"]
    texts += ["TRY(epoch_ms(1000 * s) AT TIME ZONE 'UTC')"]
    derive = {f"t{number}": text for number, text in enumerate(texts)}
    values = computed(declared(zone="Europe/Berlin", derive=derive), rows, *derive).rows
    assert [column.to_pylist() for column in values.columns] == [[noon, None]] * len(texts)


def test_times_of_utc_within_an_expression_of_a_source_with_a_zone_are_refused_with_the_line():
    schema = pa.schema({"n": pa.int64(), "text": pa.string()})
    mixed = "COALESCE(TRY_CAST(text AS TIMESTAMP), epoch_ms(n))"
    source = declared(zone="Europe/Berlin", derive={"at": mixed})
    with pytest.raises(PipelineError, match=r"column 39: [^\0]* as \(t AT TIME ZONE 'Europe/Berlin'\)\n"):
        schema_with_computed_columns(source, schema)
    alike = "COALESCE(CAST(text AS TIMESTAMP) AT TIME ZONE 'Europe/Berlin', epoch_ms(n) AT TIME ZONE 'UTC')"
    rows = pa.table({"n": [0, 0], "text": [None, "2025-07-01 12:00"]}, schema)
    values = computed(declared(zone="Europe/Berlin", derive={"at": alike}), rows, "at").rows
    noon = datetime(2025, 7, 1, 10, tzinfo=UTC)
    assert values.column("at").to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC), noon]


ITEMS = pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int64())]))


@given(st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3), max_size=8))
@searched(40, long=400)
def test_each_item_of_a_list_is_a_row_and_a_list_without_items_is_one_too(lists):
    items = [
        None if numbers is None else [None if n is None else {"sku": f"s{n}", "n": n} for n in numbers]
        for numbers in lists
    ]
    rows = pa.table({"id": pa.array(range(len(lists)), pa.int64()), "items": pa.array(items, ITEMS)})
    source = declared(explode="items", derive={"double": "2 * item.n"})
    result = computed(source, rows, "id", "item", "item_number", "double")
    expected = [
        {"id": place, "item": item, "item_number": number, "double": None if item is None else 2 * item["n"]}
        for place, row in enumerate(items)
        for number, item in (enumerate(row, 1) if row else [(None, None)])
    ]
    assert result.rows.to_pylist() == expected
    assert result.item_numbers is not None
    assert result.item_numbers.tolist() == [row["item_number"] or 0 for row in expected]


def test_a_failure_is_of_the_columns_that_come_of_it():
    rows = pa.table({"text": ["1", "x", None]})
    source = declared(
        derive={
            "n": "CAST(text AS BIGINT)",
            "m": "n + 1",
            "length": "length(text)",
            "k": "TRY_CAST(text AS BIGINT)",
        }
    )
    result = computed(source, rows, "m", "length", "k")
    assert result.rows.to_pylist() == [
        {"m": 2, "length": 1, "k": 1},
        {"m": None, "length": 1, "k": None},
        {"m": None, "length": None, "k": None},
    ]
    failures = {failure.column: failure.rows.tolist() for failure in result.failures}
    assert failures == {"n": [False, True, False], "m": [False, True, False]}
    assert [failure.declaration for failure in result.failures] == ["derive['n']", "derive['m']"]
    assert computed(source, rows, "length", "k").failures == ()


def test_a_list_that_can_not_be_read_fails_as_one_row():
    rows = pa.table({"value": ['{"items": [1, 2]}', '{"items": [', '{"items": []}']})
    source = declared(explode="CAST(value -> '$.items' AS BIGINT[])", derive={"n": "item + 1"})
    result = computed(source, rows, "n")
    assert result.rows.column("n").to_pylist() == [2, 3, None, None]
    [explosion, derived] = result.failures
    assert explosion.declaration == "explode"
    assert explosion.rows.tolist() == derived.rows.tolist() == [False, False, True, False]
    assert np.array_equal(result.item_numbers, [1, 2, 0, 0])


def test_stored_columns_are_named_that_computed_ones_come_from():
    stored = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("items", ITEMS), ("at", NAIVE)])
    schema = schema_with_computed_columns(
        declared(zone="Asia/Tokyo", derive={"c": "a + 1", "d": "c * 2"}), stored
    )
    assert stored_names(schema, ["d"]) == ["a"]
    assert stored_names(schema, ["at", "b"]) == ["b", "at"]
    schema = schema_with_computed_columns(declared(explode="items", derive={"n": "item.n"}), stored)
    assert stored_names(schema, ["b"]) == ["b", "items"]
    assert stored_names(schema, ["n"]) == ["items"]


@pytest.mark.parametrize(
    ("declarations", "others"),
    [
        ({"derive": {"at": "epoch_ms(ms)"}}, {"derive": {"at": "epoch_ms(ms + 1)"}}),
        (
            {"derive": {"n": "ms + 1", "at": "epoch_ms(n)"}},
            {"derive": {"n": "ms + 2", "at": "epoch_ms(n)"}},
        ),
        (
            {"derive": {"at": "epoch_ms(item)"}, "explode": "times"},
            {"derive": {"at": "epoch_ms(item)"}, "explode": "times[1:1]"},
        ),
        ({"derive": {"at": "local"}, "zone": "Europe/Berlin"}, {"derive": {"at": "local"}, "zone": "UTC"}),
    ],
    ids=["its own", "of a column that it reads", "of its list", "of the zone"],
)
def test_with_another_expression_a_column_is_described_otherwise(declarations, others):
    stored = pa.schema([("ms", pa.int64()), ("times", pa.list_(pa.int64())), ("local", NAIVE)])
    first, second, third = (
        description(schema_with_computed_columns(declared(**each), stored), "at")
        for each in (declarations, others, {**declarations, "derive": {**declarations["derive"], "b": "ms"}})
    )
    assert first != second and first == third


@pytest.mark.parametrize(
    ("declarations", "text"),
    [
        ({"derive": {"ms": "ms + 1"}}, "derive['ms']: the source has a column 'ms'"),
        ({"explode": "ms"}, "it must be a list"),
        ({"explode": "CAST(ms AS VARCHAR)"}, "explode='CAST(CAST(ms AS VARCHAR) AS JSON[])'"),
        ({"derive": {"at": "epoch_ms(mss)"}}, "no column 'mss'"),
    ],
)
def test_columns_that_can_not_be_computed_are_refused(declarations, text):
    with pytest.raises(PipelineError) as refusal:
        schema_with_computed_columns(declared(**declarations), pa.schema([("ms", pa.int64())]))
    assert text in str(refusal.value)


def test_a_zone_that_is_none_is_refused():
    with pytest.raises(PipelineError, match=r"zone: .*Mars/Olympus"):
        declared(zone="Mars/Olympus")


def test_each_file_of_a_folder_says_whether_its_times_have_a_zone(tmp_path):
    local, moment = datetime.fromisoformat("2025-07-01T12:00"), datetime(2025, 7, 1, 10, tzinfo=UTC)
    kinds = {"local": NAIVE, "moment": pa.timestamp("us", tz="UTC"), "spark": pa.timestamp("ns")}
    for name, kind in kinds.items():
        at = local if name == "local" else moment.replace(tzinfo=None if name == "spark" else UTC)
        rows = pa.table({"at": pa.array([at, None], kind), "file": [name, name]})
        pq.write_table(rows, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=name == "spark")
    folder = ParquetSource(str(tmp_path), event_time="at", arrival_time="at", zone="Europe/Berlin")
    pinned = pin(folder, FolderPlace(str(tmp_path), str(tmp_path / "_record")))
    assert pinned.schema.field("at").type == pa.timestamp("us", tz="UTC")
    files = [file for file, _ in pinned.files_with_bounds("at")]
    for file, bounds in pinned.files_with_bounds("at"):
        values = read_columns(pinned.uri, file, pinned.schema, ["at"]).column("at").to_pylist()
        assert values == [moment, None], file.path
        assert bounds == (1751364000000000, 1751364000000000)
    assert len(files) == len(kinds)
