"""The checks of one staged run: those that may reject it, those that may warn, and notes for whoever reads
them.

Reads the ledger and the overrides, and staged rows only for suites of Great Expectations: for the other
checks range tasks have taken what is asked of them. Writes nothing: the caller appends the checks to
`validations`.
"""

from collections.abc import Sequence

from slackwater.engine.replaying.replay import Outcome
from slackwater.pipelines import Pipeline
from slackwater.runs.staging import validation
from slackwater.runs.staging.collected_mark import (
    LiveMarks,
    advice_on_rows_late_by_mark,
    earliest_fired,
)
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.input_checks import check_input
from slackwater.runs.staging.odd_input import odd_input
from slackwater.runs.staging.slice_replay import ReplayedSlice
from slackwater.runs.staging.staged_slice import Parent
from slackwater.runs.staging.stragglers import check_stragglers
from slackwater.runs.staging.suite_checks import RowsToPublish, check_suites
from slackwater.tables.ledger.overrides import Override, OverridesReader, unhonoured_overrides
from slackwater.tables.warehouse import Tables


def checks_of_run(
    parent: Parent,
    changes: Sequence[Difference],
    replayed_slice: ReplayedSlice,
    rows_to_publish: RowsToPublish,
) -> list[validation.Check]:
    """All checks of a run, in the order in which `validations` has them. `changes` are the settings that
    differ from the parent's; the suites are validated on `rows_to_publish`.
    """
    pipeline, tables = replayed_slice.slice_replay.pipeline, replayed_slice.slice_replay.tables
    scan, outcome = replayed_slice.scan, replayed_slice.outcome
    before, after = replayed_slice.before, replayed_slice.after
    open_before = 0 if parent.owner is None else parent.owner.windows_open
    checks = [
        *check_input(pipeline, tables.ledger, parent, scan=scan, after=after, counts=outcome.counts),
        *validation.check_panes(pipeline.pane_expectations, tables["panes"].schema, outcome.pane_metrics),
        *check_suites(pipeline.suites, rows_to_publish),
        validation.check_conservation(outcome.counts),
        validation.check_life_cycles(outcome.counts, open_before),
    ]
    if pipeline.window is not None:
        checks.append(validation.check_assignments(outcome.counts, outcome.assignments))
    if before.collected_mark is not None:
        checks.append(validation.check_collected(before.collected_mark, earliest_fired(outcome)))
    return [
        *checks,
        *(validation.note(f"setting changed: {change.path}", change.change) for change in changes),
        *_notes_on_added_results(parent, changes),
        *_note_on_waiting_overrides(tables, replayed_slice.slice_replay.pins.overrides),
        *_note_on_rows_late_by_mark(pipeline, tables, parent, outcome),
        *odd_input(outcome, after, scan.to_ms),
        *check_stragglers(pipeline, tables.ledger, parent.row, parent.owner, scan),
    ]


def _notes_on_added_results(parent: Parent, changes: Sequence[Difference]) -> list[validation.Check]:
    """For each added result, the windows without a value of it: those that the parent has left open."""
    if parent.owner is None:
        return []
    windows = f"in the {parent.owner.windows_open or 0:,} windows that run {parent.owner.seq} left open"
    return [
        validation.note(f"null from here on: {change.path.partition('.')[2]}", windows)
        for change in changes
        if change.adds_result
    ]


def _note_on_waiting_overrides(
    tables: Tables, overrides_honoured: Sequence[Override]
) -> list[validation.Check]:
    waiting_overrides = unhonoured_overrides(
        OverridesReader(tables["overrides"]).known_rows(),
        {override.row_hash: override for override in overrides_honoured},
    )
    if not waiting_overrides:
        return []
    earliest = min(row.arrival_time for row in waiting_overrides)
    return [
        validation.note(
            "redriven rows wait for a restatement",
            f"{len(waiting_overrides)} rows, from {earliest:%Y-%m-%dT%H:%M:%SZ} on",
        )
    ]


def _note_on_rows_late_by_mark(
    pipeline: Pipeline, tables: Tables, parent: Parent, outcome: Outcome
) -> list[validation.Check]:
    late_rows = outcome.late_by_mark
    if late_rows is None:
        return []
    head = tables.ledger.head() if parent.row is None or not parent.row.live else parent.row
    if head is None:
        return []
    marks = LiveMarks.of(tables, tables.ledger.live_runs(head), pipeline)
    advice = advice_on_rows_late_by_mark(
        pipeline.name,
        f"{late_rows.rows:,} rows are",
        marks.reopened_from(late_rows.last_instant),
        late_rows.arrival + 1,
    )
    return [validation.note("late rows of collected windows", advice)]
