"""Which late firings a coarser log leaves out, on panes written by hand."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.tables.schemas import TIME
from slackwater.windowing import EventTimeSessionWindows, WatermarkStrategy

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Fired:
    key: str
    firing: int
    kind: str
    at: int  # arrival of what fired it; of an on-time firing the tick's end
    ordinal: int = 0


PANES = [
    Fired("a", 1, "on_time", 100),
    Fired("a", 2, "late", 110),
    Fired("a", 3, "late", 120),
    Fired("b", 1, "late", 120, 0),
    Fired("b", 1, "late", 120, 1),
    Fired("a", 4, "late", 160),
    Fired("a", 5, "withdrawn", 170),
    Fired("b", 2, "late", 149, 0),
    Fired("b", 2, "late", 149, 1),
    Fired("b", 3, "late", 150),
]


def firings_left(late_refires: str) -> list[tuple[str, int, int]]:
    pipeline = Pipeline(
        name="p",
        source=DeltaSource("t", event_time="e", arrival_time="a"),
        watermarks=WatermarkStrategy.monotonous().with_interval(timedelta(milliseconds=50)),
        key_by="key",
        window=EventTimeSessionWindows.with_gap(timedelta(seconds=1)),
        select={"n": agg.count()},
        start="1970-01-01",
        late_refires=late_refires,
    )

    def time(ms: int) -> datetime:
        return EPOCH + timedelta(milliseconds=ms)

    rows = [
        {
            "key": pane.key,
            "window_start": time(0),
            "window_end": time(90),
            "firing": pane.firing,
            "ordinal": pane.ordinal,
            "kind": pane.kind,
            "tick_end": time(pane.at) if pane.kind == "on_time" else None,
            "cause_arrival": None if pane.kind == "on_time" else time(pane.at),
        }
        for pane in PANES
    ]
    times = [(name, TIME) for name in ("window_start", "window_end", "tick_end", "cause_arrival")]
    columns = [("key", pa.string()), ("firing", pa.int64()), ("ordinal", pa.int64()), ("kind", pa.string())]
    panes = drop_replaced_refires(pa.Table.from_pylist(rows, schema=pa.schema([*columns, *times])), pipeline)
    return [(row["key"], row["firing"], row["ordinal"]) for row in panes.to_pylist()]


@pytest.mark.parametrize(
    ("late_refires", "expected_firings"),
    [
        ("element", [(pane.key, pane.firing, pane.ordinal) for pane in PANES]),
        ("tick", [("a", 1, 0), ("a", 3, 0), ("a", 5, 0), ("b", 2, 0), ("b", 2, 1), ("b", 3, 0)]),
        ("run", [("a", 1, 0), ("a", 5, 0), ("b", 3, 0)]),
    ],
)
def test_the_last_late_firing_of_a_window_is_kept_with_all_its_rows(
    late_refires: str, expected_firings: list[tuple[str, int, int]]
) -> None:
    assert firings_left(late_refires) == expected_firings
