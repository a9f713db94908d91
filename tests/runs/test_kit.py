"""The kit that replays rows through a declared pipeline: what it gives was counted by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from slackwater import DeltaSource, ParquetSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
from slackwater.errors import UsageError
from slackwater.pipelines import expect
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.testing import replay
from slackwater.windowing import ProcessWindowFunction

pytestmark = pytest.mark.first_fast

HOUR = timedelta(hours=1)
VISITS = Pipeline(
    name="visits",
    source=DeltaSource("s3://lake/visits", event_time="at", arrival_time="seen"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(timedelta(minutes=1)),
    key_by="page",
    window=TumblingEventTimeWindows.of(HOUR),
    allowed_lateness=HOUR,
    select={"n": agg.count(), "total": agg.sum("x")},
    start="2024-01-01",
)


def at(hour: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + hour * HOUR


def row(hour: float, seen: float, page: str = "a", x: int = 1) -> dict[str, Any]:
    return {"at": at(hour).replace(tzinfo=None), "seen": at(seen), "page": page, "x": x}


ROWS = [
    row(0.1, 0.2, x=5),
    row(0.5, 0.6, "b"),
    row(1.1, 1.2, x=7),
    row(0.2, 1.5, x=3),  # late, within the allowed lateness
    row(2.5, 2.6),
    row(0.3, 2.9),  # too late
    {**row(3, 3.5), "at": None},
]


def results(rows: pa.Table) -> list[tuple]:
    return [
        (row["page"], (row["window_start"] - at(0)) / HOUR, row["n"], row["total"])
        for row in rows.to_pylist()
    ]


@pytest.mark.parametrize(
    "source", [VISITS.source, ParquetSource("lake/visits", event_time="at", arrival_time="seen")]
)
def test_slices_give_what_their_runs_would(source: Any) -> None:
    pipeline = replace(VISITS, source=source)
    result = replay(pipeline, ROWS, slices=["2024-01-01T01:30", at(4)])
    assert results(result.published) == [("a", 0, 2, 8), ("b", 0, 1, 1), ("a", 1, 1, 7)]
    changes = [(row["seq"], row["op"], row["cause"], row["page"]) for row in result.corrections.to_pylist()]
    assert changes == [
        (1, "insert", "first", "a"),
        (1, "insert", "first", "b"),
        (2, "update", "late", "a"),
        (2, "insert", "first", "a"),
    ]
    assert results(result.panes) == [("a", 0, 1, 5), ("a", 0, 2, 8), ("b", 0, 1, 1), ("a", 1, 1, 7)]
    [late] = result.late.to_pylist()
    assert (late["event_time"], late["late_by_ms"]) == (
        at(0.3),
        7_919_999,
    )  # the watermark was 2.5 h − 1 ms
    [unusable] = result.quarantine.to_pylist()
    assert unusable["reason_code"] == "null_event_time"
    [window] = [row for row in result.open_windows.to_pylist() if row["window_start"] == at(2)]
    assert (window["elements"], window["firings"], window["total__sum"]) == (1, 0, 1)


def test_all_rows_are_one_slice_and_the_end_of_all_windows() -> None:
    result = replay(VISITS, pa.Table.from_pylist(ROWS), closes=True)
    assert results(result.published) == [("a", 0, 2, 8), ("b", 0, 1, 1), ("a", 1, 1, 7), ("a", 2, 1, 1)]
    assert result.open_windows.num_rows == 0


def test_several_sources_are_called_by_their_names() -> None:
    other = DeltaSource("lake/others", event_time="at", arrival_time="seen")
    pipeline = replace(VISITS, source=[VISITS.sources[0], other])
    result = replay(pipeline, {"visits": ROWS[:2], "others": [row(0.7, 0.8, x=4)]}, closes=True)
    assert results(result.published) == [("a", 0, 2, 9), ("b", 0, 1, 1)]
    with pytest.raises(UsageError, match="visits, others"):
        replay(pipeline, ROWS)


def test_side_outputs_and_expectations_are_those_of_runs() -> None:
    class Sides(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            values = [element.x for element in elements]
            context.output("seen", {"most": max(values)})
            yield (len(values), sum(values))

    settings: dict[str, Any] = {"select": {}, "process": Sides(), "output": "n long, total long"}
    pipeline = replace(VISITS, **settings, side_outputs={"seen": "most long"}, columns=["x"])
    result = replay(pipeline, ROWS[:3], closes=True)
    assert results(result.published) == [("a", 0, 1, 5), ("b", 0, 1, 1), ("a", 1, 1, 7)]
    assert [row["most"] for row in result.sides["seen"].to_pylist()] == [5, 1, 7]
    with pytest.raises(SliceRejected, match="total"):
        replay(replace(VISITS, expect=[expect.between("total", max=6)]), ROWS, closes=True)
