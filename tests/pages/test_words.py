"""What pages say: the zone of their times, what they are as of, commands that work as printed, and words that
mean one thing.
"""

import html.parser
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from slackwater.pages.app import create_app
from slackwater.pages.drawing.plots import duration_unit
from slackwater.pages.drawing.table_view import PageColumn, TableView, html_of
from slackwater.pages.frame.directions import isolate
from slackwater.pages.frame.static_files import FOLDER
from tests.integration.stored import StoredTables
from tests.pages.page_reader import PageReader, ReadPage
from tests.runs.world import World, every_hour

PAGES = (
    "/",
    "/departures",
    "/departures/runs/3",
    "/departures/state/windows",
    "/departures/late",
    "/departures/sql",
    "/departures/diff?a=1&b=2",
    "/departures/history?key=JFK",
    "/departures/window",
    "/departures/runs/99",
)


@pytest.fixture(scope="module")
def page_at(pages: PageReader) -> Callable[[str], ReadPage]:
    """Gives the page of a path, which is made once for all tests."""
    return cache(pages.get)


@pytest.fixture(scope="module")
def restated(tmp_path_factory: pytest.TempPathFactory) -> PageReader:
    """The pages of four days, of which the second was restated: the newest ledger row publishes it."""
    world = World(tmp_path_factory.mktemp("restated") / "world")
    world.append(every_hour(0, 96))
    for end in (24, 48, 72, 96):
        world.run(end)
    world.rewrite(24, 48, every_hour(24, 48, x=7))
    row = world.backfill(24, 48)
    assert row is not None and row.kind == "publish"
    file = tmp_path_factory.mktemp("pipelines") / "pipelines.py"
    file.write_text("from tests.runs.world import DAILY as daily\n")
    return PageReader(create_app(str(world.folder), str(file)))


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_that_its_times_are_utc(page_at: Callable[[str], ReadPage], path: str) -> None:
    assert "Times are UTC" in page_at(path).text


@pytest.mark.parametrize("path", ["/daily/state/windows", "/daily/sql"])
def test_a_page_as_of_a_publication_says_so_and_where_the_lineage_ends(
    restated: PageReader, path: str
) -> None:
    text = restated.page(path).text
    assert "as of publication " in text and "up to 2013-01-05 00:00" in text
    assert "as of run 2, up to 2013-01-03 00:00" in restated.page(f"{path}?run=2").text


def test_a_publication_is_called_so_on_its_page(restated: PageReader) -> None:
    history = restated.page("/daily/history?key=a")
    publications = [link for link in history.links if link.startswith("/daily/runs/")]
    assert any("Publication " in restated.page(link).text for link in publications)


def test_forms_have_a_time_of_the_pipeline_as_their_example(restated: PageReader, pages: PageReader) -> None:
    for path in ("/daily", "/daily/window", "/daily/state/windows", "/daily/history"):
        assert 'placeholder="2013-01-0' in restated.page(path).source
        assert 'placeholder="2013-01-02 06:00"' not in restated.page(path).source
    assert 'placeholder="2013-01-05 00:00"' in pages.page("/departures").source


def test_commands_name_the_warehouse_and_the_pipelines_that_the_environment_gave(
    replayed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from slackwater.examples.departures import departures\n")
    monkeypatch.setenv("SLACKWATER_WAREHOUSE", str(replayed))
    monkeypatch.setenv("SLACKWATER_PIPELINES", str(file))
    text = PageReader(create_app(None, None, examples=False)).page("/departures").text
    assert f"slackwater plan departures --warehouse {replayed} --pipelines {file}" in text


def test_head_answers_like_get_without_a_body(pages: PageReader, page_at: Callable[[str], ReadPage]) -> None:
    for path in (*PAGES, "/-/static/site.css", "/departures/state/windows/file.csv"):
        full, head = page_at(path), pages.client.head(path)
        assert (head.status_code, head.content) == (full.status, b"")
        assert head.headers["content-type"] == full.headers["content-type"]


def test_html_is_compressed(pages: PageReader) -> None:
    answer = pages.client.get("/departures", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(answer.content) / 3


def test_tables_have_a_word_above_each_column_and_headings_skip_no_level(
    page_at: Callable[[str], ReadPage],
) -> None:
    for path in PAGES:
        page = page_at(path)
        assert all(heading for table in page.tables for heading in table.headings), path
        levels = _Levels()
        levels.feed(page.source)
        assert levels.levels[0] == 1, path
        steps = zip(levels.levels, levels.levels[1:], strict=False)
        assert all(after <= before + 1 for before, after in steps), (path, levels.levels)


class _Levels(html.parser.HTMLParser):
    """The levels of the headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("h1", "h2", "h3", "h4"):
            self.levels.append(int(tag[1]))


def test_without_javascript_a_sentence_stands_for_the_plots(pages: PageReader) -> None:
    assert "<noscript>" in pages.page("/departures").source
    assert "<noscript>" not in pages.page("/departures/history?key=JFK").source


def test_one_cause_has_one_name(restated: PageReader, pages: PageReader) -> None:
    causes: set[str] = set()
    for reader, path in ((restated, "/daily/history?key=a"), (pages, "/departures/history?key=JFK")):
        causes |= {row[-1] for row in reader.page(path).table("Changes, the newest first").rows}
    assert {"first firing", "late row", "restatement"} <= causes
    assert not causes & {"first", "fired", "late", "late rows"}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("JFK, 7", "JFK, 7"),
        ("a < b", "a &lt; b"),
        ("daily · שלום (עולם) · 2013", "daily · <bdi>שלום (עולם</bdi>) · 2013"),
        ("--key 'مرحبا' --window 2013", "--key &#39;<bdi>مرحبا</bdi>&#39; --window 2013"),
    ],
)
def test_what_is_written_from_right_to_left_moves_nothing_beside_it(text: str, written: str) -> None:
    assert isolate(text) == written
    table = TableView(caption="t", columns=[PageColumn("key", "key")], rows=[(text,)])
    assert f"<td>{written}</td>" in html_of(table)


def test_a_long_text_takes_one_line_and_is_seen_whole_under_the_pointer() -> None:
    text = 'carrier "EV" ' * 30
    cell = html_of(TableView(caption="t", columns=[PageColumn("row", "code")], rows=[(text,)]))
    assert f'<td class="code" title="{escape(text)}">' in cell
    style = (FOLDER / "site.css").read_text()
    assert "td.code { max-width: 60ch; overflow: hidden; text-overflow: ellipsis; }" in style


@pytest.mark.parametrize(
    ("minutes", "unit"), [(20, "minutes"), (119, "minutes"), (120, "hours"), (4000, "days"), (0.5, "seconds")]
)
def test_an_axis_of_durations_is_in_a_unit_of_which_they_are_a_few(minutes: float, unit: str) -> None:
    assert duration_unit(minutes * 60_000)[1] == unit


def test_an_idle_source_partition_has_a_ring_and_lags_are_said_in_words(
    pages: PageReader, replayed: Path
) -> None:
    runs = [row["run_id"] for row in StoredTables(replayed, "departures").ledger() if row["kind"] == "run"]
    idle: dict[str, list[bool]] = {}
    for row in StoredTables(replayed, "departures").rows("source_progress"):
        if row["source_partition"] is not None and row["run_id"] in runs:
            marks = idle.setdefault(row["source_partition"], [False] * len(runs))
            marks[runs.index(row["run_id"])] = row["idle"]
    traces: dict[str, Any] = {
        trace["name"]: trace for trace in pages.page("/departures").figures["lag"]["data"]
    }
    drawn = {name: trace for name, trace in traces.items() if name != "watermark"}
    assert drawn and next(iter(traces)) == "watermark", (
        "what holds it back is drawn over the watermark's line"
    )
    for name, trace in drawn.items():
        rings = [size > 0 for size in trace.get("marker", {}).get("size", [0] * len(runs))]
        assert rings == idle[name]
        assert all(isinstance(text, str) for text in trace["customdata"])
    assert any(any(idle[name]) for name in drawn)
