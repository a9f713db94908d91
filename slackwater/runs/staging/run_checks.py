"""The checks of one staged run: those that may reject it, those that may warn, and notes for whoever reads
them.

Reads the ledger and the overrides, and staged rows only for suites of Great Expectations and where a run
breaks an expectation, whose check names the panes by key and window: for the other checks range tasks have
taken what is asked of them. Writes nothing: the caller appends the checks to `validations`.

An acceptance by a person is of an expectation and of the windows that broke it in the accepted run: whatever
values these windows have in later runs and restatements, they fail this expectation no more. It lasts until
the expectation is declared with another rule. The ledger says which runs are accepted, `validations` what
they had failed, and `panes` which windows that was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.pane_metrics import broken_condition
from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.engine.replaying.replay import Outcome
from slackwater.pipelines import Expectation, Pipeline
from slackwater.readable import count_text, range_text
from slackwater.runs.staging import validation
from slackwater.runs.staging.collected_mark import LiveMarks, advice_on_rows_late_by_mark, earliest_fired
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.input_checks import check_input, odd_input
from slackwater.runs.staging.slice_replay import ReplayedSlice
from slackwater.runs.staging.staged_slice import ACCEPTANCE, Parent
from slackwater.runs.staging.stragglers import check_stragglers
from slackwater.runs.staging.suite_checks import RowsToPublish, check_suites
from slackwater.runs.staging.validation import Check
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.ledger.overrides import Override, OverridesReader, unhonoured_overrides
from slackwater.tables.schemas import Shape
from slackwater.tables.sql import query, quoted
from slackwater.tables.warehouse import Tables

_MOST_NAMES = 3
_BATCH_ROWS = 100_000


@dataclass(frozen=True)
class BrokenPanes:
    """The panes of one run that break expectations, in their published `form`."""

    tables: Tables
    shape: Shape
    run_id: str
    form: PublishedForm

    def judge(self, expectations: Sequence[Expectation], checks: Sequence[Check]) -> list[Check]:
        """`checks`, in which failed `expectations` name the breaking panes, without accepted windows."""
        by_title = {item.title: item for item in expectations}
        return [
            check
            if check.passed or check.column_name is None or check.expectation not in by_title
            else self._judge(by_title[check.expectation], check)
            for check in checks
        ]

    def _judge(self, item: Expectation, check: Check) -> Check:
        panes = self.tables["panes"]
        files = panes.files(Within.only("run_id", self.run_id))
        broken = self._broken(item, files, self.run_id)
        accepted_panes = self._accepted_panes(item) if item.severity == "reject" else []
        others = self._without(broken, accepted_panes)
        excused_count = broken.num_rows - others.num_rows
        observed = check.observed + (
            f"; {count_text(excused_count, 'value')} of windows that were accepted before"
            if excused_count
            else ""
        )
        if not others.num_rows:
            return replace(check, passed=True, observed=observed, unexpected=0, sample_json=None)
        text = f"{observed}, e.g. {self._names(item, others)}"
        return replace(check, observed=text, unexpected=others.num_rows)

    def _broken(self, item: Expectation, files: StoredFiles, run_id: str) -> pa.Table:
        columns = list(dict.fromkeys([*self._identity, "kind", item.column]))
        parts = []
        stored_names = self.form.stored_columns(columns, files.schema.names)
        for stored_panes in files.scan(stored_names, pc.field("run_id") == run_id, _BATCH_ROWS):
            panes, column = self.form.apply(stored_panes), quoted(item.column)
            condition, parameters = broken_condition(item, column, panes.schema.field(item.column).type)
            names = ", ".join(map(quoted, self._identity))
            parts.append(
                query(
                    f"SELECT {names}, {column} AS broken_value FROM panes "
                    f"WHERE kind <> 'withdrawn' AND {condition}",
                    parameters,
                    panes=panes,
                )
            )
        if not parts:
            schema = self.form.apply(self.tables["panes"].schema.empty_table()).schema
            fields = [schema.field(name) for name in self._identity]
            return pa.schema([*fields, schema.field(item.column).with_name("broken_value")]).empty_table()
        return pa.concat_tables(parts)

    @property
    def _identity(self) -> list[str]:
        return [*self.shape.key_names, *self.shape.window_names]

    def _accepted_panes(self, item: Expectation) -> list[pa.Table]:
        has_failed = (pc.field("expectation") == item.title) & ~pc.field("passed")
        failures = self.tables["validations"].read(["run_id"], has_failed)
        panes = self.tables["panes"]
        return [
            self._broken(item, panes.files(Within.only("run_id", run_id)), run_id)
            for run_id in sorted(set(failures.column("run_id").to_pylist()))
            if self._is_accepted(run_id)
        ]

    def _is_accepted(self, run_id: str) -> bool:
        run = self.tables.ledger.by_run_id(run_id) or self.tables.attempts.find(run_id)
        return run is not None and (run.verdict or "").startswith(ACCEPTANCE)

    def _without(self, broken: pa.Table, accepted_panes: Sequence[pa.Table]) -> pa.Table:
        if not accepted_panes:
            return broken
        names = map(quoted, self._identity)
        is_same_window = " AND ".join(f"broken.{name} IS NOT DISTINCT FROM accepted.{name}" for name in names)
        is_other = f"window_start IS NULL OR NOT EXISTS (FROM accepted WHERE {is_same_window})"
        return query(
            f"SELECT * FROM broken WHERE {is_other}",
            broken=broken,
            accepted=pa.concat_tables(accepted_panes),
        )

    def _names(self, item: Expectation, panes: pa.Table) -> str:
        """The panes with the least values as `shop a, 2024-01-01 06:00–12:00: 51`, each window and value
        once.
        """
        names = ", ".join(map(quoted, self._identity))
        panes = query(f"SELECT DISTINCT * FROM panes ORDER BY broken_value, {names}", panes=panes)
        texts = []
        for row in panes.slice(0, _MOST_NAMES).to_pylist():
            keys = [f"{name} {row[name]}" for name in self.shape.key_names]
            window = [] if row["window_end"] is None else [range_text(row["window_start"], row["window_end"])]
            value = [] if item.column in self.shape.key_names else [f": {row['broken_value']}"]
            texts.append(", ".join([*keys, *window]) + "".join(value))
        more = panes.num_rows - len(texts)
        return "; ".join([*texts, *([f"and {more:,} more"] if more else [])])


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
    form = PublishedForm.of(pipeline)
    checks = [
        *check_input(pipeline, tables.ledger, parent, scan=scan, after=after, counts=outcome.counts),
        *validation.check_panes(
            pipeline.pane_expectations,
            form.schema(pipeline, tables["panes"].schema),
            outcome.pane_metrics,
        ),
        *check_suites(pipeline.suites, rows_to_publish),
        validation.check_conservation(outcome.counts),
        validation.check_life_cycles(outcome.counts, open_before),
    ]
    if pipeline.window is not None:
        checks.append(validation.check_assignments(outcome.counts, outcome.assignments))
    if before.collected_mark is not None:
        checks.append(validation.check_collected(before.collected_mark, earliest_fired(outcome)))
    checks += [
        *(validation.note(f"setting changed: {change.path}", change.change) for change in changes),
        *_notes_on_added_results(parent, changes),
        *_note_on_waiting_overrides(tables, replayed_slice.slice_replay.pins.overrides),
        *_note_on_rows_late_by_mark(pipeline, tables, parent, outcome),
        *odd_input(outcome, after, scan.to_ms),
        *check_stragglers(pipeline, tables.ledger, parent.row, parent.owner, scan),
    ]
    broken_panes = BrokenPanes(tables, rows_to_publish.shape, rows_to_publish.run_id, form)
    return broken_panes.judge(pipeline.pane_expectations, checks)


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
