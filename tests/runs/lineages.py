"""Random histories of a lineage: runs, restatements that converge or don't, and restores, with panes as an
engine may stage them.

Firings of a window count upwards in a run, and along a lineage but for windows that begin again at 1:
earlier releases made a window anew that they had collected, when the allowed lateness was raised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.runs.publishing.corrections import Identity
from tests.runs.published_model import Change, PaneRow

HOUR = timedelta(hours=1)
LATE_EVENING = datetime(2013, 1, 1, 23, tzinfo=UTC)
LONG_AGO = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
GROUPS = {"a": 3, "b": 77}
WINDOWS = [(start, start + HOUR) for start in (LATE_EVENING, LATE_EVENING + HOUR, LONG_AGO)] + [(None, None)]
TIMES = [LATE_EVENING, LATE_EVENING + HOUR]
KEYS = (("k", pa.string()), ("part", pa.int32()))
RESULTS = (("n", pa.int64()), ("mean", pa.float64()))

State = dict[Any, tuple[int, bool]]  # window -> (firings so far, whether it is gone)


@dataclass(frozen=True)
class Row:
    """One ledger row. `live` are seqs in slice order; `panes` only where it ran."""

    seq: int
    kind: str
    branch: str
    live: tuple[int, ...]
    panes: tuple[PaneRow, ...] = ()
    resume_from: int | None = None
    to: int | None = None


@dataclass
class History:
    """The rows so far, and what the runs among them have parked."""

    identity: Identity
    rows: list[Row] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)

    @property
    def main(self) -> tuple[int, ...]:
        """What is live in main."""
        return next((row.live for row in reversed(self.rows) if row.branch == "main"), ())

    def state(self, live: Sequence[int]) -> State:
        return self.states[live[-1]] if live else {}

    def panes(self, seq: int) -> tuple[PaneRow, ...]:
        return self.rows[seq - 1].panes

    def add(self, kind: str, branch: str, live: Sequence[int], **facts: Any) -> None:
        self.rows.append(Row(len(self.rows) + 1, kind, branch, tuple(live), **facts))

    def run(self, branch: str, live: Sequence[int], panes: Sequence[PaneRow]) -> tuple[int, ...]:
        state = dict(self.state(live))
        for pane in sorted(panes, key=lambda pane: pane.firing):
            state[pane.window] = (pane.firing, pane.kind == "withdrawn")
        seq = len(self.rows) + 1
        self.states[seq] = {} if self.identity is Identity.RUN else state
        self.add("run", branch, [*live, seq], panes=tuple(panes))
        return (*live, seq)

    def changes(self) -> list[Change]:
        """The rows of main for the model."""
        causes = {"publish": "restatement", "restore": "restore"}
        return [
            Change(row.seq, tuple(self.panes(seq) for seq in row.live), causes.get(row.kind))
            for row in self.rows
            if row.branch == "main"
        ]


@st.composite
def histories(draw: st.DrawFn, identity: Identity, most: int = 6) -> History:
    """Some runs of main, then whatever a lineage may go through."""
    history = History(identity)
    for _ in range(draw(st.integers(1, 3))):
        history.run("main", history.main, draw(panes(identity, history.state(history.main))))
    for number in range(draw(st.integers(0, most))):
        what = draw(st.sampled_from(["run", "restate", "restate", "restore"]))
        if what == "run":
            history.run("main", history.main, draw(panes(identity, history.state(history.main))))
        elif what == "restate" and history.main:
            _restate(draw, history, f"fix{number}")
        elif what == "restore":
            to = draw(st.sampled_from([row for row in history.rows if row.branch == "main"]))
            history.add("restore", "main", to.live, to=to.seq)
    return history


def _restate(draw: st.DrawFn, history: History, branch: str) -> None:
    """Replay some of main's runs on a branch, equal, a little different or wholly different, and publish
    it.
    """
    main = history.main
    first = draw(st.integers(0, len(main) - 1))
    live = main[:first]
    history.add("fork", branch, live)
    for number in range(first, first + draw(st.integers(1, 2))):
        same_so_far = history.state(live) == history.state(main[:number])
        if number < len(main) and same_so_far and draw(st.booleans()):
            replayed = draw(_altered(history.panes(main[number])))
        else:
            replayed = draw(panes(history.identity, history.state(live)))
        live = history.run(branch, live, replayed)
    later = main[len(live) :]
    converged = bool(later) and history.state(live) == history.state(main[: len(live)])
    resume = later[0] if converged and draw(st.booleans()) else None
    history.add("publish", "main", live if resume is None else live + later, resume_from=resume)


@st.composite
def _altered(draw: st.DrawFn, replayed: tuple[PaneRow, ...]) -> list[PaneRow]:
    """The same firings with other results here and there, and some with fewer rows."""
    changed = []
    for pane in replayed:
        fate = draw(st.sampled_from(["kept", "kept", "changed", "dropped"]))
        if fate == "changed" and pane.kind != "withdrawn":
            changed.append(replace(pane, results=draw(results())))
        elif fate != "dropped" or pane.ordinal == 0 or pane.timestamp is not None:
            changed.append(pane)
    return changed


def results() -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, 0.5, float("nan")]))


@st.composite
def panes(draw: st.DrawFn, identity: Identity, state: State) -> list[PaneRow]:
    """The panes of one run that continues `state`: firings count upwards, with gaps; withdrawal is the end
    of a window. One may begin again."""
    firings, fired = dict(state), set[Any]()
    log: list[PaneRow] = []
    for _ in range(draw(st.integers(0, 6))):
        key = draw(st.sampled_from(list(GROUPS)))
        prefix = (key, None if key == "b" else 1)
        if identity is Identity.RUN:
            moment = draw(st.sampled_from(TIMES))
            ordinal = sum(pane.window[0] == key and pane.timestamp == moment for pane in log)
            log.append(
                PaneRow(GROUPS[key], (*prefix, None, None), 1, ordinal, "on_time", draw(results()), moment)
            )
            continue
        window = (*prefix, *draw(st.sampled_from(WINDOWS)))
        count, gone = firings.get(window, (0, False))
        if window not in fired and window[-1] is not None and draw(st.integers(0, 3)) == 0:
            count, gone = 0, False
        if gone:
            continue
        fired.add(window)
        count += draw(st.sampled_from([1, 1, 3]))
        firings[window] = (count, False)
        if (
            count > 1
            and identity is Identity.WINDOW
            and window[-1] is not None
            and draw(st.integers(0, 5)) == 0
        ):
            firings[window] = (count, True)
            log.append(PaneRow(GROUPS[key], window, count, 0, "withdrawn", (None, None)))
            continue
        kind = draw(st.sampled_from(["early", "on_time", "late", "count"]))
        log += [
            PaneRow(GROUPS[key], window, count, ordinal, kind, draw(results()))
            for ordinal in range(draw(st.sampled_from([1, 1, 2])))
        ]
    return draw(st.permutations(log))
