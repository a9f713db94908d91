"""Looks for doubled rows in the tables whose rows are unique: the ledger, by seq and run id, and `published`
and `corrections`, by their identity. Two compactions at the same moment, of an OPTIMIZE for example, leave
both copies of the rows that they rewrite. The log's statistics show most of it at a glance; reading the rows
shows all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PermanentError
from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.runs.publishing.portions import KEY_GROUP, Portion, portions
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.ledger.reader import newest_seq
from slackwater.tables.warehouse import Tables

LEDGER, CORRECTIONS, PUBLISHED = UNIQUE_TABLES = ("runs", "corrections", "published")
# Two files with different rows hardly agree in the bounds of all these columns.
_COMPARED_BOUNDS = ("seq", "run_seq", KEY_GROUP, "window_start", "timestamp")


class DoubledRows(PermanentError):
    """A table holds rows several times that are unique. Facts: surplus (table → how many rows too many)."""


@dataclass(frozen=True)
class Uniqueness:
    """Looks for doubled rows in one pipeline's tables, about `portion_rows` rows at a time. Reads only."""

    tables: Tables
    publication: Publication
    portion_rows: int = 1 << 20

    def portions(self, *files: pa.Table) -> list[Portion]:
        return portions(files, self.portion_rows, self.publication.shape.keys)

    def surplus(self) -> dict[str, int]:
        """Table → how many of its rows are copies, by reading all; tables without any are left out."""
        counts = {name: self.surplus_of(name) for name in UNIQUE_TABLES}
        return {name: count for name, count in counts.items() if count}

    def surplus_of(self, name: str) -> int:
        if name != LEDGER:
            return self.surplus_in(name, self.tables[name].files())
        rows = self.tables.ledger.columns("seq", "run_id")
        distinct = (pc.count_distinct(rows.column(column)).as_py() for column in rows.column_names)
        return rows.num_rows - min(distinct)

    def surplus_in(self, name: str, files: StoredFiles) -> int:
        columns = self._columns(name)
        parts = (
            portion.files_among(files).read(columns, portion.where)
            for portion in self.portions(files.actions)
        )
        return sum(self._surplus_among(name, rows) for rows in parts)

    def require(self) -> None:
        """Read all rows, and refuse tables with doubled rows. Raises DoubledRows."""
        self._refuse(self.surplus())

    def require_at_a_glance(self, tables: Mapping[str, OpenTable | None]) -> None:
        """Raise DoubledRows as far as the log shows them. Seqs are counted from 1 without gaps, so the
        greatest is the number of ledger rows. Of other tables only files are read that agree in all that the
        log says of them.
        """
        ledger = self._files(LEDGER, tables)
        surplus = {LEDGER: max(0, ledger.rows - newest_seq(ledger))}
        for name in (CORRECTIONS, PUBLISHED):
            files = self._files(name, tables)
            groups = [
                replace(files, actions=files.actions.take(pa.array(numbers)))
                for numbers in _files_that_agree(files.actions)
            ]
            surplus[name] = sum(self.surplus_in(name, group) for group in groups)
        self._refuse({name: count for name, count in surplus.items() if count})

    def _files(self, name: str, tables: Mapping[str, OpenTable | None]) -> StoredFiles:
        table = tables[name]
        return self.tables[name].files() if table is None else self.tables[name].files(table=table)

    def require_once(self, name: str, rows: pa.Table) -> None:
        """Refuse doubled rows among `rows` of `corrections` or `published`. Raises DoubledRows."""
        if rows.num_rows > 1 and (count := self._surplus_among(name, rows.select(self._columns(name)))):
            self._refuse({name: count})

    def _columns(self, name: str) -> list[str]:
        more_columns = ["run_seq"] if name == PUBLISHED else ["seq", "run_id", "op"]
        shape = self.publication.shape
        names = [*shape.key_names, *shape.window_names, "timestamp", "ordinal", "firing", *more_columns]
        return list(dict.fromkeys(names))

    def identity_of(self, name: str, rows: pa.Table) -> pa.Table:
        """The columns that identify rows of `corrections` or `published`. For a process function also the
        op: one ledger row may withdraw a row and insert another in its place.
        """
        if name == PUBLISHED:
            return self.publication.identity_of(rows, "run_seq").unify_dictionaries()
        columns = ["seq", "op"] if self.publication.identity is Identity.RUN else ["seq"]
        identity = self.publication.identity_of(rows, "run_id")
        return pa.table(
            [*identity.columns, *rows.select(columns).columns], [*identity.column_names, *columns]
        ).unify_dictionaries()

    def _surplus_among(self, name: str, rows: pa.Table) -> int:
        identity = self.identity_of(name, rows)
        distinct = identity.group_by(identity.column_names, use_threads=False).aggregate([])
        return int(rows.num_rows - distinct.num_rows)

    def _refuse(self, surplus: dict[str, int]) -> None:
        if not surplus:
            return
        pipeline = self.tables[LEDGER].uri.rstrip("/").rsplit("/", 2)[-2]
        counts = ", ".join(f"{name} {count:,}" for name, count in surplus.items())
        raise DoubledRows(
            f"{pipeline}: tables hold rows more than once (rows too many: {counts}), as two upkeeps at the "
            "same moment left them before upkeep took a claim, or an OPTIMIZE of somebody else's beside it. "
            f"Nothing was changed now. `slackwater publish {pipeline} --rebuild` makes them right again; "
            "then run the same command again.",
            surplus=surplus,
        )


def _files_that_agree(actions: pa.Table) -> Iterator[list[int]]:
    """The positions of files that agree in their partition, number of rows and bounds, group by group."""
    bounds = [f"{side}.{column}" for side in ("min", "max") for column in _COMPARED_BOUNDS]
    partition = [name for name in actions.column_names if name.startswith("partition.")]
    names = ["num_records", *partition, *(name for name in bounds if name in actions.column_names)]
    if actions.num_rows < 2 or len(names) == 1 + len(partition):
        return
    counts = actions.select(names).group_by(names, use_threads=False).aggregate([([], "count_all")])
    if pc.max(counts.column("count_all")).as_py() == 1:
        return
    positions: dict[Sequence[Any], list[int]] = {}
    for number, values in enumerate(zip(*(actions.column(name).to_pylist() for name in names), strict=True)):
        positions.setdefault(values, []).append(number)
    yield from (numbers for numbers in positions.values() if len(numbers) > 1)
