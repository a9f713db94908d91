"""What a lineage's declarations say about late rows: the allowed lateness, the bound of out-of-orderness, how
windows take rows, when they fire; and since which run. Read from the declarations that runs have recorded, so
no pipeline is imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import accumulate
from typing import Any, NamedTuple

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.ledger.spans import spans_of
from slackwater.tables.run_files.staging import declaration_of

# Triggers that fire when the watermark reaches a window's last instant, and again for each element after it.
_FIRING_AT_THE_END = frozenset({"EventTimeTrigger", "ContinuousEventTimeTrigger"})
_WITH_A_BOUND = frozenset({"bounded_out_of_orderness", "monotonous"})


class NoLateness(UsageError):
    """A pipeline whose rows can't be too late, or whose runs have recorded no declarations."""


class NoBound(UsageError):
    """Watermarks without a bound of out-of-orderness."""


class WindowsOfRow(Enum):
    """How many windows a row belongs to."""

    ONE = "one"
    SEVERAL = "several"
    MERGING = "merging"


class RecordedRun(NamedTuple):
    """What the ledger says of a run, as far as late rows go; see `LedgerRow`. `config_hash` may be cut, since
    it only tells declarations apart.
    """

    seq: int
    kind: str
    run_id: str
    config_hash: str | None
    slice_start: datetime
    slice_end: datetime
    watermark_in: datetime | None
    watermark_out: datetime | None
    rows_read: int
    rows_late: int
    assignments_missed: int
    windows_fired: int
    windows_refired: int
    windows_open: int

    @property
    def recorded_rows(self) -> int:
        return self.rows_late + self.assignments_missed + self.windows_fired + self.windows_refired


@dataclass(frozen=True, kw_only=True)
class LatenessSettings:
    """The settings that decide which rows are late, as the newest run of a lineage was declared.

    Attributes:
        bound_ms: the bound of out-of-orderness; None where a user's function, or none, emits watermarks.
        interval_ms: the length of a tick.
        late_refires: which firings for late elements are panes: of each ``element``, ``tick`` or ``run``.
        fires_at_end: whether a window fires when the watermark reaches its last instant, and for each late
            element; else its trigger decides, and nothing is known of other settings.
        runs, earlier_runs: the newest live runs that had these watermarks, in slice order, at least one; and
            the live runs before them.
        latenesses_ms: config hash → the allowed lateness of runs that had it.
    """

    lateness_ms: int
    bound_ms: int | None
    interval_ms: int
    late_refires: str
    windows_of_row: WindowsOfRow
    fires_at_end: bool
    runs: tuple[RecordedRun, ...]
    earlier_runs: tuple[RecordedRun, ...]
    latenesses_ms: Mapping[str | None, int]

    @classmethod
    def of(cls, inspection: Inspection, head: LedgerRow) -> "LatenessSettings":
        """The settings of the branch that `head` ends. Raises NoLateness: rows can't be too late here, or the
        newest run has recorded no declarations.
        """
        declarations = _Declarations(inspection)
        live = [run for run in recorded_runs(inspection, head) if run.kind == RowKind.RUN]
        declaration = declarations.of(live[-1]) if live else None
        if declaration is None:
            raise NoLateness(
                f"{inspection.pipeline}: the newest run has recorded no declarations. Make a new run with "
                f"`slackwater run {inspection.pipeline} --to TIME`."
            )
        window, watermarks = declaration["window"], declaration["watermarks"]
        if window is None or "EventTime" not in window["class"]:
            _refuse_other_windows(inspection.pipeline, window)
        first = len(live) - 1
        while first and (declarations.of(live[first - 1]) or {}).get("watermarks") == watermarks:
            first -= 1
        return cls(
            lateness_ms=_lateness_ms(declaration),
            bound_ms=watermarks["out_of_orderness_ms"] if watermarks["kind"] in _WITH_A_BOUND else None,
            interval_ms=watermarks["interval_ms"],
            late_refires=declaration.get("late_refires", "element"),
            windows_of_row=_windows_of_row(window),
            fires_at_end=_fires_at_end(declaration.get("trigger")),
            runs=tuple(live[first:]),
            earlier_runs=tuple(live[:first]),
            latenesses_ms={run.config_hash: _lateness_ms(declarations.of(run)) for run in live[first:]},
        )

    def lateness_of(self, run: RecordedRun) -> int:
        return self.latenesses_ms[run.config_hash]

    def longer_by_ms(self, bound_ms: int) -> int:
        """By how much a bound is longer than the declared one; raises NoBound where there is none."""
        if self.bound_ms is None:
            raise NoBound(
                "the pipeline's watermarks have no bound of out-of-orderness: a function of its own, or "
                "nothing, emits them."
            )
        return bound_ms - self.bound_ms

    def with_newest_runs(self, last_runs: int | None, most_rows: int) -> "LatenessSettings":
        """The settings with fewer runs: the newest `last_runs`, or, where that is None, as many as have
        recorded no more than `most_rows` firings and late rows, at least one.
        """
        if last_runs is None:
            sums = accumulate(run.recorded_rows for run in reversed(self.runs))
            last_runs = max(1, sum(rows <= most_rows for rows in sums))
        live_runs = (*self.earlier_runs, *self.runs)
        runs = self.runs[-last_runs:]
        return replace(self, runs=runs, earlier_runs=live_runs[: -len(runs)])

    def row_of_runs(self, head: LedgerRow) -> LedgerRow:
        """The ledger row `head` as if only `runs` were live: views as of it have rows of these alone."""
        return replace(head, live=spans_of([run.seq for run in self.runs]))


def recorded_runs(inspection: Inspection, head: LedgerRow) -> list[RecordedRun]:
    """The runs and closes of the branch that `head` ends, in slice order."""
    values = inspection.tables.ledger.live_values(head, *RecordedRun._fields, prefixes=("config_hash",))
    return list(map(RecordedRun._make, values))


def _lateness_ms(declaration: Mapping[str, Any] | None) -> int:
    return 0 if declaration is None else declaration["allowed_lateness"]["microseconds"] // 1000


class _Declarations:
    """The declarations of runs; runs with equal config hashes share one read."""

    def __init__(self, inspection: Inspection) -> None:
        self._attempts = inspection.tables.attempts
        self._by_config: dict[str | None, Mapping[str, Any] | None] = {}

    def of(self, run: RecordedRun) -> Mapping[str, Any] | None:
        if run.config_hash not in self._by_config:
            self._by_config[run.config_hash] = declaration_of(self._attempts, run.run_id)
        return self._by_config[run.config_hash]


def _refuse_other_windows(pipeline: str, window: Mapping[str, Any] | None) -> None:
    """Refuse windows that the watermark does not collect. Windows of the user's own may be of event time."""
    if window is None:
        raise NoLateness(f"{pipeline} has no windows, so no row is ever too late for one.")
    if "ProcessingTime" in window["class"] or window["class"] == "GlobalWindows":
        raise NoLateness(f"{pipeline} has {window['class']}, which no row is ever too late for.")


def _windows_of_row(window: Mapping[str, Any]) -> WindowsOfRow:
    kind = window["class"]
    if "Session" in kind:
        return WindowsOfRow.MERGING
    is_one = kind in ("TumblingEventTimeWindows", "CalendarEventTimeWindows")
    return WindowsOfRow.ONE if is_one else WindowsOfRow.SEVERAL


def _fires_at_end(trigger: Mapping[str, Any] | None) -> bool:
    if trigger is None:
        return True
    if trigger["class"] == "PurgingTrigger":
        return _fires_at_end(trigger["trigger"])
    return trigger["class"] in _FIRING_AT_THE_END
