"""Pipelines over tables without a column of arrivals leave what the same pipeline leaves where the table has
such a column, with the hour of the commit in it.
"""

import os
import re
import shutil
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.pinned_source import NewRowsNotKnown, SourceRewritten
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import COMMIT_TIME, DeltaSource, ParquetSource
from slackwater.pipelines.sources import COMMIT_VERSION
from slackwater.runs.lineage import catch_up
from slackwater.runs.lineage.verify import CannotRepeat, Verification, Verifier
from slackwater.runs.restating import backfill
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.slices import Slice
from slackwater.runs.staging.stragglers import Stragglers, find_stragglers
from slackwater.tables.schemas import SOURCE_FILES
from slackwater.windowing.times import to_ms
from tests.runs.commit_worlds import BY_COMMIT, Table, TrackedTable, by_column, left, world_of
from tests.runs.world import DAILY, SCHEMA, Event, World, ms


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_runs_read_each_row_once_by_the_commits(table: Table, tmp_path: Path) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    world.run(24)
    table.bring(50, 7, 8)
    world.run(48)
    world.run(72)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [3, 3, 2]
    assert left(world) == by_column(tmp_path / "c", table, 72)


@pytest.mark.parametrize("upkeep", ["compact", "compact and vacuum"])
def test_upkeep_of_rows_that_were_all_read_changes_nothing(table: Table, tmp_path: Path, upkeep: str) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(3, 4, 5, 6)
    world.run(24)
    table.compact(25)
    if "vacuum" in upkeep:
        table.vacuum(26)
    table.bring(30, 7, 8)
    world.run(48)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [6, 2]
    assert left(world) == by_column(tmp_path / "c", table, 48)


def test_rows_that_were_compacted_with_read_ones_before_a_run_are_read_once(
    table: Table, tmp_path: Path
) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    world.run(24)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    world.run(48)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [3, 3]
    assert left(world) == by_column(tmp_path / "c", table, 48)


def test_where_a_vacuum_took_what_told_new_rows_from_read_ones_a_restatement_reads_all(
    table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    world.run(24)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    table.vacuum(32)
    with pytest.raises(NewRowsNotKnown, match="backfill daily --from 2013-01-01T02:00:00Z"):
        world.run(48)
    world.backfill(2, 24)
    world.run(48)
    assert sum(row.rows_read for row in world.ledger.live_runs(world.main)) == 6
    assert "having arrived with the newest commit" in caplog.text


def test_a_vacuumed_past_arrives_with_the_newest_commit_and_the_run_says_so(
    table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    table.vacuum(32)
    world = world_of(tmp_path / "w", table)
    world.run(72)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [0, 6, 0]
    [note] = [line for line in caplog.messages if "having arrived with the newest commit" in line]
    assert "from 2013-01-01T02:00:00Z to 2013-01-02T06:00:00Z" in note


def test_a_row_that_a_restore_brings_back_into_a_slice_is_named_and_restated(
    table: Table, tmp_path: Path
) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    version = table.version
    table.delete(3, 2)
    world.run(24)
    table.restore(25, version)
    table.bring(30, 4, 5)
    reads = world.ledger.live_reads(world.main, table.uri)
    stragglers = find_stragglers(table.pin(), reads, COMMIT_TIME, folds=True)
    assert stragglers == [Stragglers(Slice(ms(0), ms(24)), 1)]
    with pytest.raises(
        SourceRewritten, match=r"\(1 row, .*--from 2013-01-01T02:00:00Z --to 2013-01-01T02:00"
    ):
        world.run(48)
    world.backfill(0, 24)
    world.run(48)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [3, 2]
    assert left(world) == by_column(tmp_path / "c", table, 48)


def verify(world: World, seq: int) -> Verification:
    return Verifier(world.warehouse, world.pipeline, world.code, world.engine, InProcess()).verify(seq)


def test_verify_repeats_what_a_run_has_read_until_a_vacuum_takes_it_and_then_says_so(
    table: Table, tmp_path: Path
) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    world.run(24)
    table.bring(50, 7, 8)
    world.run(72)
    seqs = [row.seq for row in world.ledger.live_runs(world.main)]
    assert [verify(world, seq).is_equal for seq in seqs] == [True, True, True]
    table.vacuum(73)
    for seq in seqs[:2]:
        with pytest.raises(CannotRepeat, match=r"1 of the 1 files that it has read of version .* are gone"):
            verify(world, seq)
    assert verify(world, seqs[2]).is_equal


def test_verify_repeats_a_run_that_has_read_files_dated_as_a_whole(table: Table, tmp_path: Path) -> None:
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    table.vacuum(32)
    world = world_of(tmp_path / "w", table)
    world.run(72)
    assert all(verify(world, row.seq).is_equal for row in world.ledger.live_runs(world.main))


def test_verify_says_so_where_nothing_tells_what_a_run_has_read(table: Table, tmp_path: Path) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    [row] = world.run(24)
    table.vacuum(73)
    shutil.rmtree(next((tmp_path / "w" / "daily").glob(f"{SOURCE_FILES}*")))
    with pytest.raises(CannotRepeat, match=r"nothing says any more when rows .* arrived"):
        verify(world, row.seq)


@pytest.mark.parametrize("upkeep", ["rewrite", "update", "delete"])
def test_verify_repeats_runs_over_rows_that_are_tracked_also_after_a_vacuum(
    tmp_path: Path, upkeep: str
) -> None:
    table = TrackedTable(tmp_path)
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5, 6)
    table.rewrite(31, [0, 1])
    world.run(72)
    if upkeep == "rewrite":
        table.rewrite(73, [0])
    elif upkeep == "update":
        table.update(73, 5, 15)
    else:
        table.delete(73, 5)
    assert all(verify(world, row.seq).is_equal for row in world.ledger.live_runs(world.main))
    table.vacuum(74)
    with pytest.raises(CannotRepeat, match="are gone"):
        verify(world, 1)


def test_a_deleted_row_that_a_run_has_read_is_refused_and_one_that_none_has_is_gone(
    table: Table, tmp_path: Path
) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.with_vectors()
    world.run(24)
    table.bring(30, 4, 5, 6)
    table.compact(31)
    table.hide(32, 5)
    world.run(48)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [3, 2]
    table.hide(49, 2)
    with pytest.raises(SourceRewritten, match=r"1 row, arrivals from 2013-01-01T02:00:00Z"):
        world.run(72)


def test_the_record_keeps_arrivals_when_the_log_has_lost_the_commits(table: Table, tmp_path: Path) -> None:
    world = world_of(tmp_path / "w", table)
    table.bring(2, 1, 2, 3)
    table.bring(30, 4, 5)
    world.run(24)
    table.bring(50, 6)
    table.lose_log()
    table.bring(51, 7)
    world.run(72)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [3, 2, 2]


@pytest.mark.parametrize("by_commit", [(True, True), (True, False), (False, True)])
def test_sources_of_a_union_may_arrive_by_commit_all_or_some(
    tmp_path: Path, by_commit: tuple[bool, bool]
) -> None:
    tables = [Table(tmp_path / name) for name in ("one", "two")]

    def world(name: str, by_commit: tuple[bool, ...]) -> World:
        sources = [
            DeltaSource(
                table.uri,
                name=f"s{number}",
                event_time="e",
                arrival_time=COMMIT_TIME if is_by_commit else "a",
                order_by="row",
                # Its own column of this name would be a second one beside the arrival of the first source.
                rename={"a": "unread"} if by_commit == (False, True) and is_by_commit else {},
            )
            for number, (table, is_by_commit) in enumerate(zip(tables, by_commit, strict=True))
        ]
        return World(tmp_path / name, replace(DAILY, source=sources))

    tables[0].bring(2, 1, 2, 3)
    tables[1].bring(3, 4, 5)
    union = world("w", by_commit)
    union.run(24)
    for number, table in enumerate(tables):
        table.bring(30 + number, 6 + 2 * number, 7 + 2 * number)
        table.compact(40)
    union.run(48)
    assert [row.rows_read for row in union.ledger.live_runs(union.main)] == [5, 4]
    columns = world("c", (False, False))
    columns.run(48, slice_=timedelta(hours=48))
    assert left(union) == left(columns)


def test_files_of_a_folder_arrive_when_they_were_first_seen(tmp_path: Path) -> None:
    source = ParquetSource("landing", event_time="e", arrival_time=COMMIT_TIME, order_by="row")
    world = World(tmp_path / "w", replace(DAILY, source=source))
    folder = Path(world.place())
    folder.mkdir(parents=True)

    def bring(name: str, hour: float, modified: float, *rows: int) -> None:
        values = [Event(hour, hour, number).values() for number in rows]
        pq.write_table(pa.Table.from_pylist(values, schema=SCHEMA), folder / name)
        os.utime(folder / name, (ms(modified) / 1000, ms(modified) / 1000))

    bring("a.parquet", 2, 2, 1, 2)
    bring("b.parquet", 30, 30, 3)
    world.run(24)
    os.utime(folder / "a.parquet", (ms(40) / 1000, ms(40) / 1000))
    bring("c.parquet", 31, 1, 4)  # a copy that keeps its old time
    world.run(48)
    assert [row.rows_read for row in world.ledger.live_runs(world.main)] == [2, 2]
    assert sum(row.rows_folded for row in world.ledger.live_runs(world.main)) == 0


@dataclass
class History:
    """A table that is changed between runs. Where it does not track rows, in one of two ways: rows that runs
    have read are changed, too, or vacuums take what is not listed any more.

    Attributes:
        has_vectors: whether rows are deleted by deletion vectors, else by writing files again.
        rows: the numbers of the rows that are in the table.
        unread_rows: of these, those that no run has read.
        states: version → the rows that it has.
    """

    table: Table
    has_vectors: bool
    changes_read_rows: bool
    hour: int = 0
    next_number: int = 1
    rows: set[int] = field(default_factory=set)
    unread_rows: set[int] = field(default_factory=set)
    states: dict[int, set[int]] = field(default_factory=dict)

    def change(self, data: st.DataObject) -> None:
        kinds = ["bring", "bring", "rewrite", "delete", *(["restore"] if self.changes_read_rows else [])]
        kinds += ["update"] if isinstance(self.table, TrackedTable) else []
        kind = data.draw(st.sampled_from(kinds)) if self.states else "bring"
        self.hour += data.draw(st.integers(1, 9))
        if kind == "bring":
            self.bring(data.draw(st.integers(1, 4)))
        elif kind == "rewrite":
            self.table.rewrite(self.hour, data.draw(st.lists(st.integers(0, 4), min_size=1)))
        elif kind == "restore":
            version = data.draw(st.sampled_from(sorted(self.states)))
            if self.table.restore(self.hour, version):
                self.rows = set(self.states[version])
        # An empty source is refused.
        elif deletable_rows := sorted((self.rows if self.changes_read_rows else self.unread_rows) - {1}):
            number = data.draw(st.sampled_from(deletable_rows))
            self.rows.discard(number)
            self.unread_rows.discard(number)
            if kind == "update":
                self.rows.add(self.next_number)
                self.unread_rows.add(self.next_number)
                self.table.update(self.hour, number, self.next_number)
            else:
                (self.table.hide if self.has_vectors else self.table.delete)(self.hour, number)
        self.next_number += kind == "update"
        self.states[self.table.version] = set(self.rows)

    def bring(self, count: int) -> None:
        numbers = range(self.next_number, self.next_number + count)
        self.next_number += count
        self.table.bring(self.hour, *numbers)
        if not self.states and self.has_vectors:
            self.table.with_vectors()
        self.rows |= set(numbers)
        self.unread_rows |= set(numbers)


def run_or_restate(world: World, runner: Runner, end_ms: int) -> None:
    """A run, after the restatements that refusals demand; these may be refused, too."""
    run = catch_up.CatchUp(
        catch_up.CatchUpRequest("daily", end_ms, everything=True), lambda: runner, world.said.append
    )
    commands: list[catch_up.CatchUp | backfill.Backfill] = [run]
    for _ in range(9):
        try:
            commands[-1].run()
            commands.pop()
        except SourceRewritten as error:
            match = re.search(r"backfill daily --from (\S+Z) --to (\S+Z)", error.message)
            assert match is not None, error.message
            first_ms, last_ms = (to_ms(datetime.fromisoformat(text)) for text in match.groups())
            request = backfill.BackfillRequest("daily", first_ms, last_ms)
            commands.append(backfill.Backfill(request, lambda: runner, world.said.append))
        if not commands:
            return
    raise AssertionError("the run is refused again and again")


@pytest.mark.slow
@settings(max_examples=24, deadline=None)
@given(st.data())
def test_any_cuts_and_parallelism_leave_what_one_run_by_a_column_leaves(data: st.DataObject) -> None:
    """P1 and P2 over appends, OPTIMIZE, deleted rows, with VACUUM after runs or RESTORE between them."""
    with TemporaryDirectory() as folder:
        tracks_rows, changes_read_rows = data.draw(st.booleans()), data.draw(st.booleans())
        table = (TrackedTable if tracks_rows else Table)(Path(folder) / "source")
        history = History(table, data.draw(st.booleans()), changes_read_rows)
        source = replace(BY_COMMIT.sources[0], order_by=data.draw(st.sampled_from(["row", COMMIT_VERSION])))
        world = world_of(Path(folder) / "w", table, replace(BY_COMMIT, source=source))
        for _ in range(data.draw(st.integers(2, 4))):
            for _ in range(data.draw(st.integers(1, 4))):
                history.change(data)
            history.hour += 1
            runner = replace(world.runner(), ranges=data.draw(st.integers(1, 4)))
            run_or_restate(world, runner, ms(history.hour))
            history.unread_rows.clear()
            if (tracks_rows or not changes_read_rows) and data.draw(st.booleans()):
                table.vacuum(history.hour)
        assert left(world) == by_column(Path(folder) / "c", table, history.hour)
