"""The pages of state and the SQL box: they show the rows of the tables, and send files of them."""

import csv
import io
import threading
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from slackwater.inspection.rows import row_pages
from slackwater.pages import sql_page, state_page
from tests.integration.stored import StoredTables
from tests.pages.page_reader import PageReader, ReadPage


@pytest.fixture
def stored(replayed: Path) -> StoredTables:
    return StoredTables(replayed, "departures")


def test_open_windows_are_those_that_are_parked(pages: PageReader, stored: StoredTables) -> None:
    page = pages.page("/departures/state/windows")
    table, parked = page.table("Open windows"), stored.parked("window_state")
    columns = table.headings.index("origin"), table.headings.index("elements")
    assert sorted((row[columns[0]], row[columns[1]]) for row in table.rows) == sorted(
        (row["origin"], f"{row['elements']:,}") for row in parked
    )
    assert f"rows 1 to {len(parked)} of {len(parked)}" in page.text
    assert "as of run 5" in page.text and "contents" not in table.headings


def test_every_table_is_filtered_by_key_and_time(pages: PageReader, stored: StoredTables) -> None:
    late = stored.live("late_events")
    wanted = [row for row in late if row["origin"] == "JFK"]
    rows = pages.page("/departures/state/late?key=JFK").table("Late rows").rows
    assert wanted and len(rows) == len(wanted) and {row[0] for row in rows} == {"JFK"}
    page = pages.page("/departures/state/late?from=2013-01-03&to=2013-01-04")
    table = page.table("Late rows")
    arrivals = [row[table.headings.index("arrival time")] for row in table.rows]
    assert arrivals == sorted(arrivals, reverse=True)
    assert {arrival[:10] for arrival in arrivals} == {"2013-01-03"}
    for table in ("windows", "timers", "quarantine"):
        filtered = pages.page(f"/departures/state/{table}?key=LGA&from=2013-01-01").text
        assert "rows 1 to" in filtered, table
    assert "No row." in pages.page("/departures/state/keyed").text
    assert "No row fits the filter." in pages.page("/departures/state/windows?key=nowhere").text


def test_pages_follow_each_other_by_their_links(
    pages: PageReader, stored: StoredTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_page, "PAGE_ROWS", 7)
    monkeypatch.setattr(row_pages.PagedView.page, "__defaults__", (7,))
    url, seen, pages_seen = "/departures/state/timers", list[tuple[str, ...]](), list[str]()
    while url:
        page = pages.page(url)
        seen += map(tuple, page.table("Timers").rows)
        pages_seen.append(page.text)
        url = next((link for link in page.links if "after=" in link and "file." not in link), "")
    parked = stored.parked("timers")
    assert len(seen) == len(parked) and len(set(seen)) == len(set(map(repr, parked)))
    assert f"rows 8 to 14 of {len(parked)}" in pages_seen[1]
    back = next(link for link in pages.page(url or "/departures/state/timers").links if "after=" in link)
    second = pages.page(back)
    first = pages.page(next(link for link in second.links if "before=" in link))
    assert first.table("Timers").rows == pages.page("/departures/state/timers").table("Timers").rows


def test_files_have_all_rows(pages: PageReader, stored: StoredTables) -> None:
    late = pages.get("/departures/state/late/file.csv?key=JFK")
    assert late.headers["content-type"].startswith("text/csv")
    assert late.headers["content-disposition"] == 'attachment; filename="departures-late.csv"'
    wanted = [row["row"] for row in stored.live("late_events") if row["origin"] == "JFK"]
    rows = csv.DictReader(io.StringIO(late.source))
    assert sorted(int(row["row"]) for row in rows) == sorted(wanted)
    content = pages.client.get("/departures/state/windows/file.parquet").content
    assert pq.read_table(io.BytesIO(content)).num_rows == len(stored.parked("window_state"))


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("state/nothing", 404, "windows, timers"),
        ("state/windows?from=soon", 400, "no date or time"),
        ("state/windows?after=x", 400, "begin at the first page"),
        ("state/windows?run=99", 404, "no row 99"),
        ("state/windows/file.csv?key=%5B1%2C2%5D", 400, "2 values"),
        ("state/windows/file.xml", 400, "csv"),
        ("sql/file.csv?statement=nonsense", 400, "syntax error"),
    ],
)
def test_what_cannot_be_shown_is_said(pages: PageReader, url: str, status: int, words: str) -> None:
    page = pages.get(f"/departures/{url}")
    assert (page.status, words in page.text) == (status, True)


def ask(pages: PageReader, statement: str) -> ReadPage:
    return pages.get(f"/departures/sql?statement={quote(statement)}")


def test_the_box_answers_as_the_tables_do(pages: PageReader, stored: StoredTables) -> None:
    page = ask(pages, "SELECT origin, count(*) AS n FROM late_live GROUP BY ALL ORDER BY origin")
    late = [row["origin"] for row in stored.live("late_events")]
    assert page.table("The answer").rows == [[key, str(late.count(key))] for key in sorted(set(late))]
    examples = [link for link in pages.page("/departures/sql").links if "statement=" in link]
    assert len(examples) == 4
    assert all(pages.page(example).table("The answer").headings for example in examples)


def test_the_box_says_how_many_rows_it_leaves_out(pages: PageReader) -> None:
    page = ask(pages, "FROM range(1234)")
    assert len(page.table("The answer").rows) == sql_page.ROWS
    assert f"the first {sql_page.ROWS} rows of 1,234" in page.text
    link = next(link for link in page.links if "file.csv" in link)
    assert len(pages.get(link).source.splitlines()) == 1235


def test_the_box_reads_nothing_else_and_has_its_limits(
    pages: PageReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not possible here" in ask(pages, "FROM read_text('/etc/passwd')").text
    assert "COPY is not possible" in ask(pages, "COPY runs TO '/tmp/x'").text
    assert "&lt;script&gt;" in (page := ask(pages, "SELECT '<script>alert(1)</script>' AS \"<b>\"")).source
    assert "<script>alert" not in page.source and "<b>" not in page.source
    monkeypatch.setattr(sql_page, "SECONDS", 0.2)
    page = ask(pages, "SELECT max(hash(a.range + b.range)) FROM range(1000000) a, range(1000000) b")
    assert page.status == 400 and "stopped after 0.2 s" in page.text
    page = ask(pages, "FROM range(1000000000000)")
    assert len(page.table("The answer").rows) == sql_page.ROWS and "there are more" in page.text
    monkeypatch.setattr(sql_page, "STATEMENT_TURN", threading.BoundedSemaphore(1))
    with sql_page.STATEMENT_TURN:
        assert ask(pages, "SELECT 1").status == 503


def test_a_statement_that_duckdb_does_not_stop_is_ended_and_others_are_answered_meanwhile(
    pages: PageReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of 100 million numbers is one value: DuckDB can't be interrupted while it makes it."""
    monkeypatch.setattr(sql_page, "SECONDS", 1.0)
    answers = []
    statement = threading.Thread(target=lambda: answers.append(ask(pages, "SELECT range(400000000)")))
    statement.start()
    assert pages.get("/departures").status == 200
    assert statement.is_alive()
    statement.join()
    [answer] = answers
    assert answer.status == 400
    assert "stopped after 1 s" in answer.text or "needs more memory" in answer.text


def test_a_value_of_gigabytes_is_refused_for_its_memory(pages: PageReader) -> None:
    page = ask(pages, "SELECT length(repeat('x', 4000000000))")
    assert page.status == 400 and "needs more memory than it may have" in page.text
