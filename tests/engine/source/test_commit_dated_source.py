"""The arrivals of rows whose table has no column for them: the commits that brought them."""

from pathlib import Path

import pytest

from slackwater.engine.source.commit_account import CommitTimeMissing
from tests.engine.source.commit_logs import CommitLog, arrivals_of


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
