"""The page of a run shows what the tables say of it: its account, its checks, its corrections, and the run
before it.
"""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slackwater.inspection.runs.run_account import Account, AccountPart
from slackwater.pages.app import create_app
from slackwater.pages.drawing.flow_drawing import flow_drawing
from slackwater.readable import number_text
from tests.integration.stored import StoredTables
from tests.pages.page_reader import PageReader
from tests.warehouses.earlier import PIPELINES, unpacked


@pytest.fixture(scope="module")
def ledger(replayed: Path) -> dict[int, dict[str, Any]]:
    """The ledger's rows by seq, as any reader of Delta sees them."""
    return {row["seq"]: row for row in StoredTables(replayed, "departures").ledger()}


def test_rows_and_windows_are_accounted_for(pages: PageReader, ledger: dict[int, dict[str, Any]]) -> None:
    run, before = ledger[4], ledger[3]
    text = pages.page("/departures/runs/4").text
    assert (
        f"{run['rows_read']:,} read = {run['rows_accepted']:,} accepted + {run['rows_late']:,} too late + "
        f"{run['rows_unassigned']:,} unassigned + {run['rows_quarantined']:,} quarantined + "
        f"{run['rows_filtered']:,} filtered + {run['rows_duplicate']:,} duplicate"
    ) in text
    assert (
        f"{before['windows_open']:,} open before + {run['windows_opened']:,} opened = "
        f"{run['windows_open']:,} open after + {run['windows_merged']:,} merged away + "
        f"{run['windows_cleaned']:,} cleaned up"
    ) in text
    assert "are not accounted for" not in text


def test_checks_inputs_and_phases_are_those_of_the_tables(
    pages: PageReader, replayed: Path, ledger: dict[int, dict[str, Any]]
) -> None:
    page, run = pages.page("/departures/runs/4"), ledger[4]
    checks = [
        row
        for row in StoredTables(replayed, "departures").rows("validations")
        if row["run_id"] == run["run_id"]
    ]
    assert [row[:2] for row in page.table("Checks").rows] == [
        [row["expectation"], "passed"] for row in checks
    ]
    (source,) = run["inputs"]
    assert page.table("Inputs").rows[0][:3] == [
        source["table"],
        str(source["version"]),
        number_text(source["rows"]),
    ]
    (bars,) = page.figures["phases"]["data"]
    phases = dict(run["phase_seconds"])
    seconds = {phase: x / 1000 for phase, x in zip(bars["y"], bars["x"], strict=True)}
    assert seconds == pytest.approx(phases)
    assert [row[0] for row in page.table("Time by phase").rows] == list(phases)


def test_corrections_are_counted_by_cause(pages: PageReader, replayed: Path) -> None:
    counts = Counter(
        (row["cause"], row["op"])
        for row in StoredTables(replayed, "departures").rows("corrections")
        if row["seq"] == 4
    )
    page = pages.page("/departures/runs/4")
    rows = {row[0]: row[1:] for row in page.table("Changes of published rows by cause").rows}
    names = {"first": "first firing", "late": "late row"}
    assert rows == {
        names[cause]: [number_text(counts[cause, op]) for op in ("insert", "update", "withdraw")]
        for cause in {cause for cause, _ in counts}
    }
    assert "/departures/history?run=4" in page.links


def test_a_run_leads_to_those_before_and_after_it(pages: PageReader) -> None:
    first, middle, last = (pages.page(f"/departures/runs/{seq}") for seq in (1, 3, 5))
    assert {"/departures/runs/2", "/departures/runs/4"} <= set(middle.links)
    assert "/departures/runs/0" not in first.links and "/departures/runs/6" not in last.links
    assert middle.table("Figures of the runs side by side").headings == ["Figure", "2", "3", "Difference"]
    assert "slackwater verify departures 3" in middle.text


def test_a_row_that_is_no_run_says_what_it_is(pages: PageReader) -> None:
    page = pages.page("/departures/runs/6")  # the fork
    assert "Fork 6" in page.text
    assert not page.figures


def test_runs_of_an_earlier_format_have_their_page(tmp_path: Path) -> None:
    reader = PageReader(create_app(str(unpacked(tmp_path)), str(PIPELINES)))
    page = reader.page("/readings/runs/2")
    assert "read = " in page.text and "are not accounted for" not in page.text
    assert "format 1" in page.text


@pytest.mark.parametrize(
    ("amounts", "heights"),
    [((5, 0, 0), [144.0]), ((1, 1, 2), [36.0, 36.0, 72.0]), ((999_998, 1, 1), [144.0, 3.0, 3.0])],
)
def test_bands_are_to_scale_and_do_not_overlap(amounts: tuple[int, ...], heights: list[float]) -> None:
    parts = [AccountPart(name, amount) for name, amount in zip("abc", amounts, strict=True)]
    account = Account([AccountPart("all", sum(amounts))], parts)
    drawing = flow_drawing(account, {name: name for name in ("a", "b", "c", "all")}, "rows")
    bars = [
        (int(x), float(top), float(height))
        for x, top, height in re.findall(
            r'<rect [^>]*x="(\d+)" y="([\d.]+)" width="10" height="([\d.]+)"', drawing
        )
    ]
    rightmost = max(x for x, _, _ in bars)
    outcomes = [(top, height) for x, top, height in bars if x == rightmost]
    assert [height for _, height in outcomes] == pytest.approx(heights, abs=0.1)
    assert all(top + height < next_top for (top, height), (next_top, _) in pairwise(outcomes))
