"""What a source's log says of its rows, after any history of appends, deletes, updates, compactions and
restores, with deletion vectors and without: held by the rows themselves."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.changes import newest_commits
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import NewRowsNotKnown, PinnedSource, SourceRewritten
from slackwater.engine.source.row_changes import kept_row_by_row
from tests.engine.source.source_logs import File, Log, Rows, hour


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def new_rows(log: Log, now: PinnedSource, before: PinnedSource, covered: float) -> list[int]:
    """Rows of files that may hold some which arrived before `covered` hours and that nobody has read."""
    files = now.files(hour(covered), hour(covered), "a", before)
    return sorted(row for file in files if file.may_hold_unread for row in rows_of(log, file))


def rows_of(log: Log, file: InputFile) -> Rows:
    """The rows of a file as the version has them that lists it."""
    files = log.files if file.listed_at is None else log.versions[file.listed_at]
    return files[file.path, None if file.vector is None else file.vector.place]


class TestDeletionVectors:
    def test_deleting_rows_that_were_read_is_refused_with_the_earliest_arrival(self, log: Log) -> None:
        file = log.append(1, 2)
        before = log.pin()
        log.hide(file, 2)
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T01:00:00Z on"):
            log.pin().check_kept(before, hour(24), "a")

    def test_updating_rows_that_were_read_is_refused(self, log: Log) -> None:
        file = log.append(1, 2)
        before = log.pin()
        log.hide(file, 2, updated=frozenset([2]))
        with pytest.raises(SourceRewritten):
            log.pin().check_kept(before, hour(24), "a")

    def test_a_second_vector_over_a_file_that_has_one_is_refused(self, log: Log) -> None:
        file = log.hide(log.append(1, 2, 3), 3)
        before = log.pin()
        log.hide(file, 2)
        with pytest.raises(SourceRewritten):
            log.pin().check_kept(before, hour(24), "a")

    def test_deleting_and_updating_rows_that_nobody_has_read_goes_on(self, log: Log) -> None:
        log.append(1, 2)
        file = log.append(24, 25, 26)
        before = log.pin()
        log.hide(log.hide(file, 25), 26, updated=frozenset([26]))
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == []
        assert len(now.files(hour(24), hour(48), "a", before)) == 2

    def test_rows_that_an_update_moves_to_covered_arrivals_are_new(self, log: Log) -> None:
        log.append(1, 2)
        file = log.append(24, 25)
        before = log.pin()
        log.hide(file, 25, updated=frozenset([3]))
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == [3]

    def test_purging_and_compacting_are_no_change(self, log: Log) -> None:
        first = log.hide(log.append(1, 2, 3), 2)
        second = log.append(4)
        before = log.pin()
        [purged] = log.compact(first)
        log.compact(purged, second)
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == []
        assert now.is_certain_since(before)

    def test_a_purge_hides_no_delete_before_it(self, log: Log) -> None:
        file = log.append(1, 2, 3)
        before = log.pin()
        log.compact(log.hide(file, 2))
        with pytest.raises(SourceRewritten):
            log.pin().check_kept(before, hour(24), "a")

    def test_restoring_the_rows_that_a_vector_hid_is_no_change(self, log: Log) -> None:
        file = log.append(1, 2, 3)
        before = log.pin()
        log.hide(file, 2)
        log.restore(before.version)
        log.append(5, 30)
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == [5, 30]


class TestCompactedFiles:
    @pytest.mark.parametrize("way", ["copy", "vector"])
    def test_rows_that_were_compacted_before_they_were_deleted_are_missed(self, log: Log, way: str) -> None:
        files = [log.append(1, 2), log.append(3, 4)]
        before = log.pin()
        [compacted] = log.compact(*files)
        if way == "copy":
            log.copy_without(compacted, 3)
        else:
            log.hide(compacted, 3)
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T01:00:00Z on"):
            log.pin().check_kept(before, hour(24), "a")

    def test_rows_that_were_deleted_are_missed_though_new_ones_were_compacted(self, log: Log) -> None:
        read = log.append(1, 2)
        before = log.pin()
        log.commit({}, [read])
        log.compact(log.append(30), log.append(31))
        with pytest.raises(SourceRewritten):
            log.pin().check_kept(before, hour(24), "a")

    def test_unread_rows_of_a_compacted_file_may_be_deleted(self, log: Log) -> None:
        files = [log.append(1, 2), log.append(30, 31)]
        before = log.pin()
        _, later = log.compact(*files, into=2)
        log.hide(later, 30)
        log.pin().check_kept(before, hour(24), "a")

    def test_new_rows_that_were_compacted_with_each_other_are_new(self, log: Log) -> None:
        log.append(1)
        before = log.pin()
        log.compact(log.append(2), log.append(3))
        now = log.pin()
        assert new_rows(log, now, before, 24) == [2, 3]
        assert now.is_certain_since(before)

    def test_new_rows_that_were_compacted_with_old_ones_are_read_in_the_files_that_brought_them(
        self, log: Log
    ) -> None:
        old = log.append(1)
        before = log.pin()
        new = [log.append(2), log.append(30)]
        [compacted] = log.compact(old, *new)
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == [2]
        assert now.is_certain_since(before)
        assert [(file.path, file.is_part) for file in now.files(hour(24), hour(48), "a", before)] == [
            (compacted[0], False),
            (new[0][0], True),
        ]

    def test_compactions_of_compacted_files_lead_back_to_the_files_that_brought_new_rows(
        self, log: Log
    ) -> None:
        old = [log.append(1), log.append(4)]
        before = log.pin()
        first = log.compact(old[0], log.append(2), into=2)
        log.compact(*first, log.append(3), old[1], into=2)
        now = log.pin()
        assert new_rows(log, now, before, 24) == [2, 3]
        assert now.is_certain_since(before)

    def test_a_file_of_which_rows_were_erased_before_it_was_compacted_with_others_is_read_without_them(
        self, log: Log
    ) -> None:
        old = log.append(1)
        before = log.pin()
        erased = log.hide(log.append(2, 3), 2)
        erasing = log.version
        log.compact(old, erased)
        now = log.pin().without(frozenset({erasing}))
        assert new_rows(log, now, before, 24) == [3]

    def test_of_rows_that_were_erased_after_they_were_compacted_with_others_nothing_tells_which_are_new(
        self, log: Log
    ) -> None:
        old = log.append(1)
        before = log.pin()
        [compacted] = log.compact(old, log.append(2, 3))
        log.hide(compacted, 2)
        now = log.pin().without(frozenset({log.version}))
        assert not now.is_certain_since(before)
        with pytest.raises(NewRowsNotKnown):
            kept_row_by_row(now, before, hour(24), "a")

    def test_a_restatement_that_has_read_some_of_the_new_rows_leaves_the_others(self, log: Log) -> None:
        log.append(1)
        before = log.pin()
        files = [log.append(2), log.append(3)]
        log.compact(*files)
        now = log.pin()
        newer_reads = [ReadRange(hour(0), hour(24), before.version + 1)]
        assert now.is_certain_since(before, newer_reads)
        parts = now.files(hour(48), hour(48), "a", before, newer_reads=newer_reads)
        assert [(rows_of(log, file), file.read_to_ms) for file in parts] == [(frozenset({3}), None)]
        assert now.added_since(before, [before.version + 1]) == {
            files[0][0]: before.version + 1,
            files[1][0]: before.version + 2,
        }


class TestRestoredTables:
    def test_a_restore_that_undoes_a_compaction_is_no_change(self, log: Log) -> None:
        files = [log.append(1, 2), log.append(3, 4)]
        before = log.pin()
        log.compact(*files)
        log.restore(before.version)
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == []

    def test_a_restore_behind_what_runs_have_read_is_refused(self, log: Log) -> None:
        first = log.append(1, 2)
        version = log.version
        log.append(3, 4)
        before = log.pin()
        log.restore(version)
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T03:00:00Z on"):
            log.pin().check_kept(before, hour(24), "a")
        assert first in log.files

    def test_rows_that_were_gone_while_a_restatement_read_are_refused_when_they_are_back(
        self, log: Log
    ) -> None:
        file = log.append(1, 2)
        before = log.pin()
        log.commit({}, [file])
        seen_version = log.version
        log.restore(before.version)
        now = log.pin()
        now.check_kept(before, hour(24), "a")
        now.check_kept(before, hour(24), "a", [ReadRange(hour(0), hour(24), now.version)])
        with pytest.raises(SourceRewritten):
            now.check_kept(before, hour(24), "a", [ReadRange(hour(0), hour(24), seen_version)])


class TestLogsThatAreGone:
    def without(self, log: Log, version: int) -> PinnedSource:
        from deltalake import DeltaTable

        DeltaTable(str(log.folder)).create_checkpoint()
        (log.folder / "_delta_log" / f"{version:020d}.json").unlink()
        return log.pin()

    def test_read_rows_of_a_file_that_has_vanished_are_gone_where_no_other_may_hold_them(
        self, log: Log
    ) -> None:
        log.append(3)
        file = log.append(1, 2)
        before = log.pin()
        log.commit({}, [file])
        log.append(30)
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T01:00:00Z on"):
            self.without(log, log.version).check_kept(before, hour(24), "a")

    def test_rows_that_another_file_may_hold_are_not_taken_as_kept(self, log: Log) -> None:
        files = [log.append(1, 2), log.append(3)]
        before = log.pin()
        log.compact(*files)
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T01:00:00Z on"):
            self.without(log, log.version).check_kept(before, hour(24), "a")

    def test_where_files_have_only_come_all_their_rows_are_new(self, log: Log) -> None:
        log.append(1)
        before = log.pin()
        log.append(2)
        lost_version = log.version
        log.append(3)
        now = self.without(log, lost_version)
        now.check_kept(before, hour(24), "a")
        assert new_rows(log, now, before, 24) == [2, 3]
        assert now.is_certain_since(before)

    def test_a_restatement_between_commits_that_are_lost_has_read_nobody_knows_which_rows(
        self, log: Log
    ) -> None:
        log.append(1)
        before = log.pin()
        log.append(2)
        read_version = log.version
        log.append(3)
        now = self.without(log, read_version)
        (log.folder / "_delta_log" / f"{log.version:020d}.json").unlink()
        assert not now.is_certain_since(before, [ReadRange(hour(0), hour(24), read_version)])
        with pytest.raises(NewRowsNotKnown, match="arrivals from 2013-01-01T02:00:00Z to 2013-01-01T03:00"):
            kept_row_by_row(now, before, hour(24), "a", [ReadRange(hour(0), hour(24), read_version)])


PERIOD, COVERED = 40, 24


def change(log: Log, draw: st.DrawFn, number: int) -> None:
    """One commit on `log`; a row that it brings is none that was there before."""
    arrivals = st.sets(st.integers(0, PERIOD - 1), min_size=1, max_size=4)
    files: list[File] = sorted(log.files, key=repr)
    kind = draw(
        st.sampled_from(["append", "restore", *(["hide", "copy", "compact", "compact"] if files else [])])
    )
    if kind == "append":
        log.append(*(number * PERIOD + arrival for arrival in draw(arrivals)))
    elif kind == "restore":
        log.restore(draw(st.integers(0, log.version)))
    elif kind == "compact":
        log.compact(
            *draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)),
            into=draw(st.integers(1, 2)),
        )
    else:
        file = draw(st.sampled_from(files))
        rows = (
            draw(st.sets(st.sampled_from(sorted(log.files[file])), min_size=1)) if log.files[file] else set()
        )
        updated = frozenset(
            number * PERIOD + arrival for arrival in draw(st.sets(st.integers(0, PERIOD - 1), max_size=1))
        )
        (log.hide if kind == "hide" else log.copy_without)(file, *rows, updated=updated)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_row_that_was_read_changes_unnoticed_and_new_ones_are_new_once(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "t", PERIOD, has_statistics=data.draw(st.booleans()))
        log.append(PERIOD * 1000 + 1, PERIOD * 1000 + 30)
        for number in range(data.draw(st.integers(1, 7))):
            change(log, data.draw, number)
        read_at = data.draw(st.integers(1, log.version))
        if not log.rows(read_at) or not log.files:
            return  # an empty source is refused
        newer_reads, read = [], {row for row in log.rows(read_at) if log.arrival(row) < COVERED}
        if data.draw(st.booleans()):
            version, end = data.draw(st.integers(read_at, log.version)), data.draw(st.integers(1, COVERED))
            newer_reads = [ReadRange(hour(0), hour(end), version)] if version > read_at else []
            reread_rows = {row for row in log.rows(version) if log.arrival(row) < end}
            read = {row for row in read if log.arrival(row) >= end} | reread_rows if newer_reads else read
        before, now = log.pin(read_at), log.pin()
        try:
            now.check_kept(before, hour(COVERED), "a", newer_reads)
        except SourceRewritten:
            return
        assert read <= log.rows(log.version)
        if now.is_certain_since(before, newer_reads):
            new_row_ids = []
            for file in now.files(hour(COVERED), hour(COVERED), "a", before, newer_reads=newer_reads):
                read_to = file.read_to_ms or hour(0)
                new_row_ids += [
                    row
                    for row in rows_of(log, file)
                    if file.may_hold_unread and read_to <= hour(log.arrival(row)) < hour(COVERED)
                ]
            assert sorted(new_row_ids) == sorted(
                row for row in log.rows(log.version) - read if log.arrival(row) < COVERED
            )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_rows_whose_deletion_counts_as_an_erasure_were_never_there(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "t", PERIOD, has_statistics=data.draw(st.booleans()))
        log.append(PERIOD * 1000 + 1, PERIOD * 1000 + 30)
        erasing: set[int] = set()
        for number in range(data.draw(st.integers(1, 7))):
            if data.draw(st.booleans()):
                log.append(
                    *(
                        number * PERIOD + arrival
                        for arrival in data.draw(st.sets(st.integers(0, PERIOD - 1), min_size=1))
                    )
                )
            elif files := sorted(log.files, key=repr):
                file = data.draw(st.sampled_from(files))
                rows = (
                    data.draw(st.sets(st.sampled_from(sorted(log.files[file])), min_size=1))
                    if log.files[file]
                    else set()
                )
                (log.hide if data.draw(st.booleans()) else log.copy_without)(file, *rows)
                erasing.add(log.version)
        read_at = data.draw(st.integers(1, log.version))
        if not log.rows(read_at) or not log.files:
            return  # an empty source is refused
        before, now = log.pin(read_at), log.pin().without(frozenset(erasing))
        now.check_kept(before, hour(COVERED), "a")
        if now.is_certain_since(before):
            new_row_ids = [row for row in new_rows(log, now, before, COVERED) if log.arrival(row) < COVERED]
            assert new_row_ids == sorted(
                row for row in log.rows(log.version) - log.rows(read_at) if log.arrival(row) < COVERED
            )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changes_of_files_that_nobody_has_read_are_never_refused(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "t")
        read = [log.append(1, 2), log.append(3)]
        log.append(30, 31, 32)
        before = log.pin()
        for number in range(data.draw(st.integers(1, 6))):
            unread_files = [file for file in log.files if file not in read]
            kind = data.draw(
                st.sampled_from(
                    ["append", "compact", "compact read", *(["hide", "copy"] if unread_files else [])]
                )
            )
            if kind == "append":
                log.append(*data.draw(st.sampled_from([(5 + number, 40 + number), (50 + number,)])))
            elif kind == "compact read":
                read = log.compact(*read)
            elif kind == "compact":
                log.compact(*(file for file in unread_files if min(log.written[file[0]]) >= 24))
            else:
                file = data.draw(st.sampled_from(unread_files))
                lost_rows = (
                    data.draw(st.sets(st.sampled_from(sorted(log.files[file])), max_size=2))
                    if log.files[file]
                    else set()
                )
                (log.hide if kind == "hide" else log.copy_without)(file, *lost_rows)
        log.pin().check_kept(before, hour(24), "a")


@pytest.mark.parametrize(
    "said, is_deletion",
    [
        ({"operation": "DELETE"}, True),
        ({"operation": "UPDATE"}, False),
        ({"operation": "MERGE"}, False),
        (
            {
                "operation": "MERGE",
                "operationMetrics": {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0"},
            },
            True,
        ),
        (
            {
                "operation": "MERGE",
                "operationMetrics": {"num_target_rows_inserted": 0, "num_target_rows_updated": 2},
            },
            False,
        ),
        ({}, False),
    ],
)
def test_only_what_says_that_it_deletes_and_nothing_else_can_be_an_erasure(
    log: Log, said: dict[str, object], is_deletion: bool
) -> None:
    log.append(1, 2)
    path = log.folder / "_delta_log" / f"{log.version:020d}.json"
    lines = path.read_text().splitlines()[1:]
    path.write_text("\n".join([json.dumps({"commitInfo": said}), *lines]))
    [commit] = newest_commits(str(log.folder), log.version, log.version)
    assert commit.only_deletes is is_deletion
