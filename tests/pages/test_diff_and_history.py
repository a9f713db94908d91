"""The pages of differences and of histories show what the same questions answer elsewhere, whatever a key is
called.

A branch restates the second of two days: the key `a` has other values, and a key comes whose name is a
script.
"""

from pathlib import Path
from typing import Any

import pytest

from slackwater.inspection.changes.published_change import reason_of
from slackwater.inspection.changes.window_history import HistoryQuestion, history_of
from slackwater.inspection.inspection import Inspection
from slackwater.pages.app import create_app
from tests.pages.page_reader import PageReader
from tests.runs.world import Event, World, every_hour

SCRIPT = "<script>alert('k')</script>\x1b[2J"
FILE = "from tests.runs.world import DAILY as daily\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Not to be written."""
    world = World(tmp_path_factory.mktemp("diff") / "world")
    world.append(every_hour(0, 48))
    world.run(48)
    world.rewrite(24, 48, [*every_hour(24, 48, x=7), Event(30, 30.5, 900, key=SCRIPT)])
    assert world.backfill(24, 48, publish=False) is None
    return world


@pytest.fixture(scope="module")
def reader(world: World, tmp_path_factory: pytest.TempPathFactory) -> PageReader:
    file = tmp_path_factory.mktemp("pipelines") / "pipelines.py"
    file.write_text(FILE)
    return PageReader(create_app(str(world.folder), str(file)))


@pytest.fixture
def branch(world: World) -> str:
    return world.ledger.branches()[0].name


def test_main_against_a_branch_shows_what_its_publication_would_change(
    world: World, reader: PageReader, branch: str
) -> None:
    page = reader.page(f"/daily/diff?a=main&b={branch}")
    rows = page.table("Rows that differ").rows
    # A window fires when a row of an hour after its end has come: of the second day all but [46, 48).
    assert [row[0] for row in rows].count("a") == 11 and len(rows) == 12
    assert ["a", "2013-01-02 00:00–02:00", "total 2 → 14", "restatement"] in rows
    assert "<script>alert" not in page.source
    assert "\\x1b[2J" in page.text
    assert "1 row inserted, 11 rows updated in published, on 1 day." in page.text
    assert f"slackwater publish daily {branch}" in page.text
    figures = {row[0]: row[1:] for row in page.table("Figures of the runs side by side").rows}
    assert figures["rows read"] == ["24", "25", "+1"] and figures["to"][2] == "the same"
    assert world.main.seq == 2, "nothing was published"


def test_the_publication_of_a_branch_that_would_be_refused_is_not_offered(tmp_path: Path) -> None:
    world = World(tmp_path / "world", code="other code")
    world.append(every_hour(0, 72))
    world.run(48)
    world.backfill(24, 48, publish=False)
    [branch] = world.ledger.branches()
    (tmp_path / "pipelines.py").write_text(FILE)
    reader = PageReader(create_app(str(world.folder), str(tmp_path / "pipelines.py")))

    def text() -> str:
        return reader.page(f"/daily/diff?a=main&b={branch.name}").text

    assert f"slackwater publish daily {branch.name}" in text()
    assert "--as-of" not in text(), "main is as it was when the preview ended"
    world.run(72)
    assert f"slackwater publish daily {branch.name} --as-of {world.main.seq}" in text()
    world.code = "code"
    world.append(every_hour(72, 96))
    world.run(96)
    assert "can’t be published yet" in text() and "made by other code" in text()
    assert "slackwater publish" not in text() and f"slackwater branches drop daily {branch.name}" in text()


def test_every_link_of_a_diff_leads_to_a_page(reader: PageReader, branch: str) -> None:
    links = {*reader.page(f"/daily/diff?a=main&b={branch}").links, *reader.page("/daily/diff").links}
    assert any("history?key=%3Cscript" in link for link in links)
    for link in links:
        if not link.startswith("#"):
            reader.page(link)


def test_two_rows_of_the_ledger_show_what_changed_between_them(world: World, reader: PageReader) -> None:
    rows = world.table("corrections").read().to_pylist()
    page = reader.page("/daily/diff?a=1&b=2")
    assert len(page.table("Rows that differ").rows) == sum(row["seq"] == 2 for row in rows)
    assert reader.page("/daily/diff?a=2&b=1").table("Rows that differ") == page.table("Rows that differ")
    assert "No published row differs." in reader.page("/daily/diff?a=2&b=2").text
    of_branch = reader.page("/daily/diff?a=2&b=4")
    assert "has published nothing" in of_branch.text and of_branch.table("Figures of the runs side by side")
    assert reader.get("/daily/diff?a=2&b=nothing").status == 400


def test_two_pipelines_are_compared_day_by_day(reader: PageReader) -> None:
    page = reader.page("/-/diff?a=daily&b=daily")
    assert "Both have published the same on these days." in page.text
    assert reader.get("/-/diff?a=daily&b=nothing").status == 404


def test_a_history_says_the_same_as_its_verb_page_by_page(world: World, reader: PageReader) -> None:
    history = history_of(Inspection("daily", world.tables), HistoryQuestion(key="a", limit=None))
    rows = reader.page("/daily/history?key=a").table("Changes, the newest first").rows
    assert [(row[1], row[3]) for row in rows] == [
        (str(change.seq), reason_of(change)) for change in history.changes
    ]
    of_window = reader.page("/daily/history?key=a&start=2013-01-01T20:00").table("Changes, the newest first")
    [first] = of_window.rows
    assert [first[1], first[2], first[4]] == [
        "new: n 2, total 2",
        "fired with 2 rows when the watermark reached 2013-01-01 22:00",
        "first firing",
    ]
    of_run: list[Any] = reader.page("/daily/history?run=2").table("What row 2 has changed").rows
    assert len(of_run) == sum(change.seq == 2 for change in history.changes)
    assert "Name a key (k)" in reader.page("/daily/history").text
    assert reader.get("/daily/history?key=a&start=noon").status == 400
