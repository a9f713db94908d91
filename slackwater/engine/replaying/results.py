"""How results of range tasks reach the driver: named tables of rows, counts, hashes, metrics and files.
Both engines first leave out the firings that `late_refires` does.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.replaying.pane_metrics import (
    RowsLateByMark,
    as_counter,
    columns_measured,
    is_mark_ahead,
    pane_metrics,
    reason_counts,
)
from slackwater.engine.replaying.published_form import PublishedForm
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.rows.columns_read import ARRIVAL
from slackwater.engine.transport.process_memory import peak_kb
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import SOURCE
from slackwater.pipelines.window_columns import identifying_columns
from slackwater.tables.arrow_values import is_text
from slackwater.tables.delta.written_files import cast_unless_encoded, files_of_table, table_of_files
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import COUNTS, TIME, table_schemas
from slackwater.windowing.snapshot import ContentHash

# The (element, window) assignments of accepted rows, by what became of them: parked before the slice; made in
# it, those to windows that were missed included; and, at its end, in windows that are open, or that were
# collected. A session counts the assignments of the sessions that it has absorbed.
ASSIGNMENTS = ("assignments_before", "assignments_made", "assignments_open", "assignments_cleaned")
# The rows of one table from all ranges together: a JVM of 2 GB collects several tables at a time, and Spark's
# default refuses results of 1 GB.
DRIVER_BYTES = 64 << 20
# So much a range task holds of rows that it only passes on, before it writes a file of them.
PASSING_BYTES = 64 << 20
_ROWS_OF_SOURCE = "rows_of_source_"
_NAME = b"slackwater.table"
_METRICS = "metrics of panes"
_LATE_BY_MARK = "rows late by the mark"
_REASON_COUNTS = "reason codes"
_RESOURCES = b"slackwater.taken"
_FILES_OF = "files of "


def mark_table(name: str, table: pa.Table) -> pa.Table:
    """`table`, marked with what it is; the mark travels with it."""
    return table.replace_schema_metadata({_NAME: name.encode()})


def name_of(table: pa.Table) -> str:
    return bytes(table.schema.metadata[_NAME]).decode()


def counts_table(counts: Mapping[str, int]) -> pa.Table:
    """A task's counts, under names of COUNTS and ASSIGNMENTS; the driver adds those from all tasks. Like all
    that a map task sends, they depend on the task's rows alone: Spark gives up a job if a map task, run again
    after the loss of an executor, sends other bytes than before.
    """
    rows = pa.table({"name": list(counts), "value": pa.array(list(counts.values()), pa.int64())})
    return mark_table("counts", rows)


def range_counts(counts: Mapping[str, int], state_s: float = 0.0) -> pa.Table:
    """The counts with which a range task ends, with its CPU seconds for the snapshot and its peak memory."""
    resources = json.dumps([peak_kb(), state_s]).encode()
    return counts_table(counts).replace_schema_metadata({_NAME: b"counts", _RESOURCES: resources})


def read_counts(elements: pa.Table, from_ms: int) -> dict[str, int]:
    """The ledger's counts of these elements: all, and those that had arrived before the slice."""
    is_folded = elements.column(ARRIVAL).to_numpy() < from_ms
    return {"rows_read": elements.num_rows, "rows_folded": int(np.count_nonzero(is_folded))}


def folded_count(quarantine_rows: pa.Table, from_ms: int) -> int:
    """How many rows for `quarantine` had arrived before the slice."""
    arrivals = quarantine_rows.column("arrival_time")
    is_folded = pc.less(arrivals, pa.scalar(from_ms * 1000, pa.int64()).cast(arrivals.type))
    return int(pc.sum(is_folded).as_py() or 0)


def rows_of_source(number: int | None, rows: int) -> dict[str, int]:
    """The count of rows read of source `number`; none where the pipeline has one source."""
    return {} if number is None else {f"{_ROWS_OF_SOURCE}{number}": rows}


def hashes_table(output: ContentHash, state: ContentHash) -> pa.Table:
    """The hashes over a task's panes and its part of the snapshot, which the driver merges."""
    return mark_table("hashes", pa.table({"kind": ["output", "state"], "hash": [str(output), str(state)]}))


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with every column of the table but run_id, in its order, as the hash covers them."""
    columns = {
        field.name: cast_unless_encoded(rows.column(field.name), field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
        if field.name != "run_id"
    }
    return pa.table(columns)


def hand_over(
    replay: Replay, number: int, name: str, rows: pa.Table, schema: pa.Schema, *, part: int | str = 0
) -> Iterator[pa.Table]:
    """Hand over the rows of table `name` that `part` of range `number` has made, with their metrics. Few rows
    go to the driver; from `file_rows` on, or where the driver could not take as much from every range, they
    are written as a file of the table, and only its description goes.
    """
    if name == "panes" and replay.expectations:
        form = PublishedForm.of(replay.pipeline)
        names = form.stored_columns(columns_measured(replay.expectations), schema.names)
        panes = form.apply(conform(rows, pa.schema([schema.field(name) for name in names])))
        yield mark_table(_METRICS, pane_metrics(replay.expectations, panes))
    elif name == "late_events" and is_mark_ahead(replay.timeline, replay.pipeline.allowed_lateness_ms):
        late_by_mark = RowsLateByMark.of(rows, replay.pipeline.allowed_lateness_ms)
        if late_by_mark is not None:
            yield mark_table(_LATE_BY_MARK, late_by_mark.to_table())
    elif name == "quarantine":
        yield mark_table(_REASON_COUNTS, reason_counts(rows))
    yield _rows_or_file(replay, number, name, rows, schema, part=part)


def _rows_or_file(
    replay: Replay, number: int, name: str, rows: pa.Table, schema: pa.Schema, *, part: int | str
) -> pa.Table:
    if rows.num_rows < replay.file_rows and rows.nbytes * replay.ranges < DRIVER_BYTES:
        return mark_table(name, rows.cast(pa.schema([schema.field(column) for column in rows.column_names])))
    written = write_staged(
        replay.target(name), replay.run_id, f"range-{number:05d}-{part}", conform(rows, schema)
    )
    return mark_table(f"{_FILES_OF}{name}", table_of_files([written]))


def spread_quarantine_rows(quarantine_rows: pa.Table, ranges: int) -> Iterator[tuple[int, pa.Table]]:
    """Rows for `quarantine`, divided evenly among all ranges, as some have no key."""
    bounds = [quarantine_rows.num_rows * number // ranges for number in range(ranges + 1)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        if start < end:
            yield number, mark_table("quarantine", quarantine_rows.slice(start, end - start))


def hand_over_quarantine_rows(
    replay: Replay, number: int, quarantine_rows: pa.Table, part: str
) -> Iterator[pa.Table]:
    """Hand over rows for `quarantine` from range `number`, with their source's version."""
    versions = replay.scan.versions()
    if versions:
        titles = quarantine_rows.column(SOURCE)
        places = pc.index_in(titles, value_set=pa.array(list(versions)))
        version = pa.array(list(versions.values()), pa.int64()).take(places.combine_chunks())
        quarantine_rows = quarantine_rows.drop_columns([SOURCE])
    else:
        version = pa.repeat(pa.scalar(replay.scan.source.version, pa.int64()), quarantine_rows.num_rows)
    rows = quarantine_rows.append_column("source_version", version)
    return hand_over(replay, number, "quarantine", rows, table_schemas(replay.shape)["quarantine"], part=part)


class PassingRows:
    """Rows of `late_events` and `quarantine` that a range only hands over, at most one file's at a time."""

    def __init__(self, replay: Replay, number: int) -> None:
        self._replay = replay
        self._number = number
        self._tables_by_name: dict[str, list[pa.Table]] = {"late_events": [], "quarantine": []}
        self._bytes = dict.fromkeys(self._tables_by_name, 0)
        self._files = 0

    def takes(self, table: pa.Table) -> bool:
        return name_of(table) in self._tables_by_name

    def take(self, table: pa.Table) -> Iterator[pa.Table]:
        """Hold the rows of `table`; from PASSING_BYTES on, hand over all of that table."""
        name = name_of(table)
        self._tables_by_name[name].append(table.replace_schema_metadata(None))
        self._bytes[name] += table.nbytes
        if self._bytes[name] >= PASSING_BYTES:
            yield from self._hand_over(name)

    def hand_over_the_rest(self) -> Iterator[pa.Table]:
        for name, tables in self._tables_by_name.items():
            if tables:
                yield from self._hand_over(name)

    def _hand_over(self, name: str) -> Iterator[pa.Table]:
        rows, part = pa.concat_tables(self._tables_by_name[name]), f"split-{self._files}"
        self._tables_by_name[name], self._bytes[name], self._files = [], 0, self._files + 1
        if name == "quarantine":
            return hand_over_quarantine_rows(self._replay, self._number, rows, part)
        return hand_over(
            self._replay, self._number, name, rows, table_schemas(self._replay.shape)[name], part=part
        )


def collect(tables: Iterable[pa.Table]) -> Outcome:
    """The outcome of a replay, from the tables that all of its range tasks have handed over."""
    outcome = Outcome(counts=dict.fromkeys(COUNTS, 0), assignments=dict.fromkeys(ASSIGNMENTS, 0))
    for table in tables:
        name = name_of(table)
        if name == "counts":
            memory_kb, state_s = json.loads(table.schema.metadata.get(_RESOURCES, b"[0, 0]"))
            outcome.memory_mb = max(outcome.memory_mb, memory_kb >> 10)
            outcome.state_s += state_s
            for count, value in zip(
                table.column("name").to_pylist(), table.column("value").to_pylist(), strict=True
            ):
                if count.startswith(_ROWS_OF_SOURCE):
                    number = int(count.removeprefix(_ROWS_OF_SOURCE))
                    outcome.rows_by_source[number] = outcome.rows_by_source.get(number, 0) + value
                else:
                    (outcome.assignments if count in outcome.assignments else outcome.counts)[count] += value
        elif name == "hashes":
            for kind, text in zip(
                table.column("kind").to_pylist(), table.column("hash").to_pylist(), strict=True
            ):
                (outcome.output_hash if kind == "output" else outcome.state_hash).merge(
                    ContentHash.parse(text)
                )
        elif name.startswith(_FILES_OF):
            outcome.files.setdefault(name.removeprefix(_FILES_OF), []).extend(files_of_table(table))
        elif name == _METRICS:
            outcome.pane_metrics.append(table.replace_schema_metadata(None))
        elif name == _LATE_BY_MARK:
            outcome.late_by_mark = RowsLateByMark.from_table(table).merge(outcome.late_by_mark)
        elif name == _REASON_COUNTS:
            outcome.reason_counts += as_counter(table)
        else:
            outcome.rows.setdefault(name, []).append(table.replace_schema_metadata(None))
    return outcome


def drop_replaced_refires(panes: pa.Table, pipeline: Pipeline) -> pa.Table:
    """`panes`, of one key-group range and run, without the late firings that a later firing of the window, or
    its withdrawal, replaces in the same tick or run. What is published is the same, firing numbers included:

        ticks                 |     1      |   2   |
        firings, in order     0    1    2       3        0 is on time
        late_refires element  0    1    2       3
                     tick     0         2       3
                     run      0                 3
    """
    if pipeline.late_refires == "element":
        return panes
    is_late = is_text(panes.column("kind"), "late")
    refire_rows = np.flatnonzero(pc.or_(is_late, is_text(panes.column("kind"), "withdrawn")))
    rows = panes.take(pa.array(refire_rows))
    window_columns = [*pipeline.keys, *identifying_columns(pipeline)]
    if pipeline.late_refires == "tick":
        rows = rows.append_column("__tick", pa.array(_ticks(rows, pipeline.watermarks.interval_ms)))
        window_columns.append("__tick")
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*window_columns, "firing")])
    firings = rows.column("firing").to_numpy()[order]
    last = np.flatnonzero(_ends(rows.select(window_columns).take(order), window_columns))
    newest = np.repeat(firings[last], np.diff(last, prepend=-1))
    replaced_rows = refire_rows[order.to_numpy()[firings < newest]]
    keep = np.ones(panes.num_rows, np.bool_)
    keep[replaced_rows] = False
    return panes.filter(pa.array(keep))


def _ticks(rows: pa.Table, interval_ms: int) -> npt.NDArray[np.int64]:
    """The tick of the cause of each firing: an element that arrived in it, or the watermark at its end."""
    by_element = rows.column("cause_arrival").cast(pa.int64())
    by_watermark = pc.subtract(rows.column("tick_end").cast(TIME).cast(pa.int64()), 1)
    moments = pc.coalesce(by_element, by_watermark).to_numpy()
    return np.asarray(np.floor_divide(moments, interval_ms * 1000))


def _ends(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    ends = np.zeros(rows.num_rows, np.bool_)
    ends[-1:] = True
    for name in names:
        column = rows.column(name)
        ends[:-1] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))))
    return ends
