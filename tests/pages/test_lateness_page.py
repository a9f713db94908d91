"""The page of late rows shows what `late advise` says, and its plots show the rows that are stored."""

import json
from pathlib import Path

import pytest

from slackwater.inspection.inspection import Inspection
from slackwater.pages.app import create_app
from slackwater.pages.lateness_plots import late_row_plots
from tests.integration.command import here
from tests.integration.stored import StoredTables
from tests.pages.page_reader import PageReader
from tests.warehouses.earlier import unpacked


def test_the_page_shows_the_numbers_of_the_verb(
    pages: PageReader, replayed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert here("late", "advise", "departures", "--warehouse", replayed, "--output", "json") == 0
    advice = json.loads(capsys.readouterr().out)
    page = pages.page("/departures/late")
    assert advice["suggestion"] in page.text and "Rows saved are exact." in page.text
    rows = page.table("What another allowed lateness would have done").rows
    assert [(row[1], row[2], row[5]) for row in rows] == [
        (price["note"], f"{price['late_rows']:,}", f"{price['windows_refired']:,}")
        for price in advice["lateness"]
    ]
    rows = page.table("How complete windows would have been under another bound").rows
    assert [row[6] for row in rows] == [f"{price['late_rows']:,}" for price in advice["bound"]]


def test_its_plots_show_every_row_that_came_late(pages: PageReader, replayed: Path) -> None:
    figures = pages.page("/departures/late").figures
    stored = StoredTables(replayed, "departures")
    late_panes = [row for row in stored.live("panes") if row["kind"] == "late"]
    taken, late = (sum(trace["y"]) for trace in figures["lateness"]["data"])
    assert (taken, late) == (len(late_panes), len(stored.live("late_events")))
    assert figures["lateness"]["layout"]["shapes"][0]["x0"] == 4, "the allowed lateness, in hours"
    assert set(figures) == {"lateness", "price", "completeness", "bounds"}


def test_the_plots_of_the_newest_runs_alone(replayed: Path, tmp_path: Path) -> None:
    stored = StoredTables(replayed, "departures")
    lateness, completeness = late_row_plots(Inspection.of("departures", str(replayed)), 2)
    newest = [run["run_id"] for run in sorted(stored.rows("runs"), key=lambda run: run["seq"])][3:5]
    late = [row for row in stored.rows("late_events") if row["run_id"] in newest]
    assert sum(lateness.traces[1]["y"]) == len(late) > 0
    assert sum(completeness.traces[0]["y"]) > 0
    assert late_row_plots(Inspection.of("totals", str(unpacked(tmp_path))), 30) == []


def test_fewer_runs_can_be_looked_at(pages: PageReader) -> None:
    assert "in the newest 2 of 5 runs" in pages.page("/departures/late?last=2").text
    assert pages.get("/departures/late?last=0").status in (400, 422)


def test_a_reader_chooses_a_lateness_and_a_bound(pages: PageReader) -> None:
    page = pages.page("/departures/late?lateness_ms=2700000&bound_ms=")
    rows = page.table("What another allowed lateness would have done").rows
    assert [row[0] for row in rows if row[1] == "chosen"] == ["45 minutes"]
    page = pages.page("/departures/late?lateness_ms=&bound_ms=64800000")
    rows = page.table("How complete windows would have been under another bound").rows
    assert [row[0] for row in rows if row[1] == "chosen"] == ["18 hours"]
    assert pages.get("/departures/late?bound_ms=soon").status in (400, 422)


def test_a_pipeline_without_windows_has_no_late_rows(tmp_path: Path) -> None:
    page = PageReader(create_app(str(unpacked(tmp_path)), None)).page("/totals/late")
    assert "has no windows, so no row is ever too late" in page.text and page.figures == {}
