"""The page of a window gives the answer of `explain`: its sentences, its numbers, its drawing; and where
there is no such window it leads to the nearest.
"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from slackwater.examples.departures import departures
from slackwater.inspection.windows.window_answer import answer
from slackwater.inspection.windows.window_life import WindowExplanation, WindowQuestion, explain_window
from slackwater.inspection.windows.window_search import WindowName
from slackwater.pages.app import create_app
from slackwater.pages.frame.links import moment_of
from slackwater.windowing import CumulateEventTimeWindows
from slackwater.windowing.times import to_ms
from tests.pages.page_reader import PageReader
from tests.runs.own_lanes import LANES, lanes_of_a_day
from tests.runs.world import DAILY, HOUR, Event, World, every_hour

SCRIPT = "<script>alert('k')</script>\x1b[2J"


def explained(warehouse: Path, key: str, start: str) -> WindowExplanation:
    question = WindowQuestion(key=key, name=WindowName(moment_of(start), {}), reads_source=True)
    return explain_window(departures, str(warehouse), question)


def test_the_page_shows_what_explain_answers(pages: PageReader, replayed: Path) -> None:
    life = explained(replayed, "EWR", "2013-01-04T18:00")
    page = pages.page("/departures/window?key=EWR&start=2013-01-04T18:00&elements=true")
    assert answer(life) in page.text
    firings = page.table("Firings").rows
    assert len(firings) == len(life.firings) > 1
    assert [row[3] for row in firings] == [str(firing.elements) for firing in life.firings]
    published = page.table("What was published")
    assert len(published.rows) == len(life.corrections)
    cause = published.headings.index("cause")
    assert {row[cause] for row in published.rows} <= {"first firing", "late row"}
    assert len(page.table("Rows of the source").rows) == len(life.elements.rows or ())
    assert "slackwater explain departures --key EWR --window 2013-01-04T18:00 --elements" in page.text


def test_the_drawing_has_the_numbers_of_its_table(pages: PageReader, replayed: Path) -> None:
    life = explained(replayed, "EWR", "2013-01-04T18:00")
    page = pages.page("/departures/window?key=EWR&start=2013-01-04T18:00&elements=true")
    traces = {trace["name"]: trace for trace in page.figures["life"]["data"]}
    rows = [row for row in life.elements.rows or () if not row.is_late]
    assert sorted(zip(traces["row"]["x"], traces["row"]["y"], strict=True)) == sorted(
        (to_ms(row.event_time), to_ms(row.arrival_time)) for row in rows
    )
    numbers = [row[1] for row in page.table("Numbers of its life").rows]
    drawn = {name: len(trace["x"]) for name, trace in traces.items()}
    assert numbers.count("row") == drawn["row"]
    assert numbers.count("watermark") == drawn["watermark"]
    fired = drawn.get("fired on a timer", 0) + drawn.get("fired by a row", 0)
    assert sum(text.startswith("firing ") for text in numbers) == fired == len(life.firings)
    [band, cleanup] = page.figures["life"]["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == tuple(
        to_ms(life.window.columns[name]) for name in ("window_start", "window_end")
    )
    assert cleanup["x0"] == band["x1"] + 4 * 3_600_000  # the allowed lateness


def test_an_open_window_names_the_source_partitions_that_hold_it_back(
    pages: PageReader, replayed: Path
) -> None:
    life = explained(replayed, "EWR", "2013-01-05T22:00")
    page = pages.page("/departures/window?key=EWR&start=2013-01-05T22:00")
    holders = page.table("Source partitions that hold it back").rows
    assert [row[0] for row in holders] == [one.source_partition for one in life.waits_for.held_back_by]
    assert len(holders) > 1
    assert [row[2] for row in page.table("Pending timers").rows] == ["fire", "cleanup"]


def test_a_window_that_never_was_leads_to_the_nearest(pages: PageReader) -> None:
    page = pages.get("/departures/window?key=EWR&start=2013-01-04T18:30")
    assert page.status == 404
    nearest = [url for url in page.links if "/window?" in url and "18%3A30" not in url]
    assert any("start=2013-01-04T18%3A00" in url for url in nearest)
    assert all(pages.get(url).status == 200 for url in nearest)
    assert pages.get("/departures/window?key=EWR&start=noon").status == 400
    assert "Window start" in pages.page("/departures/window").text


def test_a_key_may_be_called_anything(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    world.append([*every_hour(0, 24), Event(6, 6.5, 900, key=SCRIPT)])
    world.run(24)
    page = reader_of(world, "world import DAILY as daily", tmp_path).page(
        f"/daily/window?key={quote(SCRIPT)}&start=2013-01-01T06:00&elements=true"
    )
    assert "<script>alert" not in page.source
    assert "\\x1b[2J" in page.text


def test_windows_that_share_their_start_are_chosen_by_their_columns(tmp_path: Path) -> None:
    reader = reader_of(lanes_of_a_day(LANES, tmp_path), "own_lanes import LANES as daily", tmp_path)
    choices = [
        url for url in reader.page("/daily/window?key=a&start=2013-01-01").links if "column=tier" in url
    ]
    assert len(choices) == 2
    assert [row[3] for row in reader.page(choices[1]).table("Firings").rows] == ["1"]
    assert "silver" in reader.page(choices[1]).text


def test_windows_that_begin_together_are_chosen_by_their_ends(tmp_path: Path) -> None:
    file = tmp_path / "cumulative.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from slackwater import CumulateEventTimeWindows\n"
        "from tests.runs import world\n"
        "window = CumulateEventTimeWindows.of(6 * world.HOUR, 2 * world.HOUR)\n"
        "daily = replace(world.DAILY, window=window)\n"
    )
    pipeline = replace(DAILY, window=CumulateEventTimeWindows.of(6 * HOUR, 2 * HOUR))
    world = World(tmp_path / "world", pipeline)
    world.append([Event(0.5, 0.5, 1)])
    world.run(24)
    reader = PageReader(create_app(str(world.folder), str(file)))
    page = reader.page("/daily/window?key=a&start=2013-01-01")
    choices = [url for url in page.links if "column=window_end" in url]
    assert len(choices) == 3
    assert "2013-01-01 00:00 until 2013-01-01 04:00" in page.text
    assert "2013-01-01 00:00 – 04:00" in reader.page(choices[1]).text


def reader_of(world: World, imports: str, folder: Path) -> PageReader:
    file = folder / "pipelines.py"
    file.write_text(f"from tests.runs.{imports}\n")
    return PageReader(create_app(str(world.folder), str(file)))
