"""The arrivals of rows whose table has no column for them: the commits that brought them."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.commit_account import CommitTimeMissing
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import CommitTimesNotReadable
from slackwater.engine.source.row_changes import kept_row_by_row
from slackwater.pipelines import COMMIT_TIME, DeltaSource
from slackwater.pipelines.errors import PipelineError
from tests.engine.source.commit_logs import CommitLog, arrivals_of, rows_of
from tests.runs.world import moment, ms


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    return CommitLog(tmp_path)


def test_a_row_arrives_with_the_commit_that_brought_it(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1)]


def test_compaction_moves_no_arrival_while_the_files_from_before_it_are_there(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    log.compact(3)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1)]


def test_after_a_vacuum_compacted_rows_arrive_with_the_newest_of_their_commits(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    log.compact(3)
    log.vacuum(4)
    log.append(5, [4])
    assert arrivals_of(log.pin()) == [(1, 2.0, 1), (2, 2.0, 1), (3, 2.0, 1), (4, 5.0, 5)]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_row_that_a_deletion_vector_hides_is_gone_and_the_others_stay(
    log: CommitLog, is_compacted: bool
) -> None:
    log.append(1, [1, 2])
    log.with_vectors()
    log.append(2, [3, 4])
    if is_compacted:
        log.compact(3)
    log.hide(4, 2)
    log.hide(5, 3)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (4, 2.0, 1)]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_that_a_delete_writes_again_stay(log: CommitLog, is_compacted: bool) -> None:
    log.append(1, [1, 2])
    log.append(2, [3, 4])
    if is_compacted:
        log.compact(3)
    log.delete(4, 2)
    log.delete(5, 3)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (4, 2.0, 1)]


def test_the_time_of_a_commit_never_falls(log: CommitLog) -> None:
    log.append(3, [1])
    log.append(2, [2])
    millisecond = 1 / 3_600_000
    assert [hour for _, hour, _ in arrivals_of(log.pin())] == [3.0, round(3 + millisecond, 6)]


def test_an_in_commit_timestamp_goes_before_the_commit_s_own(log: CommitLog) -> None:
    log.append(1, [1])
    log.stamp(1, in_commit=4)
    assert arrivals_of(log.pin()) == [(1, 4.0, 0)]


def test_a_commit_without_a_time_is_refused_with_what_to_write(log: CommitLog) -> None:
    log.append(1, [1])
    log.append(None, [2])
    with pytest.raises(CommitTimeMissing, match=r'commit 1 .* arrival_time="…"\.$'):
        _ = log.pin().actions


def test_a_restored_version_has_the_arrivals_that_it_had(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    log.compact(3)
    compacted_version = log.version
    log.delete(4, 2)
    DeltaTable(log.uri).restore(compacted_version)
    log.stamp(5)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1)]


def test_a_version_from_before_an_optimize_and_a_delete_has_the_arrivals_that_it_had(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    before_version = log.version
    log.compact(3)
    log.delete(4, 2)
    log.restore(5, before_version)
    log.append(6, [4])
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1), (4, 6.0, 5)]


class TestWhatRunsHaveRead:
    """A run of the hours before 3 has read `before`; rows 1 and 2 are of hour 1, row 3 is of hour 2."""

    @pytest.fixture
    def before(self, log: CommitLog) -> PinnedSource:
        log.append(1, [1, 2])
        log.append(2, [3])
        log.compact(2.5)
        before = log.pin()
        before.record_files(COMMIT_TIME)
        return before

    def kept(self, log: CommitLog, before: PinnedSource, *newer_reads: ReadRange) -> PinnedSource:
        return kept_row_by_row(log.pin(), log.pin(before.version), ms(3), COMMIT_TIME, newer_reads)

    def test_rows_that_were_deleted_and_restored_since_are_the_same(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        log.delete(3, 2)
        log.restore(4, before.version)
        log.append(5, [4])
        source = self.kept(log, before)
        assert source.notes == ()
        assert [file.may_hold_unread for file in source.files(ms(3), ms(9), COMMIT_TIME, before)] == [False]

    def test_the_same_rows_in_files_from_before_an_optimize_are_the_same_also_after_a_vacuum(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        log.restore(4, before.version - 1)
        log.vacuum(5)
        assert self.kept(log, before).files(ms(3), ms(9), COMMIT_TIME, before) == []

    def test_a_row_that_comes_back_into_hours_that_a_run_has_read_without_it_is_refused(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        log.delete(3, 2)
        read_without = log.pin()
        log.restore(4, before.version)
        with pytest.raises(
            SourceRewritten, match=r"1 row, arrivals from 2013-01-01T01:00:00Z to 2013-01-01T01"
        ):
            self.kept(log, read_without)

    def test_a_row_that_is_deleted_and_comes_back_behind_a_restatement_is_the_same_where_none_was_made(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        """A restatement of hour 2 has read the table without row 2, which is of hour 1."""
        log.delete(3, 2)
        restated = ReadRange(ms(2), ms(3), log.version)
        log.restore(4, before.version)
        assert self.kept(log, before, restated).notes == ()
        restated = ReadRange(ms(1), ms(2), restated.version)
        with pytest.raises(SourceRewritten, match="1 row, arrivals from 2013-01-01T01"):
            self.kept(log, before, restated)

    def test_a_row_that_was_deleted_again_after_a_restore_is_missed_where_it_was_read(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        log.delete(3, 2)
        read_without = log.pin()
        log.restore(4, before.version)
        log.delete(5, 2)
        assert self.kept(log, read_without).notes == ()
        with pytest.raises(SourceRewritten, match="1 row, arrivals"):
            self.kept(log, before)

    @pytest.mark.parametrize("has_vectors", [False, True])
    def test_rows_whose_deletion_is_recorded_as_an_erasure_are_not_missed(
        self, log: CommitLog, before: PinnedSource, has_vectors: bool
    ) -> None:
        if has_vectors:
            log.with_vectors()
        (log.hide if has_vectors else log.delete)(3, 2)
        erasing = frozenset([log.version])
        log.append(4, [4])
        with pytest.raises(SourceRewritten, match="1 row"):
            self.kept(log, before)
        source = log.pin().without(erasing)
        kept_source = kept_row_by_row(source, log.pin(before.version), ms(3), COMMIT_TIME)
        [file] = kept_source.files(ms(3), ms(9), COMMIT_TIME, before)
        assert (file.rows, file.may_hold_unread) == (1, False)

    def test_a_commit_whose_writer_s_clock_is_behind_brings_stragglers(
        self, log: CommitLog, before: PinnedSource
    ) -> None:
        log.append(2.75, [4])
        [file] = self.kept(log, before).files(ms(3), ms(9), COMMIT_TIME, before)
        assert file.may_hold_unread


def test_an_update_that_writes_a_file_again_brings_its_rows_again(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    DeltaTable(log.uri).update(predicate="row = 2", updates={"x": "x + 1"})
    log.stamp(3)
    assert arrivals_of(log.pin()) == [(1, 3.0, 2), (2, 3.0, 2), (3, 2.0, 1)]


def test_partitions_of_the_table_are_read_from_files_that_it_lists_no_more(log: CommitLog) -> None:
    log.append(1, [1, 2, 3], partition_by=["k"])
    log.append(2, [4, 5])
    log.compact(3)
    source = log.pin()
    assert arrivals_of(source) == [(1, 1.0, 0), (2, 1.0, 0), (3, 1.0, 0), (4, 2.0, 1), (5, 2.0, 1)]
    files = [file for file, _ in source.files_with_bounds(COMMIT_TIME)]
    tables = [read_columns(source.uri, file, source.schema, ("row", "k")) for file in files]
    rows = [row for table in tables for row in table.to_pylist()]
    assert {row["row"]: row["k"] for row in rows} == {1: "b", 2: "a", 3: "b", 4: "a", 5: "b"}


def test_what_a_run_has_recorded_stays_when_the_log_is_lost(log: CommitLog) -> None:
    log.append(1, [1, 2])
    log.append(2, [3])
    log.compact(3)
    log.pin().record_files(COMMIT_TIME)
    log.lose_log()
    log.append(4, [4])
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1), (4, 4.0, 3)]


def test_a_column_of_that_name_is_read_as_any_other(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    own = rows_of([1]).append_column(COMMIT_TIME, pa.array([moment(7)], pa.timestamp("us", tz="UTC")))
    write_deltalake(log.uri, own)
    assert type(log.pin()) is PinnedSource


def test_a_source_that_only_spark_can_read_is_refused(log: CommitLog) -> None:
    log.append(1, [1])
    actions = log.actions(0)
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "id"
    log.write(0, actions)
    with pytest.raises(CommitTimesNotReadable, match=r'arrival_time="…"\.$'):
        log.pin()


def test_a_commit_version_is_no_source_partition() -> None:
    with pytest.raises(PipelineError, match="source_partition is '_commit_version'"):
        DeltaSource("t", event_time="e", arrival_time=COMMIT_TIME, source_partition="_commit_version")
