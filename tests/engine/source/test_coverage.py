"""Which rows of which file live runs have read, after any history of runs and restatements: held by a lineage
that is played row by row.
"""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.coverage import ReadRange, read_to, was_read


@dataclass(frozen=True)
class Run:
    low: int
    high: int
    version: int
    parent: int | None  # the version of the run before it, when it ran


@dataclass(frozen=True)
class Row:
    arrival: int
    added: int
    removed: int | None = None

    def is_in(self, version: int) -> bool:
        return self.added <= version and (self.removed is None or version < self.removed)


def readers(rows: list[Row], runs: list[Run]) -> dict[Row, list[Run]]:
    """Which live runs have read each row: that of its own slice, else the first later one whose version alone
    has it.
    """
    runs_by_row: dict[Row, list[Run]] = {row: [] for row in rows}
    for run in runs:
        for row in rows:
            is_in_slice = run.low <= row.arrival < run.high
            folded = (
                row.arrival < run.low
                and run.parent is not None
                and not row.is_in(run.parent)
                and not runs_by_row[row]
            )
            if row.is_in(run.version) and (is_in_slice or folded):
                runs_by_row[row].append(run)
    return runs_by_row


@st.composite
def lineages(draw: st.DrawFn) -> tuple[list[Run], list[ReadRange], int]:
    """Live runs in slice order, one after the other, a part of them restated later on; and what the next run
    is told of it.
    """
    slices = draw(st.integers(1, 6))
    versions = sorted(draw(st.lists(st.integers(1, 5), min_size=slices, max_size=slices)))
    runs = [Run(10 * n, 10 * n + 10, versions[n], versions[n - 1] if n else None) for n in range(slices)]
    if draw(st.booleans()):
        low = draw(st.integers(0, slices - 1))
        high = draw(st.integers(low + 1, slices))
        versions_again = sorted(
            draw(st.lists(st.integers(versions[-1], 8), min_size=high - low, max_size=high - low))
        )
        for position, number in enumerate(range(low, high)):
            before = versions_again[position - 1] if position else runs[number].parent
            runs[number] = replace(runs[number], version=versions_again[position], parent=before)
    last = runs[-1].version
    return runs, [ReadRange(run.low, run.high, run.version) for run in runs if run.version > last], last


@given(lineages(), st.integers(0, 70), st.integers(1, 9))
@settings(max_examples=300)
def test_a_row_that_is_new_since_the_run_before_has_been_read_if_a_restatement_has_read_it(
    lineage: tuple[list[Run], list[ReadRange], int], arrival: int, version: int
) -> None:
    runs, newer_reads, last = lineage
    row = Row(arrival, last + version)
    has_read = bool(readers([row], runs)[row])
    until = read_to(newer_reads, row.added)
    assert has_read == (until is not None and arrival < until)


@given(lineages(), st.data())
@settings(max_examples=500)
def test_what_a_live_run_has_read_of_a_removed_file_is_never_overlooked(
    lineage: tuple[list[Run], list[ReadRange], int], data: st.DataObject
) -> None:
    runs, newer_reads, last = lineage
    end = runs[-1].high
    low = data.draw(st.integers(0, end + 5))
    high = data.draw(st.integers(low, end + 8))
    added = data.draw(st.one_of(st.none(), st.integers(last + 1, last + 4)))
    removed = data.draw(st.integers(max(last, added or 0) + 1, last + 8))
    rows = [Row(arrival, added or 0, removed) for arrival in range(low, high + 1)]
    runs_by_row = readers(rows, runs)
    rests = any(run.version < removed for row in rows for run in runs_by_row[row])
    answer = was_read(newer_reads, low, high, added_at=added, removed_at=removed, read_ms=end)
    assert answer or not rests
    if not newer_reads:
        assert answer == rests, "without a restatement it is exact"


def test_a_file_that_was_restated_as_a_whole_rests_on_nothing_any_more() -> None:
    newer_reads = [ReadRange(10, 20, 7), ReadRange(20, 30, 8)]
    assert not was_read(newer_reads, 12, 29, added_at=None, removed_at=6, read_ms=50)
    assert was_read(newer_reads, 12, 30, added_at=None, removed_at=6, read_ms=50), (
        "its last row arrived in a slice that was not restated"
    )
    assert was_read(newer_reads, 9, 12, added_at=None, removed_at=6, read_ms=50)
    assert was_read(newer_reads, 12, 29, added_at=None, removed_at=8, read_ms=50), (
        "the first of the two slices was restated before the file was removed"
    )
