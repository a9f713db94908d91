"""Compares what a pipeline declares now with what the runs of its lineage recorded as their declarations.

Reads `attempts`, and the source's log where rows were left to a restatement; the rules, which change is
allowed and what it does, are in `evolution`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import Place, pin
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.runs.staging.evolution import (
    Difference,
    SettingsChanged,
    added_results,
    check_lasting,
    check_rules,
    check_settings,
)
from slackwater.runs.staging.stragglers import (
    Stragglers,
    advice_on_stragglers,
    find_stragglers,
    merge_stragglers,
    read_ranges_of,
    table_of_reads,
    without_erased,
)
from slackwater.tables.ledger.attempts import AttemptsReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.staging import declaration_of
from slackwater.tables.warehouse import Tables
from slackwater.windowing.times import to_ms


@dataclass(frozen=True)
class Declarations:
    """Today's declarations of a pipeline, to be compared with the recorded ones of its runs."""

    pipeline: Pipeline
    config_hash: str
    tables: Tables

    def changes(self, owner: LedgerRow | None, from_ms: int, start_ms: int | None) -> list[Difference]:
        """The settings that differ from the declarations of the run `owner`, and that a slice from `from_ms`
        which continues its snapshot follows. Without an owner the slice begins the lineage, perhaps once
        more. `start_ms` is the start of the lineage.

        Raises:
            SettingsChanged: see `check_settings` and `check_lasting`.
        """
        if owner is None:
            self._refuse_another_lineage()
            return []
        if owner.config_hash == self.config_hash:
            return []
        return check_settings(self.pipeline, self._of(owner), owner.seq or owner.run_id, from_ms, start_ms)

    def added_results(self, owner: LedgerRow | None) -> frozenset[str]:
        if owner is None or owner.config_hash == self.config_hash:
            return frozenset()
        before = self._of(owner)
        return frozenset() if before is None else added_results(before, self.pipeline.describe())

    def _refuse_another_lineage(self) -> None:
        """Refuse to begin a lineage once more where settings differ that it has for good."""
        ledger = self.tables.ledger
        main = ledger.head()
        owner = None if main is None else ledger.snapshot_owner(main)
        if owner is not None and owner.config_hash != self.config_hash:
            check_lasting(self.pipeline, self._of(owner), owner.seq)

    def refuse_other_rules(self, owner: LedgerRow | None) -> None:
        """Refuse to make the snapshot and panes of the run `owner` live, where it was declared with other
        rules than today's. Raises SettingsChanged.
        """
        if owner is not None and owner.config_hash != self.config_hash:
            check_rules(self.pipeline, self._of(owner), owner.seq or owner.run_id)

    def why_not_continued(self, last: LedgerRow) -> str | None:
        """Why the next slice could not continue the snapshot of the run `last`; None where it could."""
        try:
            assert last.slice_end is not None
            self.changes(last, to_ms(last.slice_end), None)
        except SettingsChanged as error:
            changes = ", ".join(str(item) for item in cast(list[Difference], error.facts["differences"]))
            return (
                "main's later runs were declared otherwise, and can't be carried on: "
                f"{changes or 'they have not recorded how'}"
            )
        return None

    def refuse_rows_left_to_a_restatement(
        self, changes: Sequence[Difference], live: Sequence[LedgerRow], newest: Sequence[PinnedSource]
    ) -> None:
        """Refuse a change of ``stragglers`` from "restate" to "fold" while stragglers wait for a restatement:
        a run that folds reads only rows which appear after the run before it, so no run would ever read them.
        `newest` are the sources as they are now. Raises SettingsChanged: with the range to restate.
        """
        if not any(change.path == "stragglers" and change.after == "fold" for change in changes):
            return
        stragglers = merge_stragglers(
            [
                self._stragglers_of(declaration, live, source.place)
                for declaration, source in zip(self.pipeline.sources, newest, strict=True)
            ]
        )
        if stragglers == []:
            return
        name = self.pipeline.name
        raise SettingsChanged(
            f"{name}: stragglers: restate → fold, but a run folds in only what appears from now on, and "
            f"{advice_on_stragglers(name, stragglers)}, or declare "
            "stragglers='restate' again.",
            pipeline=name,
            differences=[],
        )

    def _stragglers_of(
        self, source: Source, live: Sequence[LedgerRow], place: Place
    ) -> list[Stragglers] | None:
        runs = [(row, read) for row in live for read in read_ranges_of([row], source.table)]
        folds = [(self._of(row) or {}).get("stragglers") == "fold" for row, _ in runs]
        live_reads = [read for _, read in runs]
        newest_version = max(read.version for read in live_reads)
        newest = pin(source, place, newest_version, may_be_empty=len(self.pipeline.sources) > 1)
        newest = without_erased(newest, source.table, self.tables.ledger)
        return find_stragglers(newest, table_of_reads(live_reads), source.arrival_time, folds=folds)

    def _of(self, row: LedgerRow) -> dict[str, object] | None:
        return declaration_of(AttemptsReader(self.tables["attempts"]), row.run_id)
