"""Every table's columns, in the documented order. Readers, writers, the reference of the tables and a test
all follow this one place.

A pipeline's key and result columns are in its tables under their own names. Times are UTC timestamps in
microseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from slackwater.stored_columns import (
    CORRECTIONS,
    LATE_EVENTS,
    PANES,
    PUBLISHED,
    SIDE_OUTPUT,
    columns_of,
)
from slackwater.tables.delta.clustering import Clustering
from slackwater.windowing.snapshot.columns import snapshot_columns

FORMAT_VERSION = 1
# Folder of small tables that record which files of each source the runs have seen.
SOURCE_FILES = "_source_files"

TIME = pa.timestamp("us", tz="UTC")
LONG, INT, TEXT, BOOL = pa.int64(), pa.int32(), pa.string(), pa.bool_()
SPAN = pa.struct([pa.field("first_seq", LONG), pa.field("last_seq", LONG)])
INPUT = pa.struct(
    [
        pa.field("table", TEXT),
        pa.field("table_id", TEXT),
        pa.field("version", LONG),
        pa.field("files", LONG),
        pa.field("rows", LONG),
        pa.field("bytes", LONG),
    ]
)
# See `slackwater.tables.ledger.erasures.ErasedRows`.
ERASED_ROWS = pa.struct(
    [
        pa.field("table", TEXT),
        pa.field("run_id", TEXT),
        pa.field("rows", LONG),
        pa.field("hash", TEXT),
        pa.field("removed", pa.list_(TEXT)),
        pa.field("files", pa.list_(TEXT)),
        pa.field(
            "gaps",
            pa.list_(pa.struct([pa.field(name, LONG) for name in ("seq", "key_group", "first", "rows")])),
        ),
    ]
)
WINDOW = pa.struct([pa.field("start", TIME), pa.field("end", TIME)])

_TYPES = {"string": TEXT, "int": INT, "long": LONG, "timestamp": TIME, "date": pa.date32()}

Columns = tuple[tuple[str, pa.DataType], ...]

# The counts of a run, in the order of the columns of `runs`; the last four are columns at its end.
COUNTS = (
    "rows_read",
    "rows_filtered",
    "rows_accepted",
    "rows_late",
    "rows_unassigned",
    "rows_quarantined",
    "rows_folded",
    "assignments_missed",
    "elements_never_fired",
    "windows_opened",
    "windows_fired",
    "windows_refired",
    "windows_merged",
    "windows_cleaned",
    "windows_open",
    "timers_pending",
    "rows_emitted",
    "side_rows",
    "rows_duplicate",
    "rows_exploded",
)

RUNS: Columns = (
    ("seq", LONG),
    ("run_id", TEXT),
    ("kind", TEXT),
    ("branch", TEXT),
    ("parent_seq", LONG),
    ("live", pa.list_(SPAN)),
    ("slice_start", TIME),
    ("slice_end", TIME),
    ("attempt", LONG),
    ("engine", TEXT),
    ("watermark_in", TIME),
    ("watermark_out", TIME),
    ("inputs", pa.list_(INPUT)),
    ("config_hash", TEXT),
    ("code_hash", TEXT),
    ("format_version", LONG),
    *((name, LONG) for name in COUNTS[:-4]),
    ("verdict", TEXT),
    ("state_hash", TEXT),
    ("output_hash", TEXT),
    ("files", pa.map_(TEXT, pa.list_(TEXT))),
    ("started_at", TIME),
    ("committed_at", TIME),
    ("phase_seconds", pa.map_(TEXT, pa.float64())),
    ("version", TEXT),
    ("table_versions", pa.map_(TEXT, LONG)),
    ("erased", pa.list_(ERASED_ROWS)),
    ("rows_emitted", LONG),
    ("side_rows", LONG),
    ("rows_duplicate", LONG),
    ("place", TEXT),
    ("place_reason", TEXT),
    ("rows_exploded", LONG),
)

ATTEMPTS: Columns = (
    ("run_id", TEXT),
    ("parent_seq", LONG),
    ("slice_start", TIME),
    ("slice_end", TIME),
    ("attempt", LONG),
    ("owner", TEXT),
    ("claimed_at", TIME),
    ("expires_at", TIME),
    ("outcome", TEXT),
    ("verdict", TEXT),
    ("ledger_row", TEXT),
    ("exit_code", LONG),
    ("step", TEXT),
    ("error", TEXT),
    ("at", TIME),
)

VALIDATIONS: Columns = (
    ("run_id", TEXT),
    ("expectation", TEXT),
    ("column_name", TEXT),
    ("severity", TEXT),
    ("passed", BOOL),
    ("observed", TEXT),
    ("unexpected", LONG),
    ("checked", LONG),
    ("sample_json", TEXT),
    ("result_json", TEXT),
)

QUARANTINE: Columns = (
    ("run_id", TEXT),
    ("reason_code", TEXT),
    ("reason", TEXT),
    ("row_json", TEXT),
    ("source_file", TEXT),
    ("source_version", LONG),
    ("arrival_time", TIME),
    ("column_name", TEXT),
)

SOURCE_PROGRESS: Columns = (
    ("run_id", TEXT),
    ("source_partition", TEXT),
    ("max_event_time", TIME),
    ("last_arrival", TIME),
    ("idle", BOOL),
    ("unfinished_tick_start", TIME),
    ("watermark", TIME),
    ("clock", TIME),
    ("collected", TIME),
    ("carried_watermark", TIME),
)

OVERRIDES: Columns = (
    ("row_hash", TEXT),
    ("arrival_time", TIME),
    ("reason", TEXT),
    ("at", TIME),
    ("true_arrival", TIME),
)

# The columns of `late_events` that the engine adds: a column of the source with such a name is left out
# there.
LATE_EVENT_NAMES = frozenset(name for name, kind in columns_of(LATE_EVENTS) if kind)

PARTITIONED_BY: Mapping[str, tuple[str, ...]] = {
    "window_state": ("run_id",),
    "keyed_state": ("run_id",),
    "timers": ("run_id",),
    "source_progress": ("run_id",),
    "published": ("window_date",),
}

# The tables whose files a late element rewrites: only the files that hold its key group.
CLUSTERINGS: Mapping[str, Clustering] = {"published": Clustering("key_group")}

SNAPSHOT_TABLES = ("window_state", "keyed_state", "timers", "source_progress")
STAGED_TABLES = (*SNAPSHOT_TABLES, "panes", "late_events", "quarantine")
SIDE = "side_"


def side_table(tag: str) -> str:
    return f"{SIDE}{tag}"


def partitioned_by(table: str) -> tuple[str, ...]:
    return PARTITIONED_BY.get(table, ())


@dataclass(frozen=True)
class Shape:
    """What a pipeline adds to the tables: the names and types of its own columns.

    Attributes:
        keys: the key columns.
        results: the result columns of panes.
        published: those of `published` and `corrections`; None: the same.
        parts: the accumulator columns, `<result>__<part>`.
        source: all columns of the source.
        states: the columns of declared state with a SQL type, `<state>__value`.
        sides: tag → columns of each side output.
        windows: the columns that windows of the user's own class declare, beside window_start and window_end;
            None where windows are of no such class.
        stored: table → its columns in storage, where these are others than those of a first run: the pipeline
            has grown. Columns are only ever added at the end, so a row's content hash, in which null counts
            for nothing, stays the same.
    """

    keys: Columns
    results: Columns
    parts: Columns
    source: Columns
    states: Columns = ()
    sides: tuple[tuple[str, Columns], ...] = ()
    windows: Columns | None = None
    stored: tuple[tuple[str, Columns], ...] = ()
    published: Columns | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def result_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.results)

    @property
    def window_names(self) -> tuple[str, ...]:
        """The columns of a window: its bounds, and those that its class declares."""
        return ("window_start", "window_end", *(name for name, _ in self.windows or ()))


def staged_tables(shape: Shape) -> tuple[str, ...]:
    return (*STAGED_TABLES, *(side_table(tag) for tag, _ in shape.sides))


def table_columns(shape: Shape) -> dict[str, Columns]:
    """The columns of every table of a pipeline of this `shape`."""
    published_results = shape.results if shape.published is None else shape.published
    result = pa.struct([pa.field(name, kind) for name, kind in published_results])
    window = [*WINDOW.fields, *(pa.field(name, kind) for name, kind in shape.windows or ())]
    types = {**_TYPES, "result": result, "windows": pa.list_(pa.struct(window))}
    reserved_names = {*(name.lower() for name in shape.key_names), *LATE_EVENT_NAMES}
    source = tuple(column for column in shape.source if column[0].lower() not in reserved_names)

    shape_columns = {"KEYS": shape.keys, "WINDOWS": shape.windows or (), "RESULTS": shape.results}
    published_columns = {"RESULTS": published_results}

    def with_own(table: str, others: Mapping[str, Columns]) -> Columns:
        return _expand_columns(table, {**shape_columns, **others}, types)

    return {
        "runs": RUNS,
        "attempts": ATTEMPTS,
        **{
            name: (("run_id", TEXT), *columns)
            for name, columns in snapshot_columns(
                shape.keys, shape.parts, shape.states, shape.windows or ()
            ).items()
        },
        "source_progress": SOURCE_PROGRESS,
        "panes": with_own(PANES, {}),
        "late_events": with_own(LATE_EVENTS, {"SOURCE": source}),
        "quarantine": QUARANTINE,
        "published": with_own(PUBLISHED, published_columns),
        "corrections": with_own(CORRECTIONS, published_columns),
        "validations": VALIDATIONS,
        "overrides": OVERRIDES,
        **{side_table(tag): with_own(SIDE_OUTPUT, {"SIDE": columns}) for tag, columns in shape.sides},
        **dict(shape.stored),
    }


def _expand_columns(
    table: str, own_columns: Mapping[str, Columns], types: Mapping[str, pa.DataType]
) -> Columns:
    """The columns of a text of `stored_columns`, with a pipeline's own where it has a word in capitals."""
    return tuple(
        column
        for name, kind in columns_of(table)
        for column in (((name, types[kind]),) if kind else own_columns[name])
    )


def table_schemas(shape: Shape) -> dict[str, pa.Schema]:
    return {table: pa.schema(list(columns)) for table, columns in table_columns(shape).items()}
