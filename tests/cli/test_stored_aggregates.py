"""For every aggregate both engines leave the same rows and hashes in real tables, and readers without our
packages see its parts.
"""

from pathlib import Path

import pytest

from tests.integration.command import here
from tests.integration.stored import StoredTables

FILE = """
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater import agg

{name} = replace(
    departures,
    name="{name}",
    expect=[],
    select={{
        "late": agg.count(where="dep_delay > 15 AND carrier IN ('AA', 'UA')"),
        "spread": agg.variance("dep_delay"),
        "deviation": agg.stddev("dep_delay"),
        "opening": agg.first("tailnum"),
        "closing": agg.last("event_time", by="arrival"),
        "carriers": agg.count_distinct("carrier"),
        "days": agg.count_distinct("arrival_date"),
        "aircraft": agg.approx_distinct("tailnum"),
        "typical": agg.approx_quantile("dep_delay", 0.5),
    }},
)
"""


def replayed(engine: str, warehouse: Path) -> StoredTables:
    """Two days in three runs, so that windows are parked and restored."""
    name = f"all_{engine}"
    file = warehouse / f"{name}.py"
    file.write_text(FILE.format(name=name))
    for day in ("2013-01-02T05:00", "2013-01-03"):
        assert (
            here("run", name, "--to", day, "--engine", engine, "--warehouse", warehouse, "--pipelines", file)
            == 0
        )
    return StoredTables(warehouse, name)


@pytest.mark.slow
def test_both_engines_store_the_same_panes_and_parts(warehouse: Path, without_spark: None) -> None:
    columnar, operator = replayed("columnar", warehouse), replayed("operator", warehouse)
    hashes = [
        [(run["state_hash"], run["output_hash"]) for run in stored.ledger()]
        for stored in (columnar, operator)
    ]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 3

    parked = columnar.parked("window_state")
    assert parked
    for window in parked:
        assert window["carriers__values"] == sorted(window["carriers__values"])
        assert sum(item["count"] for item in window["typical__buckets"]) == window["spread__count"]
        assert window["spread__squares"] == pytest.approx(window["deviation__squares"])
    panes = columnar.live("panes")
    assert any(pane["carriers"] > 1 for pane in panes)
    assert all(
        pane["deviation"] == pytest.approx(pane["spread"] ** 0.5)
        for pane in panes
        if pane["spread"] is not None
    )
    assert all(
        pane["aircraft"] == pytest.approx(pane["elements"], abs=3) for pane in panes if pane["elements"] < 30
    )
