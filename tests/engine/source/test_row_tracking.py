"""Arrivals of rows whose table tracks rows: each keeps its commit, whichever files hold it."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slackwater.engine.source.pinned_source import NewRowsNotKnown, PinnedSource, SourceRewritten
from slackwater.engine.source.row_changes import kept_row_by_row
from slackwater.engine.source.row_groups import Arrivals, SourceFile
from slackwater.pipelines import COMMIT_TIME
from slackwater.tables.errors import DamagedFile
from tests.engine.source.commit_logs import CommitLog, arrivals_of
from tests.engine.source.tracked_logs import COLUMN, TrackedLog
from tests.runs.world import ms

OF_THREE_COMMITS = [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1), (4, 3.0, 2)]


@pytest.fixture
def log(tmp_path: Path) -> TrackedLog:
    """Rows 1 and 2 of hour 1, row 3 of hour 2 and row 4 of hour 3."""
    log = TrackedLog(tmp_path)
    log.append(1, [1, 2])
    log.append(2, [3])
    log.append(3, [4])
    return log


def rows_read(
    source: PinnedSource, first: float, last: float, before: PinnedSource | None = None
) -> list[int]:
    arrivals = Arrivals(COMMIT_TIME, ms(first), ms(last))
    return sorted(
        row["row"]
        for file in source.files(ms(first), ms(last), COMMIT_TIME, before)
        for batch in SourceFile(source.uri, file, source.schema).batches(
            ["row", COMMIT_TIME], None, arrivals=arrivals
        )
        for row in batch.rows.to_pylist()
        if file.may_hold_unread or ms(first) <= row[COMMIT_TIME].timestamp() * 1000 < ms(last)
    )


def test_compaction_and_a_vacuum_move_no_arrival(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    log.vacuum(5)
    source = log.pin()
    assert arrivals_of(source) == OF_THREE_COMMITS
    assert source.files_dated_as_a_whole() == []
    assert len(source.files_with_bounds(COMMIT_TIME)) == 1


def test_a_slice_reads_its_rows_of_a_compacted_file_and_no_file_without_any(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    log.append(5, [5])
    source = log.pin()
    assert [rows_read(source, first, first + 1) for first in (1, 2, 3, 4, 5)] == [[1, 2], [3], [4], [], [5]]
    assert source.files(ms(4), ms(5), COMMIT_TIME, None) == []
    assert rows_read(log.pin(), 3, 6, log.pin(1)) == [4, 5]


def test_rows_keep_their_commits_through_files_that_are_gone(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1])
    log.delete(5, 1)
    log.rewrite(6, [0, 1])
    log.append(7, [5])
    log.rewrite(8, [0, 1], into=2)
    log.vacuum(9)
    assert arrivals_of(log.pin()) == [(2, 1.0, 0), (3, 2.0, 1), (4, 3.0, 2), (5, 7.0, 6)]


def test_an_updated_row_arrives_with_the_update_and_its_neighbours_stay(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    log.update(5, 3, 30)
    log.vacuum(6)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (4, 3.0, 2), (30, 5.0, 4)]


def test_an_update_of_a_row_that_was_read_is_refused_and_of_another_one_is_not(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    before = log.pin()
    log.update(5, 4, 40)
    source = kept_row_by_row(log.pin(), before, ms(3), COMMIT_TIME)
    assert rows_read(source, 3, 6, before) == [40]
    log.update(6, 3, 30)
    with pytest.raises(SourceRewritten, match=r"1 row, arrivals from 2013-01-01T02:00:00Z to 2013-01-01T02"):
        kept_row_by_row(log.pin(), before, ms(3), COMMIT_TIME)


def test_a_restored_version_has_the_arrivals_that_it_had(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    optimized_version = log.version
    log.update(5, 3, 30)
    log.delete(6, 1)
    log.restore(7, optimized_version)
    log.append(8, [5])
    assert arrivals_of(log.pin()) == [*OF_THREE_COMMITS, (5, 8.0, log.version)]


@pytest.mark.parametrize("has_vectors", [False, True])
def test_what_a_run_has_recorded_stays_when_the_log_is_lost(tmp_path: Path, has_vectors: bool) -> None:
    log = TrackedLog(tmp_path)
    log.append(1, [1, 2])
    if has_vectors:
        log.with_vectors()
    log.append(2, [3])
    log.append(3, [4])
    log.rewrite(4, [0, 1, 2])
    if has_vectors:
        log.hide(5, 2)
    log.pin().record_files(COMMIT_TIME)
    log.lose_log()
    log.append(6, [5])
    log.rewrite(7, [0, 1])
    log.vacuum(8)
    row_of_hour_1 = [(1, 1.0, 0)] if has_vectors else [(1, 1.0, 0), (2, 1.0, 0)]
    assert arrivals_of(log.pin()) == [*row_of_hour_1, (3, 2.0, 1), (4, 3.0, 2), (5, 6.0, log.version - 1)]


@pytest.fixture
def backfilled_log(tmp_path: Path) -> TrackedLog:
    """Rows 1, 2 and 3, of hours 1 and 2, were there when the table began to track rows."""
    CommitLog(tmp_path).append(1, [1, 2])
    CommitLog(tmp_path).append(2, [3])
    log = TrackedLog(tmp_path)
    log.enable()
    log.backfill(3)
    log.append(4, [4])
    return log


def test_rows_from_before_the_table_tracked_rows_keep_their_arrivals(backfilled_log: TrackedLog) -> None:
    backfilled_log.rewrite(5, [0, 1, 2])
    assert arrivals_of(backfilled_log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (3, 2.0, 1), (4, 4.0, 3)]


def test_where_one_version_stands_for_several_commits_a_vacuum_leaves_the_file_dated_as_a_whole(
    backfilled_log: TrackedLog,
) -> None:
    backfilled_log.rewrite(5, [0, 1, 2])
    backfilled_log.vacuum(6)
    source = backfilled_log.pin()
    assert {hour for _, hour, _ in arrivals_of(source)} == {4.0}
    assert len(source.files_dated_as_a_whole()) == 1


def test_rows_of_one_commit_from_before_the_table_tracked_rows_are_told_apart(tmp_path: Path) -> None:
    CommitLog(tmp_path).append(1, [1, 2])
    log = TrackedLog(tmp_path)
    log.enable()
    log.backfill(3)
    log.append(4, [4])
    log.rewrite(5, [0, 1])
    log.vacuum(6)
    assert arrivals_of(log.pin()) == [(1, 1.0, 0), (2, 1.0, 0), (4, 4.0, 2)]


def test_files_of_a_writer_that_does_not_keep_the_versions_of_rows_are_read_as_they_were_before(
    log: TrackedLog,
) -> None:
    CommitLog.rewrite(log, 4, [0, 1, 2])
    assert arrivals_of(log.pin()) == OF_THREE_COMMITS
    log.vacuum(5)
    assert {hour for _, hour, _ in arrivals_of(log.pin())} == {3.0}


def test_a_straggler_among_rows_that_were_read_is_refused(log: TrackedLog) -> None:
    """A commit whose writer's clock is behind lies in hours that were run, and was compacted since."""
    before = log.pin()
    log.append(3.5, [5])
    log.rewrite(6, [0, 1, 2, 3])
    with pytest.raises(NewRowsNotKnown, match="arrivals from 2013-01-01T01:00:00Z"):
        kept_row_by_row(log.pin(), before, ms(4), COMMIT_TIME)


def test_a_version_that_no_commit_of_the_rows_has_is_damage(log: TrackedLog) -> None:
    log.rewrite(4, [0, 1, 2])
    source = log.pin()
    [(file, _)] = source.files_with_bounds(COMMIT_TIME)
    path = Path(log.uri) / file.path
    rows = pq.read_table(path)
    place = rows.schema.get_field_index(COLUMN)
    pq.write_table(rows.set_column(place, COLUMN, [[0, 0, 7, 2]]), path)
    with pytest.raises(DamagedFile, match="has version 7, and by the log none of its rows came with it"):
        arrivals_of(source)
