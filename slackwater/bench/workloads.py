"""The workloads (a) to (j), as rules for making rows, and their rows: a function of workload, number of rows
and seed alone.

Works on whole columns of numpy and Arrow. Knows no contender, and of windows only their lengths.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.examples.auctions import EVERY_MS, events_arrived
from slackwater.examples.auctions import SOURCE as NEXMARK
from slackwater.examples.auctions import START as NEXMARK_START
from slackwater.windowing.times import to_ms

START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
TICK_MS, BOUND_MS = 1_000, 3_000
EVENTS = "sources/events"
# Of a workload within JSON: column → its expression in DuckDB's SQL.
FROM_JSON: Mapping[str, str] = MappingProxyType(
    {
        "key": "CAST(message ->> '$.tollgate.id' AS BIGINT)",
        "event_time": "epoch_ms(CAST(message ->> '$.at' AS BIGINT))",
        "value": "CAST(message ->> '$.toll' AS BIGINT)",
    }
)
TIME = pa.timestamp("us", tz="UTC")
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Rows of `keys` keys over `span_s` seconds of event time, and the windows that they go into.

    Attributes:
        pipeline: name of the pipeline that replays it, see `pipelines`.
        size_ms, slide_ms: of tumbling (equal) and sliding windows; for sessions `size_ms` is the gap.
        lateness_ms: allowed lateness.
        late_share, late_by_ms: share of rows that arrive late, and the range of their delays; the others
            arrive within 2 s.
        hot_share: share of rows that have key 0.
        text_keys: whether keys are strings.
        has_one_key: whether the project's windows are of all rows; others group by the one key of the rows.
        fires_every_ms: interval of a continuous trigger of the project's; 0 for the trigger at windows' ends.
        is_json: whether key, event time and value are within JSON text, from which who reads them takes them.
        repeats: how often `span_s` follows itself, each time with an equal part of the rows.
        function: name of the function in `slackwater.bench.own_code` that makes results of windows;
            empty for counts and sums.
        query: name of the Nexmark query, for which rows are Nexmark's events and `keys`, `span_s` and the
            shares mean nothing; empty for the other workloads.
    """

    name: str
    title: str
    pipeline: str
    keys: int
    span_s: int
    kind: Literal["tumbling", "sliding", "session"]
    size_ms: int
    slide_ms: int
    lateness_ms: int
    late_by_ms: tuple[int, int]
    late_share: float = 0.008
    hot_share: float = 0.0
    text_keys: bool = False
    has_one_key: bool = False
    fires_every_ms: int = 0
    is_json: bool = False
    repeats: int = 1
    function: str = ""
    query: str = ""

    @property
    def pipelines(self) -> str:
        return f"slackwater.bench.{'own_pipelines' if self.function else 'pipelines'}"

    @property
    def source(self) -> str:
        """Where the pipeline reads, below the warehouse."""
        return NEXMARK if self.query else EVENTS

    @property
    def start_ms(self) -> int:
        """Where its lineage begins."""
        return to_ms(NEXMARK_START) if self.query else START_MS


_MINUTE = Workload(
    name="b",
    title="1 M keys, tumbling 1 min",
    pipeline="bench_b",
    keys=1_000_000,
    span_s=600,
    kind="tumbling",
    size_ms=60_000,
    slide_ms=60_000,
    lateness_ms=60_000,
    late_by_ms=(30_000, 150_000),
)
_SECONDS = Workload(
    name="a",
    title="1 k keys, tumbling 10 s",
    pipeline="bench_a",
    keys=1_000,
    span_s=3_600,
    kind="tumbling",
    size_ms=10_000,
    slide_ms=10_000,
    lateness_ms=30_000,
    late_by_ms=(8_000, 60_000),
)
_ALL_ROWS = replace(
    _SECONDS, name="h", title="all rows, tumbling 10 s", pipeline="bench_h", keys=1, has_one_key=True
)
WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        workload.name: workload
        for workload in (
            _SECONDS,
            _MINUTE,
            Workload(
                name="c",
                title="10 k keys, sliding 10 s / 2 s",
                pipeline="bench_c",
                keys=10_000,
                span_s=600,
                kind="sliding",
                size_ms=10_000,
                slide_ms=2_000,
                lateness_ms=30_000,
                late_by_ms=(8_000, 60_000),
            ),
            Workload(
                name="d",
                title="100 k keys, sessions, gap 10 s",
                pipeline="bench_d",
                keys=100_000,
                span_s=1_000,
                kind="session",
                size_ms=10_000,
                slide_ms=0,
                lateness_ms=30_000,
                late_by_ms=(8_000, 60_000),
            ),
            replace(
                _MINUTE, name="e", title="1 M string keys, tumbling 1 min", pipeline="bench_e", text_keys=True
            ),
            replace(_MINUTE, name="f", title="one key with half the rows, tumbling 1 min", hot_share=0.5),
            replace(_MINUTE, name="g", title="10 M keys, tumbling 1 min", keys=10_000_000),
            _ALL_ROWS,
            replace(
                _ALL_ROWS,
                name="i",
                title="all rows, tumbling 1 min that fires every 10 s",
                pipeline="bench_i",
                size_ms=60_000,
                slide_ms=60_000,
                late_by_ms=(60_000, 180_000),
                fires_every_ms=10_000,
            ),
            replace(
                _SECONDS,
                name="j",
                title="1 k keys within JSON, tumbling 10 s",
                pipeline="bench_j",
                is_json=True,
            ),
        )
    }
)


def left_open(workload: Workload) -> Workload:
    """The same rows in windows so long that none fires: at the end one window of each key is open."""
    return replace(workload, pipeline="bench_open", size_ms=3_600_000, slide_ms=3_600_000)


def parts_of(workload: Workload, rows: int, parts: int) -> Iterator[pa.Table]:
    """About `rows` rows in order of arrival, as `parts` tables of about equal size."""
    if workload.query:
        bounds = [
            NEXMARK_START + timedelta(milliseconds=EVERY_MS * (rows * i // parts)) for i in range(parts + 1)
        ]
        yield from (events_arrived(start, end) for start, end in pairwise(bounds))
        return
    for repeat in range(workload.repeats):
        table = rows_of(workload, rows // workload.repeats, seed=1 + repeat, repeat=repeat)
        ends = [table.num_rows * i // parts for i in range(parts + 1)]
        for start, end in pairwise(ends):
            part = table.slice(start, end - start)
            yield _within_json(part) if workload.is_json else part


def _within_json(rows: pa.Table) -> pa.Table:
    """The rows with key, event time (ms) and value within the JSON text `message`."""
    event_ms = rows.column("event_time").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    key, time, value = (
        column.cast(pa.string()) for column in (rows.column("key"), event_ms, rows.column("value"))
    )
    pieces = (
        '{"tollgate": {"id": ',
        key,
        ', "lane": 2}, "at": ',
        time,
        ', "toll": ',
        value,
        ', "currency": "EUR"}',
    )
    message = pc.binary_join_element_wise(*pieces, "")
    return rows.select(["arrival_time", "row"]).append_column("message", message)


def rows_of(workload: Workload, rows: int, seed: int = 1, repeat: int = 0) -> pa.Table:
    """About `rows` rows of the repeat of that number, in order of arrival: key, event_time, arrival_time,
    value (0 to 999), row (its position, those of earlier repeats counted). Rows that are late arrive among
    those of the next repeat.

    With fewer rows the span shrinks, so that a window holds as many rows as with 20 million; it never shrinks
    below five windows.
    """
    random = np.random.default_rng(seed)
    key, timestamp = (
        _sessions(workload, rows, random) if workload.kind == "session" else _steady(workload, rows, random)
    )
    rows = len(key)
    delay = random.integers(0, 2_000, rows)
    late = random.random(rows) < workload.late_share
    delay[late] = random.integers(*workload.late_by_ms, int(late.sum()))
    arrival = timestamp + delay
    order = np.argsort(arrival, kind="stable")
    if repeat:
        later_ms = repeat * _span_ms(workload, rows)
        timestamp, arrival = timestamp + later_ms, arrival + later_ms
    return pa.table(
        {
            "key": _keys(workload, key[order]),
            "event_time": pa.array(timestamp[order] * 1000).cast(TIME),
            "arrival_time": pa.array(arrival[order] * 1000).cast(TIME),
            "value": pa.array(random.integers(0, 1_000, rows)),
            "row": pa.array(np.arange(rows) + repeat * rows),
        }
    )


def _span_ms(workload: Workload, rows: int) -> int:
    return min(workload.span_s * 1_000, max(5 * workload.size_ms, workload.span_s * rows // 20_000))


def _steady(workload: Workload, rows: int, random: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Keys and times (ms) of rows that come at an even rate."""
    timestamp = START_MS + (np.sort(random.random(rows)) * _span_ms(workload, rows)).astype(np.int64)
    key = random.integers(0, workload.keys, rows)
    key[random.random(rows) < workload.hot_share] = 0
    return key, timestamp


def _sessions(workload: Workload, rows: int, random: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Keys and times (ms) with a pause longer than the gap after about every twentieth row of a key."""
    keys = max(1, min(workload.keys, rows // 20))
    per_key = rows // keys
    pauses = random.exponential(1_500, (keys, per_key))
    breaks = random.random((keys, per_key)) < 0.05
    pauses[breaks] = workload.size_ms + random.exponential(60_000, int(breaks.sum()))
    pauses[:, 0] = random.random(keys) * 60_000
    return np.repeat(np.arange(keys), per_key), START_MS + np.cumsum(pauses, axis=1).astype(np.int64).ravel()


def _keys(workload: Workload, numbers: Int64s) -> pa.Array:
    if not workload.text_keys:
        return pa.array(numbers)
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise("user", digits, "-")
