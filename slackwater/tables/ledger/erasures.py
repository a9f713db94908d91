"""Erased rows of a pipeline's tables, and the hashes and files of the rows that remain of a run.

An erasure is a row of `runs` that names the files to remove and their replacements, so that the roll-forward
need not know which rows were erased. The rows count as gone from its commit on; the files are replaced
afterwards, table by table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from slackwater.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.windowing.snapshot import ContentHash

# Its rows and those of side outputs make up the `output_hash` of a run.
_PANES = "panes"


class Gap(NamedTuple):
    """Consecutive corrections of a ledger row (`seq`) and key group that were erased: the number of the
    `first` in the order of delivery, from 0, earlier erased ones included, and how many `rows`.
    """

    seq: int
    key_group: int
    first: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ErasedRows:
    """Rows that an erasure takes out of one table, or out of one run's rows there.

    Attributes:
        table: the table.
        run_id: the run whose rows they are; None where runs share files, or the table knows no runs.
        rows: how many rows go, or how many lose a text.
        hash: the content hash of the rows that go; None where the ledger has no hash of what the run has
            there.
        removed: the files that go.
        files: the files that hold the rows that are left: of a snapshot table all files of the run, of
            another table those that take the place of `removed`.
        gaps: of corrections, where they stood, so that positions of sinks keep their meaning.
    """

    table: str
    run_id: str | None = None
    rows: int = 0
    hash: str | None = None
    removed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        texts = {name: tuple(values[name] or ()) for name in ("removed", "files")}
        gaps = tuple(Gap(**gap) for gap in values.get("gaps") or ())
        return cls(**{**values, **texts, "gaps": gaps})

    def values(self) -> dict[str, Any]:
        return {**vars(self), "gaps": [gap._asdict() for gap in self.gaps]}


@dataclass(frozen=True)
class Remainders:
    """What erasures left of some runs. `rows_by_run`: run_id → its erased rows, oldest erasure first."""

    rows_by_run: dict[str, list[ErasedRows]] = field(default_factory=dict)

    @classmethod
    def after(cls, erasures: Iterable[Sequence[ErasedRows]]) -> Self:
        """What is left after `erasures`, oldest first; each is the column `erased` of a ledger row."""
        remainders = cls()
        for erasure in erasures:
            for item in erasure:
                if item.run_id is not None:
                    remainders.rows_by_run.setdefault(item.run_id, []).append(item)
        return remainders

    def state_hash(self, run_id: str, recorded_hash: str | None) -> str | None:
        """The hash of the remaining rows of a run's snapshot."""
        return _without(
            recorded_hash,
            [item for item in self.rows_by_run.get(run_id, ()) if item.table in SNAPSHOT_TABLES],
        )

    def output_hash(self, run_id: str, recorded_hash: str | None) -> str | None:
        """The hash of the remaining rows of a run's panes and side outputs."""
        erased_output = [
            item
            for item in self.rows_by_run.get(run_id, ())
            if item.table == _PANES or item.table.startswith(SIDE)
        ]
        return _without(recorded_hash, erased_output)

    def files(self, run_id: str, recorded_files: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Table → the files with the remaining rows of a run's snapshot, and its recorded files elsewhere."""
        return recorded_files | {
            item.table: item.files
            for item in self.rows_by_run.get(run_id, ())
            if item.table in SNAPSHOT_TABLES
        }

    def rows(self, run_id: str, table: str) -> int:
        """The number of a run's rows that were erased from a table."""
        return sum(item.rows for item in self.rows_by_run.get(run_id, ()) if item.table == table)


def _without(recorded_hash: str | None, items: Sequence[ErasedRows]) -> str | None:
    """`recorded_hash` without the rows of `items`."""
    if recorded_hash is None or not items:
        return recorded_hash
    total = ContentHash.parse(recorded_hash)
    for item in items:
        assert item.hash is not None
        total.remove(ContentHash.parse(item.hash))
    return str(total)
