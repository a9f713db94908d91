"""How the results of range tasks reach the driver: tables marked with what they are, counts, hashes, and
files of those that are large.

Every engine ends with this; none of it knows how windows are run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import pyarrow as pa

from slackwater.jobs.engines.replaying.replay import Outcome, Replay
from slackwater.jobs.engines.transport.process_memory import peak_kb
from slackwater.jobs.tables.delta.written_files import WrittenFile, of_type
from slackwater.jobs.tables.run_files.staging import write_staged
from slackwater.jobs.tables.schemas import COUNTS, table_schemas
from slackwater.windowing.snapshot import ContentHash

# What becomes of the (element, window) assignments of accepted rows: parked before the slice; made in it,
# missed ones included; and at its end in windows that are open, or were collected. Under a session count
# those of the sessions that it has absorbed.
ASSIGNMENTS = ("assignments_before", "assignments_made", "assignments_open", "assignments_cleaned")
# Of each table, of all ranges together: a JVM of 2 GB collects some of them at a time, and Spark's default
# refuses results of 1 GB.
_DRIVER_BYTES = 64 << 20
# What a range task holds of rows that it only passes on, before it makes a file of them.
_PASSING_BYTES = 64 << 20
_NAME = b"slackwater.table"
_TAKEN = b"slackwater.taken"
_FILES = pa.schema(
    [
        ("table", pa.string()),
        ("path", pa.string()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("statistics", pa.string()),
    ]
)


def mark_table(name: str, table: pa.Table) -> pa.Table:
    """`table`, marked with what it is; the mark travels with it."""
    return table.replace_schema_metadata({_NAME: name.encode()})


def name_of(table: pa.Table) -> str:
    """The mark that `named` left."""
    return bytes(table.schema.metadata[_NAME]).decode()


def counts_table(counts: Mapping[str, int], state_s: float = 0.0) -> pa.Table:
    """Counts under names of COUNTS and ASSIGNMENTS, those of all tasks are added up; beside them what the
    task has taken: CPU seconds for its share of the snapshot, and the most memory of its process
    meanwhile."""
    rows = pa.table({"name": list(counts), "value": pa.array(list(counts.values()), pa.int64())})
    return rows.replace_schema_metadata({_NAME: b"counts", _TAKEN: json.dumps([peak_kb(), state_s]).encode()})


def hashes_table(output: ContentHash, state: ContentHash) -> pa.Table:
    """The hashes over a task's panes and over its part of the snapshot; those of all tasks are merged."""
    return mark_table("hashes", pa.table({"kind": ["output", "state"], "hash": [str(output), str(state)]}))


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with every column of the table but run_id, in its order, so that a hash covers what a reader
    sees. Dictionaries stay.
    """
    columns = {
        field.name: of_type(rows.column(field.name), field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
        if field.name != "run_id"
    }
    return pa.table(columns)


def hand_over(
    replay: Replay, number: int, name: str, rows: pa.Table, schema: pa.Schema, part: int | str = 0
) -> pa.Table:
    """Few rows of table `name` go to the driver, many stay here as a file of the table, written by a part of
    range `number`: also such as would, if every range gave as much, be more than the driver takes."""
    if rows.num_rows < replay.file_rows and rows.nbytes * replay.ranges < _DRIVER_BYTES:
        return mark_table(name, rows.cast(pa.schema([schema.field(column) for column in rows.column_names])))
    written = write_staged(
        replay.target(name), replay.run_id, f"range-{number:05d}-{part}", conform(rows, schema)
    )
    columns = [{"table": name, **vars(written)}]
    columns[0]["partition"] = list(written.partition.items())
    return mark_table("files", pa.Table.from_pylist(columns, schema=_FILES))


def spread_quarantine_rows(quarantined: pa.Table, ranges: int) -> Iterator[tuple[int, pa.Table]]:
    """Rows for `quarantine`, of which some have no key, to all ranges alike: no task has them all."""
    bounds = [quarantined.num_rows * number // ranges for number in range(ranges + 1)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        if start < end:
            yield number, mark_table("quarantine", quarantined.slice(start, end - start))


def hand_over_quarantine_rows(replay: Replay, number: int, quarantined: pa.Table, part: str) -> pa.Table:
    """Rows for `quarantine` that range `number` has received or made, handed over with the version of the
    source that they stand in.
    """
    rows = quarantined.append_column(
        "source_version", pa.repeat(pa.scalar(replay.scan.source.version, pa.int64()), quarantined.num_rows)
    )
    return hand_over(replay, number, "quarantine", rows, table_schemas(replay.shape)["quarantine"], part)


class PassingRows:
    """Rows of `late_events` and `quarantine` that range `number` receives only to hand them over. However
    many there are, it holds no more than makes a file."""

    def __init__(self, replay: Replay, number: int) -> None:
        self._replay = replay
        self._number = number
        self._held: dict[str, list[pa.Table]] = {"late_events": [], "quarantine": []}
        self._bytes = dict.fromkeys(self._held, 0)
        self._files = 0

    def takes(self, table: pa.Table) -> bool:
        """Whether it is a table of such rows."""
        return name_of(table) in self._held

    def take(self, table: pa.Table) -> Iterator[pa.Table]:
        """Hold them, or hand over what is held by now."""
        name = name_of(table)
        self._held[name].append(table.replace_schema_metadata(None))
        self._bytes[name] += table.nbytes
        if self._bytes[name] >= _PASSING_BYTES:
            yield self._hand_over(name)

    def hand_over_the_rest(self) -> Iterator[pa.Table]:
        """Hand over what is left."""
        yield from (self._hand_over(name) for name, held in self._held.items() if held)

    def _hand_over(self, name: str) -> pa.Table:
        rows, part = pa.concat_tables(self._held[name]), f"split-{self._files}"
        self._held[name], self._bytes[name], self._files = [], 0, self._files + 1
        if name == "quarantine":
            return hand_over_quarantine_rows(self._replay, self._number, rows, part)
        return hand_over(
            self._replay, self._number, name, rows, table_schemas(self._replay.shape)[name], part
        )


def collect(tables: Iterable[pa.Table]) -> Outcome:
    """What all tasks of a replay gave, together."""
    outcome = Outcome(counts=dict.fromkeys(COUNTS, 0), assignments=dict.fromkeys(ASSIGNMENTS, 0))
    for table in tables:
        name = name_of(table)
        if name == "counts":
            memory_kb, state_s = json.loads(table.schema.metadata[_TAKEN])
            outcome.memory_mb = max(outcome.memory_mb, memory_kb >> 10)
            outcome.state_s += state_s
            for count, value in zip(
                table.column("name").to_pylist(), table.column("value").to_pylist(), strict=True
            ):
                (outcome.assignments if count in outcome.assignments else outcome.counts)[count] += value
        elif name == "hashes":
            for kind, text in zip(
                table.column("kind").to_pylist(), table.column("hash").to_pylist(), strict=True
            ):
                (outcome.output_hash if kind == "output" else outcome.state_hash).merge(
                    ContentHash.parse(text)
                )
        elif name == "files":
            for row in table.to_pylist():
                table_name = row.pop("table")
                outcome.files.setdefault(table_name, []).append(
                    WrittenFile(**{**row, "partition": dict(row["partition"])})
                )
        else:
            outcome.rows.setdefault(name, []).append(table.replace_schema_metadata(None))
    return outcome
