"""Takes the rows of some keys, or the late and unusable rows of somebody, out of a pipeline's tables for
good, because a law demands it.

The owner of the source deletes the rows there first. The erasure records which versions of the source did
that, so that no run takes it for a changed source, and what goes of which table; it is rolled forward as a
run is, and the dead files are deleted at once. Watermarks and counts of runs stay as they were: they name
nobody.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from slackwater.jobs.engines.source.changes import Commit, commits
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.pinning import pin
from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.protocol.staging.lease import only_upkeep
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.protocol.staging.shapes import checked_source
from slackwater.jobs.protocol.staging.stragglers import input_of
from slackwater.jobs.tables.errors import RunAtWork
from slackwater.jobs.tables.ledger.attempts import OPEN, AttemptsWriter
from slackwater.jobs.tables.ledger.erasures import ErasedRows
from slackwater.jobs.tables.ledger.lineage_rows import erase_row
from slackwater.jobs.tables.ledger.owners import is_dead
from slackwater.jobs.tables.ledger.rows import MAIN, Input, LedgerRow
from slackwater.jobs.tables.named_keys import NotAKey, values_of_key
from slackwater.jobs.tables.run_files.rewriting import Selection, delete_dead
from slackwater.jobs.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.jobs.tables.warehouse import Tables, Warehouse

log = logging.getLogger("slackwater")

_KEYED = ("window_state", "keyed_state", "timers", "panes", "published", "corrections")
_HASHED = (*SNAPSHOT_TABLES, "panes")


class StillInSource(UsageError):
    """The source still has rows of whom is to be erased; the next restatement would bring them back. Facts:
    rows.
    """


class RowsCameBack(RunAtWork):
    """While rows were erased a run has begun, or somebody has written more of them, or has rewritten their
    files.
    """


@dataclass(frozen=True)
class Person:
    """Whose rows go: those in which every column has its value, given as text, as it is after a cast."""

    values: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    def typed(self, schema: pa.Schema) -> list[tuple[str, pa.Scalar]]:
        """The values as the columns of `schema` have them.

        Raises:
            NotAKey: a value is none of its column's.
        """
        scalars = []
        for name, text in self.values:
            kind = schema.field(name).type
            try:
                scalars.append((name, pa.scalar(text).cast(kind)))
            except pa.ArrowException as error:
                raise NotAKey(f"{text!r} is no value of the column {name}, which is a {kind}.") from error
        return scalars

    def is_in(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each of `rows`, whether it is one of theirs."""
        equal = [pc.equal(rows.column(name), value) for name, value in self.typed(rows.schema)]
        return reduce(pc.and_, equal)

    def where(self, schema: pa.Schema) -> pc.Expression:
        """The same as an expression."""
        # The cast is for string views, which delta-rs writes when it deletes rows: Arrow compares no string
        # with them.
        equal = [pc.field(name).cast(value.type) == value for name, value in self.typed(schema)]
        return reduce(lambda one, other: one & other, equal)

    def is_in_json(self, text: str | None) -> bool:
        """Whether a row that is told as JSON is one of theirs."""
        values: dict[str, Any] = json.loads(text) if text else {}
        return all(name in values and _as_text(values[name]) == expected for name, expected in self.values)


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def of_key(pipeline: Pipeline, key: str) -> Person:
    """Who is a key of the pipeline, named as everywhere.

    Raises:
        NotAKey: it has another number of values than the key has columns.
    """
    return Person(tuple(zip(pipeline.keys, values_of_key(pipeline.keys, key), strict=True)))


@dataclass(frozen=True)
class Erasure:
    """Erases rows of one pipeline.

    Attributes:
        warehouse, pipeline: where and what.
        tables: its tables, those of side outputs included.
        roll_forward: finished first, as by every writing command, and at the end.
        version: of the product, recorded in the ledger.
        clock: the wall clock.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    tables: Tables
    roll_forward: RollForward
    version: str
    clock: Callable[[], datetime] = wall_clock

    def plan(self, persons: Sequence[Person]) -> dict[str, int]:
        """Table → how many rows would go now, or would lose a text. Changes nothing."""
        return {item.folder.name: count for item in self._selections(persons) if (count := item.count())}

    def run(self, persons: Sequence[Person], reason: str) -> LedgerRow | None:
        """Erase, record and delete; returns the row of the ledger, None where nothing was there to be erased
        or recorded.

        Raises:
            StillInSource: nothing was changed.
            RunAtWork: a run may write more of these rows; nothing was changed.
            RowsCameBack: a part is done; the same command does the rest.
            LeaseHeld, LostRaceError: somebody else was at work; nothing was changed.
        """
        self._refuse_runs(AttemptsWriter(self.tables["attempts"]))
        # An earlier format has no place for what an erasure records.
        self.warehouse.tables(self.pipeline.name, checked_source(self.warehouse, self.pipeline)[1]).ensure()
        tables = self.warehouse.stored_tables(self.pipeline.name, self.pipeline.sides)
        return replace(self, tables=tables, roll_forward=RollForward.of_stored(self.pipeline, tables))._run(
            persons, reason
        )

    def _run(self, persons: Sequence[Person], reason: str) -> LedgerRow | None:
        began, attempts = self.clock(), AttemptsWriter(self.tables["attempts"])
        with only_upkeep(self.pipeline.name, attempts, self.clock):
            self.roll_forward.finish()
            self.roll_forward.uniqueness.require()
            head = self.tables.ledger.head(MAIN)
            if head is None:
                return None
            deletions = self._deletions(head, persons)
            erased = tuple(item for selection in self._selections(persons) for item in selection.write())
            row = None
            if erased or deletions:
                row = self._commit(head, deletions, erased, reason)
                self.roll_forward.finish()
            self._delete(attempts, erased, began)
            if self.plan(persons):
                raise RowsCameBack(
                    f"{self.pipeline.name}: somebody has written meanwhile; run the same command again for "
                    "what is left."
                )
            return row

    def _refuse_runs(
        self,
        attempts: AttemptsWriter,
        refusal: type[RunAtWork] = RunAtWork,
        what: str = "Nothing was changed",
    ) -> None:
        at_work = [holder for holder in attempts.holders(self.clock()) if not holder.is_upkeep]
        if at_work:
            raise refusal(
                f"{self.pipeline.name}: {at_work[0].owner} has claimed a run until "
                f"{at_work[0].expires_at:%Y-%m-%dT%H:%M:%SZ}, which may "
                f"write rows that are to be erased. {what}; run the same command again when that run has "
                "ended."
            )

    def _commit(
        self, head: LedgerRow, deletions: Sequence[Input], erased: tuple[ErasedRows, ...], reason: str
    ) -> LedgerRow:
        ledger = self.tables.ledger_writer
        owner, start = ledger.snapshot_owner(head), ledger.start_of(head)
        row = erase_row(head, owner, start, tuple(deletions), erased, reason=reason, version=self.version)
        [bound] = ledger.commit(MAIN, head.seq, [row], self.clock)
        log.info("erase", extra={"pipeline": self.pipeline.name, "seq": bound.seq, "run_id": bound.run_id})
        return bound

    def _selections(self, persons: Sequence[Person]) -> list[Selection]:
        """What goes of each table."""
        keys, late_events = set(self.pipeline.keys), self.tables["late_events"]
        unknown_columns = sorted(
            {name for person in persons for name in person.columns} - {*late_events.schema.names, *keys}
        )
        if unknown_columns:
            raise NotAKey(f"{self.pipeline.name}: the source has no column {', '.join(unknown_columns)}.")
        keyed = [person for person in persons if keys.issuperset(person.columns)]
        selections = []
        for name, folder in self.tables.folders.items():
            if keyed and (name in _KEYED or name.startswith(SIDE)):
                is_hashed = name in _HASHED or name.startswith(SIDE)
                selections.append(
                    Selection(folder, _columns_of(keyed), partial(_is_of_any, keyed), is_hashed)
                )
        of_source = [person for person in persons if set(late_events.schema.names).issuperset(person.columns)]
        if of_source:
            selections.append(Selection(late_events, _columns_of(of_source), partial(_is_of_any, of_source)))
        selections.append(
            Selection(self.tables["quarantine"], ("row_json",), partial(_is_told_of_any, persons))
        )
        texts = [text for person in persons for _, text in person.values]
        selections.append(
            Selection(self.tables["attempts"], ("error",), partial(_names_any, texts), blanked=("error",))
        )
        if keyed:
            selections.append(self._samples(keyed))
        return selections

    def _samples(self, keyed: Sequence[Person]) -> Selection:
        """What checks have seen of the columns of runs that have emitted rows of theirs: it does not say
        whose values they are.
        """
        where, panes = (
            reduce(lambda one, other: one | other, _expressions(keyed, self.tables["panes"].schema)),
            self.tables["panes"],
        )
        run_ids = panes.read(["run_id"], where).column("run_id").unique()

        def is_of_theirs(rows: pa.Table) -> pa.ChunkedArray:
            has_seen = pc.and_(pc.is_valid(rows.column("column_name")), pc.is_valid(rows.column("observed")))
            return pc.and_(has_seen, pc.is_in(rows.column("run_id"), value_set=run_ids))

        columns = ("run_id", "column_name", "observed")
        return Selection(
            self.tables["validations"], columns, is_of_theirs, blanked=("observed", "sample_json")
        )

    def _deletions(self, head: LedgerRow, persons: Sequence[Person]) -> list[Input]:
        """The versions of the source that have deleted rows since live runs have read it, and that no erasure
        has recorded.

        Raises:
            StillInSource: it still has rows of theirs.
        """
        declared, live = self.pipeline.source, self.tables.ledger.live_runs(head)
        now = pin(declared, self.warehouse.source(declared.table))
        self._refuse_rows_left(now, persons)
        read_versions = {
            item.version
            for row in live
            if (item := input_of(row, declared.table)) is not None and item.table_id in (None, now.table_id)
        }
        recorded_versions = self.tables.ledger.erasing_versions(declared.table, now.table_id)
        unrecorded = [
            item
            for item in _newest_commits(now, read_versions)
            if item.removed and item.only_deletes and item.version not in recorded_versions
        ]
        return [
            Input(
                table=declared.table,
                table_id=now.table_id,
                version=item.version,
                files=len(item.removed),
                rows=0,
                bytes=0,
            )
            for item in unrecorded
        ]

    def _refuse_rows_left(self, now: PinnedSource, persons: Sequence[Person]) -> None:
        of_source = [person for person in persons if set(now.schema.names).issuperset(person.columns)]
        if now.why_not_direct is not None:
            log.warning(
                f"{self.pipeline.name}: whether the source {self.pipeline.source.table!r} still has such "
                "rows was not looked at: it can't "
                f"be read without Spark ({now.why_not_direct})"
            )
        if now.why_not_direct is not None or not of_source:
            return
        where = reduce(lambda one, other: one | other, _expressions(of_source, now.schema))
        rows = DeltaTable(now.uri, version=now.version).to_pyarrow_dataset().count_rows(filter=where)
        if rows:
            raise StillInSource(
                f"{self.pipeline.name}: the source {self.pipeline.source.table!r} still has {rows:,} rows "
                "that are to be erased. Delete "
                "them there first (DELETE FROM … WHERE …), then run the same command again; a restatement "
                "would bring them back. Nothing "
                "was changed.",
                rows=rows,
            )

    def _delete(self, attempts: AttemptsWriter, erased: Iterable[ErasedRows], began: datetime) -> None:
        """Delete the files that held the rows, and all others that no log names: what upkeep has dropped may
        hold such rows, too.
        """
        self._refuse_runs(
            attempts, RowsCameBack, "The rows are erased, and the files that held them are not deleted yet"
        )
        removed_files: dict[str, list[str]] = {}
        for item in erased:
            removed_files.setdefault(item.table, []).extend(item.removed)
        spared = [
            item.run_id
            for item in attempts.standing()
            if item.outcome == OPEN and not is_dead(item.owner or "")
        ]
        for name, folder in self.tables.folders.items():
            delete_dead(folder, removed_files.get(name, ()), began, spared)


def _newest_commits(now: PinnedSource, read: Iterable[int]) -> list[Commit]:
    """The commits since the oldest of the versions `read` from which on the log is whole."""
    for version in sorted(set(read)):
        history = commits(now.uri, version + 1, now.version)
        if history is not None:
            return history
    return []


def _columns_of(persons: Sequence[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for person in persons for name in person.columns))


def _expressions(persons: Sequence[Person], schema: pa.Schema) -> list[pc.Expression]:
    return [person.where(schema) for person in persons]


def _is_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.ChunkedArray:
    return reduce(pc.or_kleene, [person.is_in(rows) for person in persons])


def _is_told_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.Array:
    rows_as_json = rows.column("row_json").to_pylist()
    return pa.array([any(person.is_in_json(text) for person in persons) for text in rows_as_json], pa.bool_())


def _names_any(texts: Sequence[str], rows: pa.Table) -> pa.ChunkedArray:
    """Whether an error's text has one of the values in it as a word; an error of a user's function names the
    key and the row.
    """
    words = [rf"(^|\W){re.escape(text)}(\W|$)" for text in texts]
    return reduce(pc.or_kleene, [pc.match_substring_regex(rows.column("error"), word) for word in words])


def erasure_told(row: LedgerRow) -> str:
    """What an erasure came to, as a sentence without its end."""
    counts: Counter[str] = Counter()
    for item in row.erased:
        counts[item.table] += item.rows if item.removed else 0
    tables = ", ".join(f"{rows:,} of {table}" for table, rows in sorted(counts.items())) or "none"
    versions = ", ".join(str(item.version) for item in row.inputs)
    source = f"; the source had deleted theirs by version {versions}" if versions else ""
    return (
        f"row {row.seq} ({row.committed_at:%Y-%m-%dT%H:%M:%SZ}, {row.verdict}) took rows out: "
        f"{tables}{source}"
    )
