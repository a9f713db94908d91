"""A table without a column of arrivals that is appended to, compacted, vacuumed and restored, and loses rows,
between runs: each row arrives with the commit that brought it, a run reads each row of its slice exactly
once, and it is refused where the rows that runs have read are others now, or where it can't know. A model of
rows knows which commit brought which row.
"""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.pinned_source import NewRowsNotKnown, PinnedSource, SourceRewritten
from slackwater.engine.source.row_changes import kept_row_by_row
from slackwater.engine.source.row_groups import SourceFile
from slackwater.pipelines import COMMIT_TIME
from tests.engine.source.commit_logs import CommitLog, arrivals_of
from tests.engine.source.tracked_logs import TrackedLog
from tests.runs.world import ms

KINDS = ("append", "append", "rewrite", "delete", "update", "restore", "vacuum", "lose_log")


@dataclass
class History:
    """A table, the hour at which each of its rows was committed, and what runs have read.

    Attributes:
        hours: number → the hour of its commit, of the rows that are in the table.
        has_vectors: whether rows are deleted by deletion vectors, else by writing files again.
        tracks_rows: whether rows keep the version of their commit, whichever files hold them.
        end: up to which hour runs have read.
        is_vacuumed: since the last run.
    """

    log: CommitLog
    has_vectors: bool
    tracks_rows: bool
    hours: dict[int, float] = field(default_factory=dict)
    read_rows: set[int] = field(default_factory=set)
    before: PinnedSource | None = None
    end: float = 0
    now: float = 0
    count: int = 0
    is_vacuumed: bool = False
    has_lost_log: bool = False
    states: dict[int, dict[int, float]] = field(default_factory=dict)

    def append(self, rows: int) -> None:
        self.now += 1
        numbers = range(self.count + 1, self.count + rows + 1)
        self.count += rows
        self.hours |= dict.fromkeys(numbers, self.now)
        is_new = not Path(self.log.uri).exists()
        self.log.append(self.now, numbers)
        if is_new and self.has_vectors:
            self.log.with_vectors()

    def rewrite(self, places: list[int], into: int) -> None:
        self.now += 1
        self.log.rewrite(self.now, places, into)

    def delete(self, number: int) -> None:
        self.now += 1
        if self.hours.pop(number, None) is not None:
            (self.log.hide if self.has_vectors else self.log.delete)(self.now, number)

    def update(self, number: int) -> None:
        """Put a row with another number in the place of a row."""
        if self.tracks_rows and number in self.hours:
            self.now += 1
            self.count += 1
            self.hours.pop(number)
            self.hours[self.count] = self.now
            assert isinstance(self.log, TrackedLog)
            self.log.update(self.now, number, self.count)

    def restore(self, version: int) -> None:
        self.now += 1
        if self.states.get(version) and self.log.restore(self.now, version):
            self.hours = dict(self.states[version])

    def vacuum(self) -> None:
        self.now += 1
        self.log.vacuum(self.now)
        self.is_vacuumed = True

    def lose_log(self) -> None:
        self.log.lose_log()
        self.has_lost_log = True
        self.states.clear()

    def check_arrivals(self, source: PinnedSource) -> None:
        arrivals = {number: hour for number, hour, _ in arrivals_of(source)}
        assert sorted(number for number, *_ in arrivals_of(source)) == sorted(self.hours)
        assert not self.tracks_rows or self.has_lost_log or not source.files_dated_as_a_whole()
        if not source.files_dated_as_a_whole() and not self.has_lost_log:
            assert arrivals == self.hours
        elif not self.has_lost_log:
            assert all(arrivals[number] >= hour for number, hour in self.hours.items())

    def run(self, to: float) -> None:
        """A run of the slice up to the hour `to`; a refusal is followed by a restatement of everything."""
        source = self.log.pin()
        self.check_arrivals(source)
        is_vague = self.is_vacuumed or self.has_lost_log
        is_dated_as_a_whole = bool(source.files_dated_as_a_whole())
        lost_rows = self.read_rows - self.hours.keys()
        # A RESTORE brings back rows of slices that runs have read without them.
        is_changed = self.read_rows != {number for number, hour in self.hours.items() if hour < self.end}
        try:
            if self.before is not None:
                self.before = self.log.pin(self.before.version)
                source = kept_row_by_row(source, self.before, ms(self.end), COMMIT_TIME)
        except SourceRewritten as error:
            assert is_changed or is_vague, f"nothing that was read has changed: {error}"
            is_said_so = isinstance(error, NewRowsNotKnown)
            assert is_changed or self.has_lost_log or self.tracks_rows or is_said_so
            self.before, self.end, self.read_rows = None, 0, set()
        else:
            assert is_vague or is_dated_as_a_whole or not is_changed, (
                "rows have come into slices that were read"
            )
            assert not lost_rows, "a change of rows that were read went unnoticed"
        numbers = self.read(source, to)
        assert not set(numbers) & self.read_rows, "a row was read twice"
        assert len(numbers) == len(set(numbers))
        if not self.has_lost_log and not source.files_dated_as_a_whole():
            expected = {number for number, hour in self.hours.items() if self.end <= hour < to}
            assert set(numbers) == expected
        self.read_rows |= set(numbers)
        source.record_files(COMMIT_TIME)
        self.before, self.end, self.is_vacuumed = source, to, False

    def read(self, source: PinnedSource, to: float) -> list[int]:
        numbers: list[int] = []
        for file in source.files(ms(self.end), ms(to), COMMIT_TIME, self.before):
            assert not file.may_hold_unread or self.before is None, "there is no straggler"
            for batch in SourceFile(source.uri, file, source.schema).batches(("row", COMMIT_TIME), None):
                for row in batch.rows.to_pylist():
                    if ms(self.end) <= row[COMMIT_TIME].timestamp() * 1000 < ms(to):
                        numbers.append(row["row"])
        return numbers


def play(data: st.DataObject, kinds: tuple[str, ...]) -> None:
    with TemporaryDirectory() as folder:
        tracks_rows = data.draw(st.booleans())
        log = TrackedLog(folder) if tracks_rows else CommitLog(folder)
        history = History(log, has_vectors=data.draw(st.booleans()), tracks_rows=tracks_rows)
        history.append(data.draw(st.integers(1, 3)))
        history.states[history.log.version] = dict(history.hours)
        for _ in range(data.draw(st.integers(1, 4))):
            for _ in range(data.draw(st.integers(0, 4))):
                kind = data.draw(st.sampled_from(kinds))
                if kind == "append":
                    history.append(data.draw(st.integers(1, 3)))
                elif kind in ("delete", "update"):
                    getattr(history, kind)(data.draw(st.integers(1, history.count)))
                elif not history.hours:
                    continue
                elif kind == "restore":
                    history.restore(data.draw(st.sampled_from(sorted(history.states) or [0])))
                elif kind == "rewrite":
                    places = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
                    history.rewrite(places, data.draw(st.integers(1, 2)))
                else:
                    getattr(history, kind)()
                history.states[history.log.version] = dict(history.hours)
            # Some commits are newer than the slice, as they are when a run comes late.
            history.run(max(history.end, history.now - data.draw(st.integers(0, 3))))
        end = history.now + 1
        history.run(end)
        if not history.has_lost_log:
            assert history.read_rows == history.hours.keys(), "a row was never read"


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_each_row_arrives_with_its_commit_and_is_read_once(data: st.DataObject) -> None:
    play(data, tuple(kind for kind in KINDS if kind not in ("vacuum", "lose_log")))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_each_row_arrives_once_whatever_upkeep_does(data: st.DataObject) -> None:
    play(data, KINDS)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_restored_rows_arrive_as_they_did(data: st.DataObject) -> None:
    play(data, ("append", "append", "rewrite", "rewrite", "delete", "delete", "restore", "restore"))
