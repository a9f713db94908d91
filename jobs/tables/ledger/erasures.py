"""What erasures have taken out of a pipeline's tables, and what the rows of `runs` say since: hashes and
files of what is left of a run.

An erasure is a row of `runs`: it names the files that go and those that take their place, so that whoever
rolls it forward needs not know what was erased. Its commit is the moment from which the rows count as gone;
the files follow, table by table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from slackwater.jobs.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.windowing.snapshot import ContentHash

# Of what a run gives out, these tables make up its `output_hash`.
_PANES = "panes"


@dataclass(frozen=True, kw_only=True)
class Erased:
    """What goes of one table, or of one run's rows of it.

    Attributes:
        table: the table.
        run_id: the run whose rows they are; None where files are shared by runs, or the table knows no runs.
        rows: how many go, or lose a text.
        hash: the content hash of the rows that go, of a run's rows of which the ledger has a hash; else None.
        removed: files that go.
        files: files that hold what is left: of a snapshot table all that the run has there, of another those
            that take the place of `removed`.
    """

    table: str
    run_id: str | None = None
    rows: int = 0
    hash: str | None = None
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Self:
        """From a row's struct as plain values."""
        return cls(
            **{**values, "removed": tuple(values["removed"] or ()), "files": tuple(values["files"] or ())}
        )


@dataclass(frozen=True)
class Remainders:
    """What is left of runs after some erasures.

    Attributes:
        of_runs: run_id → what went of it, oldest first.
    """

    of_runs: dict[str, list[Erased]] = field(default_factory=dict)

    @classmethod
    def after(cls, erasures: Iterable[Sequence[Erased]]) -> Self:
        """After the erasures, oldest first."""
        remainders = cls()
        for erased in erasures:
            for item in erased:
                if item.run_id is not None:
                    remainders.of_runs.setdefault(item.run_id, []).append(item)
        return remainders

    def state_hash(self, run_id: str, recorded: str | None) -> str | None:
        """The hash of what is left of a run's snapshot."""
        return self._without(
            recorded, [item for item in self.of_runs.get(run_id, ()) if item.table in SNAPSHOT_TABLES]
        )

    def output_hash(self, run_id: str, recorded: str | None) -> str | None:
        """The hash of what is left of its panes and side outputs."""
        emitted = [
            item
            for item in self.of_runs.get(run_id, ())
            if item.table == _PANES or item.table.startswith(SIDE)
        ]
        return self._without(recorded, emitted)

    def files(self, run_id: str, recorded: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The files that hold what is left of its snapshot, and those that it has written of other tables."""
        return recorded | {
            item.table: item.files for item in self.of_runs.get(run_id, ()) if item.table in SNAPSHOT_TABLES
        }

    def rows(self, run_id: str, table: str) -> int:
        """How many of its rows of a table went."""
        return sum(item.rows for item in self.of_runs.get(run_id, ()) if item.table == table)

    @staticmethod
    def _without(recorded: str | None, items: Sequence[Erased]) -> str | None:
        if recorded is None or not items:
            return recorded
        total = ContentHash.parse(recorded)
        for item in items:
            assert item.hash is not None
            total.remove(ContentHash.parse(item.hash))
        return str(total)
