"""The page of a pipeline shows its runs as the tables have them: in plots, in their numbers, and as a graph
with branches.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slackwater.readable import duration_text, number_text
from tests.integration.stored import EPOCH, StoredTables
from tests.pages.page_reader import PageReader, ReadPage


@pytest.fixture(scope="module")
def page(pages: PageReader) -> ReadPage:
    return pages.page("/departures")


@pytest.fixture(scope="module")
def runs(replayed: Path) -> list[dict[str, Any]]:
    """The runs of main, as any reader of Delta sees them."""
    return [row for row in StoredTables(replayed, "departures").ledger() if row["kind"] == "run"]


def traces(page: ReadPage, plot: str) -> dict[str, Any]:
    return {trace["name"]: trace for trace in page.figures[plot]["data"]}


def test_plots_show_the_figures_of_the_ledger(page: ReadPage, runs: list[dict[str, Any]]) -> None:
    rows, firings, state = (traces(page, name) for name in ("rows", "firings", "state"))
    starts = [run["slice_start"] for run in runs]
    for trace, column in (
        (rows["read"], "rows_read"),
        (rows["too late"], "rows_late"),
        (rows["quarantined"], "rows_quarantined"),
        (firings["fired"], "windows_fired"),
        (firings["fired again"], "windows_refired"),
    ):
        assert trace["x"] == starts
        assert trace["y"] == [run[column] for run in runs]
    assert state["open windows"]["y"] == [run["windows_open"] for run in runs]
    assert state["pending timers"]["y"] == [run["timers_pending"] for run in runs]
    lag = traces(page, "lag")["watermark"]
    hours = [(run["slice_end"] - run["watermark_out"]) / 3_600_000 for run in runs]
    assert lag["y"] == pytest.approx(hours)


def test_source_partitions_are_those_that_held_the_watermark_back(
    page: ReadPage, replayed: Path, runs: list[dict[str, Any]]
) -> None:
    by_run: dict[str, dict[str, int]] = {}
    for row in StoredTables(replayed, "departures").rows("source_progress"):
        if row["clock"] is None and row["max_event_time"] is not None and not row["idle"]:
            by_run.setdefault(row["run_id"], {})[row["source_partition"]] = row["max_event_time"]
    slowest = [min(by_run[run["run_id"]].items(), key=lambda item: (item[1], item[0]))[0] for run in runs]
    assert [row[-1] for row in page.table("Watermark behind arrivals").rows] == slowest


def test_numbers_stand_below_each_plot(page: ReadPage, runs: list[dict[str, Any]]) -> None:
    assert page.table("Rows of each run").rows == [
        [
            number_text(run["seq"]),
            f"{datetime.fromtimestamp(run['slice_start'] / 1000, EPOCH.tzinfo):%Y-%m-%d} 00:00",
            *(number_text(run[name]) for name in ("rows_read", "rows_late", "rows_quarantined")),
        ]
        for run in runs
    ]
    phases = page.table("Seconds of each run by phase")
    assert phases.headings[2:] == [name for name in dict(runs[0]["phase_seconds"]) if name != "session"] + [
        "session"
    ]
    replay = phases.headings.index("replay")
    assert [row[replay] for row in phases.rows] == [
        duration_text(1000 * dict(run["phase_seconds"])["replay"]) for run in runs
    ]


def test_checks_are_marked_run_by_run(page: ReadPage, replayed: Path, runs: list[dict[str, Any]]) -> None:
    checks = StoredTables(replayed, "departures").rows("validations")
    assert len(traces(page, "checks")["passed"]["x"]) == sum(row["passed"] for row in checks)
    table = page.table("Results of the checks")
    assert {row[0] for row in table.rows} == {row["expectation"] for row in checks}
    assert {row[3] for row in table.rows} == {"0"}


def test_the_lineage_is_drawn_with_its_branch(page: ReadPage, runs: list[dict[str, Any]]) -> None:
    titles = re.findall(r"<title>([^<]*)</title>", page.source)
    for run in runs:
        assert any(
            title.startswith(f"run {run['seq']}, ") and f"{run['rows_read']:,} rows" in title
            for title in titles
        )
        assert f"/departures/runs/{run['seq']}" in page.links
    assert "try (not published)" in titles


def test_only_the_newest_runs_are_shown_where_fewer_are_asked_for(
    pages: PageReader, runs: list[dict[str, Any]]
) -> None:
    page = pages.page("/departures?last=2")
    assert [row[0] for row in page.table("Live runs, newest first").rows] == ["5", "4"]
    assert traces(page, "rows")["read"]["y"] == [run["rows_read"] for run in runs[-2:]]


def test_the_head_of_the_page_says_how_it_is(page: ReadPage, runs: list[dict[str, Any]]) -> None:
    assert "green" in page.text
    assert "slackwater plan departures" in page.text
    lag = duration_text(runs[-1]["slice_end"] - runs[-1]["watermark_out"])
    assert lag in page.text


def test_the_first_page_lists_each_pipeline_with_its_health(
    pages: PageReader, runs: list[dict[str, Any]]
) -> None:
    page = pages.page("/")
    (row,) = page.table("Pipelines").rows
    assert row[:2] == ["departures", "green"]
    assert row[5] == number_text(runs[-1]["windows_open"])
    assert {f"/departures/runs/{run['seq']}" for run in runs} <= set(page.links)
    assert "slackwater health" in page.text
    assert "slackwater run turnarounds" in page.text, "it has never run"
