"""Replays rows that a test has made through a declared pipeline, for `slackwater.testing.replay`: the same
steps as a run's, in this process, over a warehouse that is gone afterwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from slackwater.engine import planner
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import UsageError
from slackwater.pipelines import ParquetSource, Pipeline
from slackwater.pipelines.registry import config_hash
from slackwater.pipelines.sources import Source
from slackwater.runs.lineage.moves import close
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.shapes import checked_sources
from slackwater.runs.staging.slices import Slice
from slackwater.tables.schemas import TIME, side_table
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import MILLISECOND, to_ms

Rows: TypeAlias = pa.Table | Sequence[Mapping[str, Any]]
Moment: TypeAlias = str | date | datetime

_NOT_SHOWN = ("run_id", "key_group", "source_file", "source_version", "at")


@dataclass(frozen=True)
class ReplayResult:
    """What a replay has left, each table as Arrow, sorted by window and key; `to_pylist()` makes dicts.

    Attributes:
        published: the results, the newest of each key and window.
        panes: every firing.
        corrections: every change of `published`, with the `seq` of its slice: 1, 2, …
        late: rows that came too late for a window, with how late.
        quarantine: rows that cannot be used, with the reason.
        open_windows: what is parked behind the last slice.
        sides: tag → rows of the side output.
    """

    published: pa.Table
    panes: pa.Table
    corrections: pa.Table
    late: pa.Table
    quarantine: pa.Table
    open_windows: pa.Table
    sides: Mapping[str, pa.Table]


def replay_rows(
    pipeline: Pipeline, rows: Rows | Mapping[str, Rows], slices: Sequence[Moment], *, closes: bool
) -> ReplayResult:
    """See `slackwater.testing.replay`."""
    with TemporaryDirectory(prefix="slackwater-replay-") as folder:
        pipeline = _over_rows(pipeline, rows, Path(folder))
        warehouse = Warehouse(folder)
        sources, shape = checked_sources(warehouse, pipeline)
        tables = warehouse.tables(pipeline.name, shape).ensure()
        runner = Runner(
            warehouse=warehouse,
            pipeline=pipeline,
            shape=tables.shape(shape),
            tables=tables,
            config_hash=config_hash(pipeline),
            code_hash="",
            engine=planner.choose(pipeline, sources.schema).make(),
            transport=InProcess(),
            ranges=1,
            lease=False,
        )
        evaluator, parent = Evaluator(runner, lambda line: None), runner.parent()
        for slice_ in _slices(pipeline, slices, rows):
            parent = evaluator.execute(slice_, parent)
        if closes:
            close(evaluator)
        return _result(pipeline, tables)


def _over_rows(pipeline: Pipeline, rows: Rows | Mapping[str, Rows], folder: Path) -> Pipeline:
    """`pipeline` over sources that are written to `folder`, without sinks."""
    by_title = rows if isinstance(rows, Mapping) else {pipeline.sources[0].title: rows}
    titles = [source.title for source in pipeline.sources]
    if sorted(by_title) != sorted(titles):
        raise UsageError(
            f"{pipeline.name} reads {', '.join(titles)}; give the rows of each: rows={{{titles[0]!r}: […]}}."
        )
    sources = [_source_of(source, by_title[source.title], folder) for source in pipeline.sources]
    is_union = len(sources) > 1
    named_sources = [
        replace(source, name=title) if is_union else source
        for source, title in zip(sources, titles, strict=True)
    ]
    return replace(pipeline, source=named_sources, sinks=())


def _source_of(source: Source, rows: Rows, folder: Path) -> Source:
    place = folder / "sources" / source.title
    table = _as_table(rows)
    if isinstance(source, ParquetSource):
        place.mkdir(parents=True)
        pq.write_table(table, place / "rows.parquet")
    else:
        write_deltalake(str(place), table)
    return replace(source, table=str(place))


def _as_table(rows: Rows) -> pa.Table:
    """The rows as Arrow; times without a zone are of UTC."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            column = table.column(place).cast(pa.timestamp("us")).cast(TIME)
            table = table.set_column(place, field.name, column)
    return table


def _slices(pipeline: Pipeline, ends: Sequence[Moment], rows: Rows | Mapping[str, Rows]) -> Iterator[Slice]:
    """The slices that end at `ends`; without any, one that has all rows."""
    start_ms = pipeline.start_ms
    for end in ends or [_behind_all(pipeline, rows)]:
        end_ms = to_ms(_in_zone(end, pipeline))
        yield Slice(start_ms, end_ms)
        start_ms = end_ms


def _in_zone(moment: Moment, pipeline: Pipeline) -> datetime:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment if moment.tzinfo else moment.replace(tzinfo=pipeline.zone)


def _behind_all(pipeline: Pipeline, rows: Rows | Mapping[str, Rows]) -> datetime:
    """The end of the first watermark interval behind every arrival."""
    tables = rows.values() if isinstance(rows, Mapping) else [rows]
    arrivals = [
        pc.max(_as_table(table).column(source.arrival_time)).as_py()
        for source, table in zip(pipeline.sources, tables, strict=True)
        if source.arrival_time in _as_table(table).column_names
    ]
    newest = max((arrival for arrival in arrivals if isinstance(arrival, datetime)), default=None)
    if newest is None:
        raise UsageError(
            f"{pipeline.name}: say where slices end, slices=['2024-01-02', …]: rows have no arrival."
        )
    return newest + timedelta(milliseconds=pipeline.watermarks.interval_ms) + MILLISECOND


def _result(pipeline: Pipeline, tables: Tables) -> ReplayResult:
    head = tables.ledger.head()
    owner = None if head is None else tables.ledger.snapshot_owner(head)

    def rows_of(name: str) -> pa.Table:
        rows = tables[name].read()
        if name == "window_state" and owner is not None:
            rows = rows.filter(pc.equal(rows.column("run_id"), owner.run_id))
        order = [
            *("seq", "window_start", "window_end", *pipeline.keys),
            *("timestamp", "firing", "ordinal", "arrival_time", "row_json"),
        ]
        names = [name for name in order if name in rows.column_names]
        rows = rows.sort_by([(name, "ascending") for name in names])
        return rows.select([name for name in rows.column_names if name not in _NOT_SHOWN])

    return ReplayResult(
        published=rows_of("published"),
        panes=rows_of("panes"),
        corrections=rows_of("corrections"),
        late=rows_of("late_events"),
        quarantine=rows_of("quarantine"),
        open_windows=rows_of("window_state"),
        sides={tag: rows_of(side_table(tag)) for tag in pipeline.side_columns},
    )
