"""The runs of a lineage as a graph over the time of their slices: main, and beside it the branches that began
at some run, with the moment at which main took their runs.

    main       ──1────2────3────4────5──      2 and 3 do not count any more
    restate        ╰──7────8──╯               7 and 8 do, since the publication 9
    trial                  ╰──10              is not published

A pure function on rows of the ledger.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from slackwater.tables.ledger.rows import MAIN, RUN_KINDS, LedgerRow, RowKind
from slackwater.tables.ledger.spans import seqs_of


class Standing(StrEnum):
    """Whether the rows of a run count.

    Attributes:
        LIVE: for readers of main.
        WAITING: on a branch that is not published.
        OBSOLETE: nowhere any more: another run took its slice, or its branch was dropped.
    """

    LIVE = "live"
    WAITING = "waiting"
    OBSOLETE = "obsolete"


@dataclass(frozen=True)
class GraphRun:
    row: LedgerRow
    standing: Standing
    lane: int


@dataclass(frozen=True, kw_only=True)
class GraphBranch:
    """A branch beside main, from its start to the end of its last slice, in the time of slices. `lane` 1 is
    next to main; branches that share no time may share one. `publications`: seqs of rows by which main took
    its runs.
    """

    name: str
    lane: int
    start: datetime
    end: datetime
    publications: tuple[int, ...]
    is_dropped: bool


@dataclass(frozen=True)
class LineageGraph:
    """The graph: runs in the order of their seqs, branches in the order of their forks, and in `moves` the
    rows that moved main and made no run.
    """

    runs: tuple[GraphRun, ...]
    branches: tuple[GraphBranch, ...]
    moves: tuple[LedgerRow, ...]

    @property
    def lanes(self) -> int:
        return 1 + max((branch.lane for branch in self.branches), default=0)


@dataclass
class _Fork:
    """A branch while the ledger is read. `row` made it, or is its first run where reading began later."""

    row: LedgerRow
    runs: list[LedgerRow]
    publications: list[int]
    is_dropped: bool = False

    @property
    def start(self) -> datetime:
        start = self.row.slice_end if self.row.kind == RowKind.FORK else self.row.slice_start
        assert start is not None, "a fork begins where its last run ended"
        return start

    @property
    def end(self) -> datetime:
        return max((run.slice_end for run in self.runs if run.slice_end is not None), default=self.start)


def lineage_graph(rows: Sequence[LedgerRow]) -> LineageGraph:
    forks = _forks(rows)
    lanes = _lanes(forks)
    lane_by_seq = {run.seq: lanes[place] for place, fork in enumerate(forks) for run in fork.runs}
    live_seqs, waiting_seqs = _live_seqs(rows)
    runs = []
    for row in rows:
        if row.kind in RUN_KINDS:
            is_waiting = row.seq in waiting_seqs
            standing = Standing.WAITING if is_waiting else Standing.OBSOLETE
            runs.append(
                GraphRun(
                    row, Standing.LIVE if row.seq in live_seqs else standing, lane_by_seq.get(row.seq, 0)
                )
            )
    return LineageGraph(
        runs=tuple(runs),
        branches=tuple(
            GraphBranch(
                name=fork.row.branch,
                lane=lanes[place],
                start=fork.start,
                end=fork.end,
                publications=tuple(fork.publications),
                is_dropped=fork.is_dropped,
            )
            for place, fork in enumerate(forks)
        ),
        moves=tuple(row for row in rows if row.kind in _MOVES),
    )


_MOVES = frozenset({RowKind.PUBLISH, RowKind.RESTORE, RowKind.ERASE})


def _forks(rows: Iterable[LedgerRow]) -> list[_Fork]:
    forks: list[_Fork] = []
    fork_by_name: dict[str, _Fork] = {}
    main_seqs: set[int] = set()
    for row in rows:
        fork = fork_by_name.get(row.branch)
        if row.kind == RowKind.FORK:
            fork_by_name[row.branch] = _Fork(row, [], [])
            forks.append(fork_by_name[row.branch])
        elif row.kind in RUN_KINDS and row.branch != MAIN:
            if fork is None:
                fork = fork_by_name[row.branch] = _Fork(row, [], [])
                forks.append(fork)
            fork.runs.append(row)
        elif row.kind == RowKind.DROP and fork is not None:
            fork.is_dropped = True
        if row.branch == MAIN:
            new_seqs = set(seqs_of(row.live)) - main_seqs
            if row.kind == RowKind.PUBLISH:
                for taken_fork in forks:
                    if any(run.seq in new_seqs for run in taken_fork.runs):
                        taken_fork.publications.append(row.seq)
            main_seqs = set(seqs_of(row.live))
    return forks


def _lanes(forks: Sequence[_Fork]) -> list[int]:
    """The lane of each branch: the first in which no earlier branch takes its time."""
    ends: list[datetime] = []
    lanes = []
    for fork in forks:
        free = (place for place, end in enumerate(ends) if end <= fork.start)
        lane = next(free, len(ends))
        ends[lane : lane + 1] = [fork.end]
        lanes.append(lane + 1)
    return lanes


def _live_seqs(rows: Sequence[LedgerRow]) -> tuple[set[int], set[int]]:
    heads: dict[str, LedgerRow] = {row.branch: row for row in rows}
    main = heads.pop(MAIN, None)
    waiting = {seq for head in heads.values() if head.kind != RowKind.DROP for seq in seqs_of(head.live)}
    return (set() if main is None else set(seqs_of(main.live))), waiting
