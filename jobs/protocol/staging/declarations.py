"""The declarations that the runs of a lineage recorded, checked against what the pipeline declares now.

Reads `attempts`, and the source's log where rows were left to a restatement; `evolution` says what a
change means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.pinning import pin
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.staging.evolution import (
    Difference,
    SettingsChanged,
    check_lasting,
    check_rules,
    check_settings,
)
from slackwater.jobs.protocol.staging.stragglers import find, stretches_of, told, without_erased
from slackwater.jobs.tables.ledger.attempts import AttemptsReader
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.run_files.staging import declaration_of
from slackwater.jobs.tables.warehouse import Tables
from slackwater.windowing.times import to_ms


@dataclass(frozen=True)
class Declarations:
    """The declarations of a pipeline, today's and those of its runs.

    Attributes:
        pipeline, config_hash: as it is declared now.
        tables: its tables.
    """

    pipeline: Pipeline
    config_hash: str
    tables: Tables

    def changes(self, owner: LedgerRow | None, from_ms: int, start_ms: int | None) -> list[Difference]:
        """Settings that differ from those of the run `owner` and are converted with its state by a slice
        that starts at `from_ms`, in a lineage that begins at `start_ms`. Without an owner the slice begins
        the lineage, perhaps anew: nothing is converted.

        Raises:
            SettingsChanged: see `check_settings` and `check_lasting`.
        """
        if owner is None:
            self._refuse_another_lineage()
            return []
        if owner.config_hash == self.config_hash:
            return []
        return check_settings(self.pipeline, self._of(owner), owner.seq or owner.run_id, from_ms, start_ms)

    def _refuse_another_lineage(self) -> None:
        """Refuse to begin a lineage anew with settings that it has for good."""
        ledger = self.tables.ledger
        main = ledger.head()
        owner = None if main is None else ledger.snapshot_owner(main)
        if owner is not None and owner.config_hash != self.config_hash:
            check_lasting(self.pipeline, self._of(owner), owner.seq)

    def refuse_other_rules(self, owner: LedgerRow | None) -> None:
        """Refuse to make live what the run `owner` left, where it was declared with other rules than today's.

        Raises:
            SettingsChanged: see `check_rules`.
        """
        if owner is not None and owner.config_hash != self.config_hash:
            check_rules(self.pipeline, self._of(owner), owner.seq or owner.run_id)

    def why_not_continued(self, last: LedgerRow) -> str | None:
        """Why the next slice could not carry on what the run `last` has parked; None where it could."""
        try:
            assert last.slice_end is not None
            self.changes(last, to_ms(last.slice_end), None)
        except SettingsChanged as error:
            listed = ", ".join(str(item) for item in cast(list[Difference], error.facts["differences"]))
            return (
                "main's later runs were declared otherwise, and can't be carried on: "
                f"{listed or 'they have not recorded how'}"
            )
        return None

    def refuse_rows_left_to_a_restatement(
        self, changes: Sequence[Difference], live: Sequence[LedgerRow], newest: PinnedSource
    ) -> None:
        """Refuse to fold from now on, where `changes` begin that, while rows wait for a restatement that
        appeared under ``stragglers="restate"``: no run would ever read them. `newest` is the source as it
        stands.

        Raises:
            SettingsChanged: with the range to restate.
        """
        if not any(change.path == "stragglers" and change.after == "fold" for change in changes):
            return
        runs = [(row, stretch) for row in live for stretch in stretches_of([row], self.pipeline.source.table)]
        folds = [(self._of(row) or {}).get("stragglers") == "fold" for row, _ in runs]
        live_stretches = [stretch for _, stretch in runs]
        source = pin(self.pipeline.source, newest.uri, max(stretch.version for stretch in live_stretches))
        source = without_erased(source, self.pipeline.source.table, self.tables.ledger)
        stragglers = find(source, live_stretches, self.pipeline.source.arrival_time, folds=folds)
        if stragglers == []:
            return
        name = self.pipeline.name
        raise SettingsChanged(
            f"{name}: stragglers: restate → fold, but a run folds in only what appears from now on, and "
            f"{told(name, stragglers)}, or declare "
            "stragglers='restate' again.",
            pipeline=name,
            differences=[],
        )

    def _of(self, row: LedgerRow) -> dict[str, object] | None:
        return declaration_of(AttemptsReader(self.tables["attempts"]), row.run_id)
