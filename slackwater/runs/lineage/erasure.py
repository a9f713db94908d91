"""The erasure: takes the rows of persons out of a pipeline's tables for good, because a law demands it.

    the owner deletes the rows      in the source
    -> write the remaining rows     into new files, which no log names yet
    -> commit one ledger row        which names the files to swap, and the versions that deleted in the source
    -> roll forward                 swaps the files, one commit a table
    -> delete the dead files        at once

By the versions that the ledger row names, no run takes the source for a changed one. Watermarks and counts of
runs stay as they were: they name nobody.

A person is named by values of columns. Rows are recognised as theirs by these tests:

    of columns of the table       every column has its value                      `is_of_any`, `where_any`
    of a row written as JSON      it has every column with that value             `is_json_of_any`
    of an error's text            one of the values is a word of it               `names_any`
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.changes import Commit
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import Source
from slackwater.pipelines.window_columns import all_columns
from slackwater.runs.publishing.committed_corrections import CORRECTIONS, CommittedCorrections
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.lease import only_upkeep
from slackwater.runs.staging.pins import pin_newest
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.stragglers import input_of
from slackwater.tables.errors import RunAtWork
from slackwater.tables.ledger.attempts import OPEN, AttemptsWriter, is_dead
from slackwater.tables.ledger.erasures import ErasedRows
from slackwater.tables.ledger.lineage_rows import erase_row
from slackwater.tables.ledger.rows import MAIN, Input, LedgerRow
from slackwater.tables.named_keys import NotAKey, scalar_of, values_of_key
from slackwater.tables.run_files.rewriting import Selection, delete_dead
from slackwater.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables, Warehouse


@dataclass(frozen=True)
class Person:
    """Somebody whose rows are erased: in them each column of `values` has its value, cast from text."""

    values: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    def under_own_names(self, own_names: Mapping[str, str | None]) -> "Person":
        """The person in rows of one of several sources, which has all these columns under its own names."""
        return Person(tuple((own_names[name] or name, text) for name, text in self.values))

    def scalars(self, schema: pa.Schema) -> list[tuple[str, pa.Scalar]]:
        """The values as the columns of `schema` have them; NotAKey where one can't be cast."""
        scalars = []
        for name, text in self.values:
            kind = schema.field(name).type
            try:
                scalars.append((name, scalar_of(kind, text)))
            except pa.ArrowException as error:
                raise NotAKey(f"{text!r} is no value of the column {name}, which is a {kind}.") from error
        return scalars

    def is_in(self, rows: pa.Table) -> pa.ChunkedArray:
        equal = [pc.equal(rows.column(name), value) for name, value in self.scalars(rows.schema)]
        return reduce(pc.and_, equal)

    def where(self, schema: pa.Schema) -> pc.Expression:
        # The cast is for string views, which delta-rs writes when it deletes rows: Arrow compares no string
        # with them.
        equal = [pc.field(name).cast(value.type) == value for name, value in self.scalars(schema)]
        return reduce(lambda one, other: one & other, equal)

    def is_in_json(self, text: str | None) -> bool:
        values: dict[str, Any] = json.loads(text) if text else {}
        return all(
            name in values and _as_text(values[name]) == text_of_value for name, text_of_value in self.values
        )


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def person_of_key(pipeline: Pipeline, key: str) -> Person:
    """The person of a key, as the option ``--key`` takes it; NotAKey for another number of values."""
    return Person(tuple(zip(pipeline.keys, values_of_key(pipeline.keys, key), strict=True)))


def columns_of(persons: Sequence[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for person in persons for name in person.columns))


def where_any(persons: Sequence[Person], schema: pa.Schema) -> pc.Expression:
    return reduce(lambda one, other: one | other, [person.where(schema) for person in persons])


def is_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.ChunkedArray:
    return reduce(pc.or_kleene, [person.is_in(rows) for person in persons])


def is_json_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.Array:
    rows_as_json = rows.column("row_json").to_pylist()
    return pa.array([any(person.is_in_json(text) for person in persons) for text in rows_as_json], pa.bool_())


def names_any(persons: Sequence[Person], rows: pa.Table) -> pa.ChunkedArray:
    """For each of `rows`, whether the text in its column `error` has a value of theirs as a word; an error
    of a user's function names the key and the row.
    """
    texts = [text for person in persons for _, text in person.values]
    words = [rf"(^|\W){re.escape(text)}(\W|$)" for text in texts]
    return reduce(pc.or_kleene, [pc.match_substring_regex(rows.column("error"), word) for word in words])


log = logging.getLogger("slackwater")

_TABLES_WITH_KEYS = ("window_state", "keyed_state", "timers", "panes", "published", "corrections")
_TABLES_WITH_HASHES = (*SNAPSHOT_TABLES, "panes")


class StillInSource(UsageError):
    """The source still has rows that are to be erased; a restatement would bring them back. Facts: rows."""


class RowsCameBack(RunAtWork):
    """Meanwhile a run has begun, or somebody has written more such rows or rewritten their files."""


@dataclass(frozen=True)
class Erasure:
    """Erases rows of one pipeline; `tables` has side outputs, too."""

    warehouse: Warehouse
    pipeline: Pipeline
    tables: Tables
    roll_forward: RollForward
    clock: Callable[[], datetime] = wall_clock

    def plan(self, persons: Sequence[Person]) -> dict[str, int]:
        """How many rows an erasure would take out of each table, or take a text out of. Changes nothing."""
        return {item.folder.name: count for item in self._selections(persons) if (count := item.count())}

    def run(self, persons: Sequence[Person], reason: str) -> LedgerRow | None:
        """Erase, record and delete. Returns the ledger row; None where there was nothing to erase or record.

        Raises:
            StillInSource, LeaseHeld, LostRaceError: nothing was changed.
            RunAtWork: a run may write more of these rows; nothing was changed.
            RowsCameBack: a part is done; the same command does the rest.
        """
        self._refuse_runs(AttemptsWriter(self.tables["attempts"]))
        self.tables.check_logs()
        began, attempts = self.clock(), AttemptsWriter(self.tables["attempts"])
        with only_upkeep(self.pipeline.name, attempts, self.clock):
            self.roll_forward.finish()
            self.roll_forward.uniqueness.require()
            head = self.tables.ledger.head(MAIN)
            if head is None:
                return None
            deletions = self._deletions(head, persons)
            erasures = tuple(item for selection in self._selections(persons) for item in selection.write())
            row = None
            if erasures or deletions:
                erasures = self._with_gaps(erasures, persons)
                row = self._commit(head, deletions, erasures, reason)
                self.roll_forward.finish()
            self._delete_dead_files(attempts, erasures, began)
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
        self, head: LedgerRow, deletions: Sequence[Input], erasures: tuple[ErasedRows, ...], reason: str
    ) -> LedgerRow:
        ledger = self.tables.ledger_writer
        owner, start = ledger.snapshot_owner(head), ledger.start_of(head)
        row = erase_row(head, owner, start, tuple(deletions), erasures, reason=reason)
        [new_head] = ledger.commit(MAIN, head.seq, [row], self.clock)
        log.info(
            "erase", extra={"pipeline": self.pipeline.name, "seq": new_head.seq, "run_id": new_head.run_id}
        )
        return new_head

    def _selections(self, persons: Sequence[Person]) -> list[Selection]:
        keys, late_events = set(self.pipeline.keys), self.tables["late_events"]
        unknown_columns = sorted(
            {name for person in persons for name in person.columns} - {*late_events.schema.names, *keys}
        )
        if unknown_columns:
            raise NotAKey(f"{self.pipeline.name}: the source has no column {', '.join(unknown_columns)}.")
        persons_by_key = [person for person in persons if keys.issuperset(person.columns)]
        selections = []
        for name, folder in self.tables.folders.items():
            if persons_by_key and (name in _TABLES_WITH_KEYS or name.startswith(SIDE)):
                is_hashed = name in _TABLES_WITH_HASHES or name.startswith(SIDE)
                selections.append(
                    Selection(
                        folder, columns_of(persons_by_key), partial(is_of_any, persons_by_key), is_hashed
                    )
                )
        source_persons = [
            person for person in persons if set(late_events.schema.names).issuperset(person.columns)
        ]
        if source_persons:
            selections.append(
                Selection(late_events, columns_of(source_persons), partial(is_of_any, source_persons))
            )
        selections.append(
            Selection(self.tables["quarantine"], ("row_json",), partial(is_json_of_any, persons))
        )
        selections.append(
            Selection(
                self.tables["attempts"], ("error",), partial(names_any, persons), columns_to_blank=("error",)
            )
        )
        if persons_by_key:
            selections.append(self._samples(persons_by_key))
        return selections

    def _with_gaps(
        self, erasures: tuple[ErasedRows, ...], persons: Sequence[Person]
    ) -> tuple[ErasedRows, ...]:
        """`erasures` with the places of the erased corrections, by which positions of sinks are counted."""
        places = [number for number, item in enumerate(erasures) if item.table == CORRECTIONS]
        if not places:
            return erasures
        keys = self.pipeline.keys
        persons_by_key = [person for person in persons if set(keys).issuperset(person.columns)]
        corrections = CommittedCorrections(self.tables, keys, all_columns(self.pipeline))
        where = where_any(persons_by_key, self.tables[CORRECTIONS].schema)
        gaps = tuple(corrections.gaps_of(where, partial(is_of_any, persons_by_key)))
        first = replace(erasures[places[0]], gaps=gaps)
        return (*erasures[: places[0]], first, *erasures[places[0] + 1 :])

    def _samples(self, persons_by_key: Sequence[Person]) -> Selection:
        """The observed values and samples in validations of runs with rows of theirs, all of them: the
        table does not say whose values they are.
        """
        panes, validations = self.tables["panes"], self.tables["validations"]
        where = where_any(persons_by_key, panes.schema)
        run_ids = panes.read(["run_id"], where).column("run_id").unique()

        def is_of_theirs(rows: pa.Table) -> pa.ChunkedArray:
            names = pc.coalesce(rows.column("column_name"), rows.column("result_json"))
            has_seen = pc.and_(pc.is_valid(names), pc.is_valid(rows.column("observed")))
            return pc.and_(has_seen, pc.is_in(rows.column("run_id"), value_set=run_ids))

        return Selection(
            validations,
            ("run_id", "column_name", "observed", "result_json"),
            is_of_theirs,
            columns_to_blank=("observed", "sample_json", "result_json"),
        )

    def _deletions(self, head: LedgerRow, persons: Sequence[Person]) -> list[Input]:
        """The versions of the sources that have deleted rows since live runs have read them, and that no
        erasure has recorded. Raises StillInSource.
        """
        newest = PinnedSources.of(self.pipeline, pin_newest(self.pipeline, self.warehouse))
        for number, source in enumerate(self.pipeline.sources):
            self._refuse_rows_left(source, newest, number, persons)
        live = self.tables.ledger.live_runs(head)
        return [
            item
            for source, newest_version in zip(self.pipeline.sources, newest.each, strict=True)
            for item in self._deletions_of(source, newest_version, live)
        ]

    def _deletions_of(self, source: Source, newest: PinnedSource, live: Sequence[LedgerRow]) -> list[Input]:
        read_versions = {
            item.version
            for row in live
            if (item := input_of(row, source.table)) is not None and item.table_id in (None, newest.table_id)
        }
        recorded_versions = self.tables.ledger.erasing_versions(source.table, newest.table_id)
        unrecorded_deletions = [
            item
            for item in _newest_commits(newest, read_versions)
            if item.removed_files and item.only_deletes and item.version not in recorded_versions
        ]
        return [
            Input(
                table=source.table,
                table_id=newest.table_id,
                version=item.version,
                files=len(item.removed_files),
                rows=0,
                bytes=0,
            )
            for item in unrecorded_deletions
        ]

    def _refuse_rows_left(
        self, declaration: Source, sources: PinnedSources, number: int, persons: Sequence[Person]
    ) -> None:
        newest, naming = sources.each[number], sources.namings[number]
        if naming is not None:
            persons = [
                person.under_own_names(naming.own_names)
                for person in persons
                if all(naming.own_names.get(name) is not None for name in person.columns)
            ]
        source_persons = [person for person in persons if set(newest.schema.names).issuperset(person.columns)]
        if newest.why_not_direct is not None:
            log.warning(
                f"{self.pipeline.name}: whether the source {declaration.table!r} still has such "
                "rows was not looked at: it can't "
                f"be read without Spark ({newest.why_not_direct})"
            )
        if any(name in self.pipeline.derive for person in persons for name in person.columns):
            log.warning(
                f"{self.pipeline.name}: whether the source {declaration.table!r} still has such "
                "rows was not looked at by derived columns; delete them there before the next restatement"
            )
        if newest.why_not_direct is not None or not source_persons:
            return
        where = where_any(source_persons, newest.schema)
        rows = newest.count_rows(where, columns_of(source_persons))
        if rows:
            raise StillInSource(
                f"{self.pipeline.name}: the source {declaration.table!r} still has {rows:,} rows "
                "that are to be erased. Delete "
                "them there first (DELETE FROM … WHERE …), then run the same command again; a restatement "
                "would bring them back. Nothing "
                "was changed.",
                rows=rows,
            )

    def _delete_dead_files(
        self, attempts: AttemptsWriter, erasures: Iterable[ErasedRows], began: datetime
    ) -> None:
        """Delete the files that held the rows, and all others that no log names, because files that upkeep
        has dropped may hold such rows, too. Files of runs at work stay.
        """
        self._refuse_runs(
            attempts, RowsCameBack, "The rows are erased, and the files that held them are not deleted yet"
        )
        removed_files: dict[str, list[str]] = {}
        for item in erasures:
            removed_files.setdefault(item.table, []).extend(item.removed)
        runs_at_work = [
            item.run_id
            for item in attempts.newest_rows()
            if item.outcome == OPEN and not is_dead(item.owner or "")
        ]
        for name, folder in self.tables.folders.items():
            delete_dead(folder, removed_files.get(name, ()), began, runs_at_work)


def _newest_commits(newest: PinnedSource, read_versions: Iterable[int]) -> list[Commit]:
    """The commits since the oldest of `read_versions` from which on the log is complete."""
    for version in sorted(set(read_versions)):
        history = newest.commits_since(version)
        if history is not None:
            return history
    return []


def describe_erasure(row: LedgerRow) -> str:
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
