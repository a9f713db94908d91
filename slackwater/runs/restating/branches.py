"""Questions of a restatement about its branch: which name is free, whether an earlier branch of the same
range can be resumed, which rows main's later runs have read a second time, and what a publication has
changed.

Reads only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import SourceReplaced, VersionGone, pin, place_of
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.readable import count_text
from slackwater.runs.publishing.change_summary import change_summaries
from slackwater.runs.restating.restatement import Restatement
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.slices import end_of, iso, start_of
from slackwater.runs.staging.stragglers import (
    arrivals,
    find_stragglers,
    input_of,
    other_table_of,
    read_ranges_of,
    table_of_reads,
    version_of,
    without_erased,
)
from slackwater.tables.ledger.overrides import (
    MovedRows,
    OverridesReader,
    arrival_in,
    moved_rows_by_run,
    moved_rows_from,
    moved_rows_on,
    unhonoured_overrides,
)
from slackwater.tables.ledger.rows import Branch, LedgerRow, RowKind
from slackwater.tables.ledger.spans import in_common, seqs_of
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_datetime, to_ms

# What the names of branches begin with.
_RESTATEMENT, _PREVIEW = "restate", "preview"


def is_preview(branch: Branch) -> bool:
    """Whether somebody may have looked at what publishing the branch changes, before it is published."""
    return branch.name.startswith(f"{_PREVIEW}-")


@dataclass(frozen=True)
class Origin:
    """Where a restatement starts: main, the range, and the length of its slices (None: main's own cuts).

    The name of a branch says the range, the length and whether it is a preview, so the same command finds the
    branch that it left. A command that publishes goes on with a preview, too.
    """

    runner: Runner
    main: LedgerRow
    range: Restatement
    slice_ms: int | None
    is_preview: bool = False

    def _stem(self, kind: str) -> str:
        first, last = (f"{to_datetime(ms):%Y%m%dt%H%M%S}" for ms in (self.range.from_ms, self.range.to_ms))
        return f"{kind}-{first}-{last}" + ("" if self.slice_ms is None else f"-by-{self.slice_ms}")

    def free_name(self) -> tuple[str, int | None]:
        """A name that no branch has, and the row that dropped the branch that had it before."""
        stem = self._stem(_PREVIEW if self.is_preview else _RESTATEMENT)
        number = 1
        while True:
            name = stem if number == 1 else f"{stem}-no-{number}"
            head = self.runner.tables.ledger.head(name)
            if head is None or head.kind == RowKind.DROP:
                return name, None if head is None else head.seq
            number += 1

    def _branches(self) -> list[Branch]:
        kinds = (_PREVIEW,) if self.is_preview else (_PREVIEW, _RESTATEMENT)
        stems = [self._stem(kind) for kind in kinds]
        return [
            branch for branch in self.runner.tables.ledger.branches() if branch.name.split("-no-")[0] in stems
        ]

    def live_branch(self) -> Branch | None:
        """The branch of this range that main's head has made live, if the process died before ending it."""
        if self.main.kind != RowKind.PUBLISH:
            return None
        live = set(seqs_of(self.main.live))
        return next(
            (branch for branch in self._branches() if branch.own_seqs and live.issuperset(branch.own_seqs)),
            None,
        )

    def resumable(self) -> Branch | None:
        """The newest branch of the same range that may go on: it has main's past, was run by today's code,
        and the source has not changed under it.
        """
        return next((branch for branch in reversed(self._branches()) if self._may_go_on(branch)), None)

    def _may_go_on(self, branch: Branch) -> bool:
        runner, ledger = self.runner, self.runner.tables.ledger
        seqs_before_fork = seqs_of(branch.fork.live)
        if in_common(branch.fork.live, self.main.live) < len(seqs_before_fork) or set(branch.own_seqs) & set(
            seqs_of(self.main.live)
        ):
            return False
        if (seqs_before_fork[-1] if seqs_before_fork else None) != (
            None if self.range.owner is None else self.range.owner.seq
        ):
            return False
        branch_runs = ledger.runs_on(branch)
        if not all(
            row.config_hash == runner.config_hash and row.code_hash == runner.code_hash for row in branch_runs
        ):
            return False
        return not branch_runs or (
            all(self._has_kept(source, branch_runs) for source in runner.pipeline.sources)
            and not self._was_redriven_since(branch, branch_runs)
        )

    def _was_redriven_since(self, branch: Branch, branch_runs: Sequence[LedgerRow]) -> bool:
        """Whether rows have been redriven that the branch takes in only if it is run from its start again."""
        tables = self.runner.tables
        overrides = OverridesReader(tables["overrides"]).rows()
        moved_from_start, moved_from_end = (
            moved_rows_from(moved_rows_on(tables.ledger, head, overrides), overrides, to_datetime(at_ms))
            for head, at_ms in (
                (branch.fork, start_of(branch_runs[0])),
                (branch_runs[-1], end_of(branch_runs[-1])),
            )
        )
        return moved_from_start != moved_from_end

    def _has_kept(self, source: Source, branch_runs: Sequence[LedgerRow]) -> bool:
        """Whether the branch would read today what it has read of a source: no row gone, and none new in its
        range.
        """
        pipeline, may_be_empty = self.runner.pipeline, len(self.runner.pipeline.sources) > 1
        place = place_of(self.runner.warehouse, pipeline, source)
        version = version_of(branch_runs[-1], source.table)
        newest = pin(source, place, may_be_empty=may_be_empty)
        newest = without_erased(newest, source.table, self.runner.tables.ledger)
        if other_table_of(branch_runs, source.table, newest.table_id) is not None:
            return False
        try:
            before = pin(source, place, version, may_be_empty=may_be_empty)
            newest.check_kept(before, end_of(branch_runs[-1]), source.arrival_time)
        except (SourceRewritten, VersionGone):
            return False
        if pipeline.stragglers == "fold" and end_of(branch_runs[-1]) < self.range.to_ms:
            return True  # the next slice folds them in
        folds = pipeline.stragglers == "fold"
        return (
            find_stragglers(
                newest,
                table_of_reads(read_ranges_of(branch_runs, source.table)),
                source.arrival_time,
                folds=folds,
                since=version,
            )
            == []
        )


@dataclass
class ReadAgain:
    """Finds the rows that main's `live` runs behind a boundary have read although they arrived before it."""

    pipeline: Pipeline
    warehouse: Warehouse
    live: Sequence[LedgerRow]
    start_ms: int
    tables: Tables
    _earliest: dict[int, int | None] = field(default_factory=dict)

    def before(self, boundary_ms: int, tip: LedgerRow) -> Callable[[LedgerRow], str | None]:
        """What a later run has read that the branch with the run `tip`, which ends there, has read; for
        `why_not`.
        """

        inputs = [(source.table, input_of(tip, source.table)) for source in self.pipeline.sources]
        overrides = OverridesReader(self.tables["overrides"]).rows()
        moved_on_branch = moved_rows_on(self.tables.ledger, tip, overrides)
        has_moved_rows = self._dates_rows_behind(boundary_ms, tip)

        def reads_again(row: LedgerRow) -> str | None:
            if has_moved_rows:
                return f"run {row.seq} has not read rows that arrive behind the branch since a VACUUM"
            for table, input_of_branch in inputs:
                if (
                    input_of_branch is not None
                    and input_of_branch.table_id is not None
                    and other_table_of([row], table, input_of_branch.table_id) is not None
                ):
                    return f"run {row.seq} has read another table as {table}, which this one has replaced"
            if overrides and reads_other_rows(row, self._moved_by_run[row.seq], moved_on_branch):
                return f"run {row.seq} does not know of rows that were redriven since"
            if row.seq not in self._earliest:
                self._earliest[row.seq] = self._earliest_of(row)
            earliest = self._earliest[row.seq]
            if earliest is not None and earliest < boundary_ms:
                return f"run {row.seq} has taken in rows of arrivals that the branch has read again"
            return None

        return reads_again

    def _dates_rows_behind(self, boundary_ms: int, tip: LedgerRow) -> bool:
        """Whether rows that came before the boundary arrive behind it for the branch, because nothing says
        any more by which commits they came.
        """
        for declaration in self.pipeline.sources:
            tip_input = input_of(tip, declaration.table)
            if declaration.arrives_by_commit and tip_input is not None:
                place = place_of(self.warehouse, self.pipeline, declaration)
                source = pin(declaration, place, tip_input.version, tip_input.table_id, may_be_empty=True)
                boundary_us = boundary_ms * 1000
                if any(low < boundary_us <= high for _, (low, high) in source.files_dated_as_a_whole()):
                    return True
        return False

    @cached_property
    def _moved_by_run(self) -> Mapping[int, MovedRows]:
        overrides = OverridesReader(self.tables["overrides"]).rows()
        moved_by_run = moved_rows_by_run(self.tables.ledger, self.live, overrides)
        return {row.seq: moved_rows for row, moved_rows in zip(self.live, moved_by_run, strict=True)}

    def _earliest_of(self, row: LedgerRow) -> int | None:
        """The earliest arrival of a row that a run has read though it arrived before its slice; None where
        there is none. Where that is unknown, or a row has no arrival, the start of the lineage.
        """
        if not row.rows_folded and not row.rows_quarantined:
            return None
        earliest_of_each = [self._earliest_of_source(source, row) for source in self.pipeline.sources]
        return min((earliest for earliest in earliest_of_each if earliest is not None), default=None)

    def _earliest_of_source(self, declaration: Source, row: LedgerRow) -> int | None:
        place = next(number for number, item in enumerate(self.live) if item.seq == row.seq)
        table, may_be_empty = declaration.table, len(self.pipeline.sources) > 1
        input_of_run, input_before = (input_of(item, table) for item in (row, self.live[place - 1]))
        assert input_of_run is not None and input_before is not None
        source_place = place_of(self.warehouse, self.pipeline, declaration)
        try:
            source, before = (
                pin(declaration, source_place, item.version, item.table_id, may_be_empty=may_be_empty)
                for item in (input_of_run, input_before)
            )
            return self._earliest_in(source, before, start_of(row), declaration.arrival_time)
        except (VersionGone, SourceReplaced, FileNotFoundError):
            return self.start_ms

    def _earliest_in(
        self, source: PinnedSource, before: PinnedSource, from_ms: int, arrival: str
    ) -> int | None:
        unread_files = [
            file for file in source.files(from_ms, from_ms, arrival, before) if file.may_hold_unread
        ]
        if unread_files and (source.why_not_direct is not None or not source.is_certain_since(before)):
            return self.start_ms
        earliest: list[int] = []
        for file in unread_files:
            times, without = arrivals(source, file, arrival)
            earlier = times[(times >= self.start_ms) & (times < from_ms)]
            earliest += [self.start_ms] if without else earlier.tolist()
        return min(earliest, default=None)


def reads_other_rows(row: LedgerRow, moved_by_run: MovedRows, moved_on_branch: MovedRows) -> bool:
    """Whether a run would read other rows behind a branch, or at other arrivals, for rows moved since."""
    return any(
        len(arrivals) > 1 and any(start_of(row) <= to_ms(arrival) < end_of(row) for arrival in arrivals)
        for override in ({**moved_by_run, **moved_on_branch}).values()
        for arrivals in [{arrival_in(moved_by_run, override), arrival_in(moved_on_branch, override)}]
    )


def rows_left_waiting(tables: Tables, pipeline: str, branch_runs: Sequence[LedgerRow]) -> str | None:
    """A sentence on the redriven rows of the restated range that the branch has not taken in, because they
    arrive before it, with the command that does; None where there are none.
    """
    overrides = OverridesReader(tables["overrides"]).rows()
    moved_rows = moved_rows_on(tables.ledger, branch_runs[-1], overrides)
    first_ms, end_ms = start_of(branch_runs[0]), end_of(branch_runs[-1])
    arrivals_of_rows = [
        [
            to_ms(arrival)
            for arrival in (override.true_arrival, override.arrival_time, arrival_in(moved_rows, override))
        ]
        for override in unhonoured_overrides(overrides, moved_rows)
    ]
    arrivals_left = [
        arrivals for arrivals in arrivals_of_rows if any(first_ms <= arrival < end_ms for arrival in arrivals)
    ]
    if not arrivals_left:
        return None
    first, last = iso(min(map(min, arrivals_left))), iso(max(map(max, arrivals_left)) + 1)
    rows = count_text(len(arrivals_left), "row that was redriven is", "rows that were redriven are")
    return (
        f"{rows} not taken in, because this restatement begins behind the new arrival. To take in what is "
        f"left, run `slackwater backfill {pipeline} --from {first} --to {last}`."
    )


def changed_by(tables: Tables, seq: int) -> str:
    summary = change_summaries(tables, [tables.ledger.row(seq)])[seq]
    return f"{counts_text(summary.rows_by_op, len(summary.days))}."


def counts_text(counts: Mapping[str, int], days: int) -> str:
    """The changed rows of `published`, by op: ``12 rows updated, 1 row withdrawn …, on 2 days``."""
    verbs = {"insert": "inserted", "update": "updated", "withdraw": "withdrawn"}
    parts = [
        f"{counts[op]:,} row{'' if counts[op] == 1 else 's'} {verb}"
        for op, verb in verbs.items()
        if counts.get(op)
    ]
    if not parts:
        return "nothing in `published` has changed"
    return f"{', '.join(parts)} in `published`, on {days} day{'' if days == 1 else 's'}"
