"""A lineage over raw values, whose source derives its columns, is run, verified, restated and continued as
any other; what changed expressions mean; and what the ledger counts.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.rows.columns_read import SourceColumnError
from slackwater.engine.source.pinned_source import SourceRewritten
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, agg
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.planning.plan_range import RangePlanner
from slackwater.runs.staging.evolution import SettingsChanged
from tests.runs.world import DAILY, Event, World, every_hour, moment, ms, perfect

pytestmark = pytest.mark.first_fast

RAW = DeltaSource(
    "raw",
    derive={
        "e": "epoch_ms(CAST(value ->> '$.at' AS BIGINT))",
        "a": "epoch_ms(seen)",
        "k": "value ->> '$.who.id'",
        "x": "CAST(value ->> '$.x' AS BIGINT)",
    },
    event_time="e",
    arrival_time="a",
    order_by="row",
)
BY_ENGINE = pytest.mark.parametrize(
    "engine", [OperatorEngine(), ColumnarEngine()], ids=["operator", "columnar"]
)


class RawWorld(World):
    """Arrivals are epoch numbers; event, key and value are within JSON, as bytes."""

    def rows(self, events: Sequence[Event], source: int = 0) -> pa.Table:
        values = [json.dumps({"at": ms(one.event), "who": {"id": one.key}, "x": one.x}) for one in events]
        return pa.table(
            {
                "value": pa.array([value.encode() for value in values], pa.binary()),
                "seen": pa.array(
                    [None if one.arrival is None else ms(one.arrival) for one in events], pa.int64()
                ),
                "row": pa.array([one.row for one in events], pa.int64()),
            }
        )


def raw_world(folder: Path, engine: Engine | None = None, source: DeltaSource = RAW) -> RawWorld:
    return RawWorld(folder, replace(DAILY, source=source), engine=engine or ColumnarEngine())


def verified(world: World, seq: int) -> list[object]:
    repeated = Verifier(world.warehouse, world.pipeline, world.code, world.engine, InProcess()).verify(seq)
    return [fact for fact in repeated.facts if not fact.is_equal]


@BY_ENGINE
def test_a_lineage_over_raw_values_is_as_one_over_the_columns(tmp_path: Path, engine: Engine) -> None:
    world, plain = raw_world(tmp_path / "raw", engine), World(tmp_path / "plain", DAILY, engine=engine)
    batches = [
        every_hour(0, 30),
        [*every_hour(30, 60), Event(20, 31, 900, x=7)],  # late
        [
            Event(29, 30, 901, key="b"),
            *every_hour(60, 72),
        ],  # a straggler of the first day, found by the third
    ]
    for end, batch in zip((24, 48, 72), batches, strict=True):
        for one in (world, plain):
            one.append(batch)
            one.run(end)
    assert len(world.published()) == 35  # windows from 0 h to 68 h
    assert [row["n"] for row in sorted(world.published(), key=repr)] == [
        row["n"] for row in sorted(plain.published(), key=repr)
    ]
    assert (world.main.rows_folded, world.main.state_hash) == (1, plain.main.state_hash)
    assert world.main.output_hash == plain.main.output_hash
    assert [verified(world, seq) for seq in (1, 2, 3)] == [[], [], []]


@pytest.mark.parametrize("has_unusable", [False, True], ids=["late", "late and unusable"])
def test_raw_values_are_read_once_also_those_of_late_and_unusable_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_unusable: bool
) -> None:
    """Each file has one row group, a late row and perhaps one two days ahead of its arrival in it."""
    world = raw_world(tmp_path / "raw", ColumnarEngine())
    late_rows = [Event(1, 20, 901), Event(21, 44, 902, key="b", x=5)]
    unusable = [Event(49, 1, 903), Event(73, 25, 904, key="b")] if has_unusable else []
    world.append([*every_hour(0, 23), late_rows[0], *unusable[:1]])
    world.append([*every_hour(24, 47), late_rows[1], *unusable[1:]])
    columns_read: list[str] = []
    read_row_groups = pq.ParquetFile.read_row_groups

    def recording(
        parquet: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], **how: bool
    ) -> pa.Table:
        columns_read.extend(columns)
        return read_row_groups(parquet, groups, columns, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", recording)
    rows = world.run(48)
    assert [(row.rows_late, row.rows_quarantined) for row in rows] == [(1, int(has_unusable))] * 2
    assert columns_read.count("value") == 2
    late_events = sorted(world.live("late_events"), key=lambda row: int(row["row"]))
    values = [{name: row[name] for name in ("value", "row", "seen", "x")} for row in late_events]
    raw_rows = world.rows(late_rows).append_column("x", pa.array([1, 5]))
    assert values == raw_rows.to_pylist()
    quarantine_rows = [json.loads(row["row_json"]) for row in world.live("quarantine")]
    assert sorted((row["row"], json.loads(row["value"])["at"]) for row in quarantine_rows) == [
        (one.row, ms(one.event)) for one in unusable
    ]
    assert [verified(world, seq) for seq in (1, 2)] == [[], []]


@pytest.mark.slow
@BY_ENGINE
def test_files_are_chosen_by_derived_arrivals_which_are_computed_once(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = raw_world(tmp_path / "raw", engine)
    for day in range(3):
        world.append(every_hour(24 * day, 24 * day + 23))
    rows = world.run(72)
    assert [[item.files for item in row.inputs] for row in rows] == [[1], [1], [1]]
    assert [row.rows_read for row in rows] == [23, 23, 23]
    DeltaTable(world.source).optimize.compact()
    world.append(every_hour(72, 95))
    [last] = world.run(96)
    assert (last.rows_read, last.rows_folded) == (23, 0)
    assert world.left() == perfect(world, tmp_path / "perfect")

    world.backfill(24, 48, reason="looked at again")
    assert world.left() == perfect(world, tmp_path / "restated")


@BY_ENGINE
def test_rows_that_can_not_be_computed_are_quarantined_once_by_the_failing_column(
    tmp_path: Path, engine: Engine
) -> None:
    derive = {**RAW.derive, "a": "strptime(seen, '%Y-%m-%d %H:%M')"}
    world = raw_world(tmp_path / "raw", engine, replace(RAW, derive=derive))
    raw_rows = [
        (b'{"at": %d, "who": {"id": "a"}, "x": 1}' % ms(1), "2013-01-01 02:00"),
        (b'{"at": "soon", "who": {"id": "a"}}', "2013-01-01 02:01"),
        (b'{"at": 1, "who": {"id": "\xff"}}', "2013-01-01 02:02"),
        (b'{"at": %d, "who": {"id": "a"}, "x": "one"}' % ms(1), "2013-01-01 02:03"),
        (b'{"at": %d, "who": {"id": "a"}}' % ms(1), "tomorrow"),
        (b'{"at": %d, "who": null}' % ms(1), "2013-01-01 02:04"),
        (b'{"at": %d, "who": {"id": "a"}}' % ms(1), None),
        (b'{"at": %d, "who": {"id": "b"}, "x": 1}' % ms(20), "2013-01-01 20:00"),
    ]
    values, seen = zip(*raw_rows, strict=True)
    rows = pa.table({"value": pa.array(values, pa.binary()), "seen": seen, "row": range(len(seen))})
    write_deltalake(world.source, rows, mode="append")
    world.run(48)
    quarantined = sorted(
        (json.loads(row["row_json"])["row"], row["reason_code"], row["column_name"])
        for row in world.live("quarantine")
    )
    assert quarantined == [
        (1, "expression_failed", "e"),
        (2, "expression_failed", "e"),
        (3, "expression_failed", "x"),
        (4, "expression_failed", "a"),
        (5, "null_key", "k"),
        (6, "null_arrival", "a"),
    ]
    [row] = world.published()
    assert (row["k"], row["n"], row["total"]) == ("a", 1, 1)
    first, second = world.ledger.live_runs(world.main)
    assert (first.rows_read, first.rows_accepted, first.rows_quarantined) == (8, 2, 6)
    assert second.rows_read == 0
    assert world.left() == perfect(world, tmp_path / "perfect")


@BY_ENGINE
@pytest.mark.parametrize("is_derived", [True, False], ids=["derived", "stored"])
def test_an_arrival_in_which_no_slice_lies_is_quarantined_once(
    tmp_path: Path, engine: Engine, is_derived: bool
) -> None:
    """Microseconds are taken for milliseconds, in a file that has other rows and in one that has none."""
    source = RAW if is_derived else replace(RAW, arrival_time="stored")
    world = raw_world(tmp_path / "raw", engine, source)
    beyond = [ms(1) * 1000, 253_402_300_800_000]
    for arrivals in ([ms(1), beyond[0], ms(30)], [beyond[1]]):
        rows = world.rows([Event(0, 0, number) for number in range(len(arrivals))])
        rows = rows.set_column(rows.column_names.index("seen"), "seen", pa.array(arrivals, pa.int64()))
        if not is_derived:
            times = pa.array(arrivals, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))
            rows = rows.append_column("stored", times)
        write_deltalake(world.source, rows, mode="append")
    world.run(48)
    column = "a" if is_derived else "stored"
    assert [
        (row["reason_code"], row["column_name"], row["arrival_time"]) for row in world.live("quarantine")
    ] == [("arrival_out_of_range", column, None)] * 2
    first, second = world.ledger.live_runs(world.main)
    assert (first.rows_read, first.rows_accepted, first.rows_quarantined) == (3, 1, 2)
    assert (second.rows_read, second.rows_quarantined) == (1, 0)
    assert world.left() == perfect(world, tmp_path / "perfect")
    assert [verified(world, seq) for seq in (1, 2)] == [[], []]
    DeltaTable(world.source).optimize.compact()
    world.run(72)
    DeltaTable(world.source).delete(f"seen = {beyond[1]}")
    with pytest.raises(SourceRewritten, match="1 row"):
        world.run(96)


def test_a_derived_column_may_come_and_go_and_another_expression_is_refused(tmp_path: Path) -> None:
    world = raw_world(tmp_path / "raw")
    world.append(every_hour(0, 72))
    world.run(24)
    more = {**RAW.derive, "twice": "2 * x"}
    world.declare(source=replace(RAW, derive=more), select={**DAILY.select, "twice": agg.sum("twice")})
    world.run(48)
    sums = {
        (row["window_start"] - moment(0)).total_seconds() // 3600: row["twice"] for row in world.published()
    }
    assert (sums[0], sums[20], sums[30]) == (None, None, 4)
    assert [verified(world, seq) for seq in (1, 2)] == [[], []]

    world.declare(source=replace(RAW, derive={**more, "twice": "3 * x"}))
    with pytest.raises(
        SettingsChanged, match=r"source.derive.twice: 2 \* x → 3 \* x[^\0]*slackwater backfill daily"
    ):
        world.run(72)
    world.declare(source=replace(RAW, derive={**more, "e": "epoch_ms(CAST(value ->> '$.at' AS BIGINT) + 1)"}))
    with pytest.raises(SettingsChanged, match=r"source\.derive\.e: "):
        world.run(72)
    world.declare(source=RAW, select=DAILY.select)
    world.run(72)


def test_lists_are_exploded_and_counted(tmp_path: Path) -> None:
    items = pa.list_(pa.struct([("k", pa.string()), ("x", pa.int64())]))
    source = DeltaSource(
        "raw", explode="items", derive={"k": "item.k", "x": "item.x"}, event_time="e", arrival_time="a"
    )
    world = raw_world(tmp_path / "raw", OperatorEngine(), source)
    lists = [[{"k": "a", "x": 1}, {"k": "b", "x": 2}], [], None, [{"k": "a", "x": 3}, {"k": None, "x": 4}]]
    lists.append([{"k": "c", "x": 1}])
    times = pa.array([*[moment(1)] * 4, moment(20)], pa.timestamp("us", tz="UTC"))
    write_deltalake(world.source, pa.table({"e": times, "a": times, "items": pa.array(lists, items)}))
    [row] = world.run(24)
    assert (row.rows_read, row.rows_exploded, row.rows_filtered) == (7, 5, 2)
    assert (row.rows_accepted, row.rows_quarantined) == (4, 1)
    assert {(one["k"], one["n"], one["total"]) for one in world.published()} == {("a", 2, 4), ("b", 1, 2)}
    assert verified(world, 1) == []


def test_a_plan_counts_the_rows_of_a_slice_by_derived_arrivals(tmp_path: Path) -> None:
    world = raw_world(tmp_path / "raw")
    world.append([*every_hour(0, 48), Event(20, 30, 900)])
    world.run(24)
    plan = RangePlanner(world.warehouse, world.pipeline).plan(to_ms=ms(48))
    assert [item.rows for item in plan.slices] == [25]
    assert plan.touched_parked_windows == 1  # from 20 h on


@pytest.mark.parametrize(
    ("column", "way"),
    [
        ("seen", "epoch milliseconds, 2013-01-01): derive={'arrived_at': 'epoch_ms(seen)'}, arrival_time="),
        ("day", """derive={'arrived_at': "strptime(day, '%d.%m.%Y')"}, arrival_time='arrived_at'"""),
        ("row", "Derive one of it, such as: derive={'arrived_at': "),
    ],
)
def test_a_role_of_another_type_is_refused_with_the_line_that_makes_a_time_of_it(
    tmp_path: Path, column: str, way: str
) -> None:
    world = raw_world(tmp_path / "raw")
    raw = world.rows(every_hour(0, 3)).append_column("day", pa.array(["13.01.2013", "31.12.2013", None]))
    write_deltalake(world.source, raw)
    world.declare(
        source=replace(RAW, arrival_time=column, derive={"e": RAW.derive["e"], "k": RAW.derive["k"]})
    )
    with pytest.raises(SourceColumnError) as refusal:
        world.run(24)
    assert way in str(refusal.value)
