"""Every page in a real browser: no error, nothing loaded from elsewhere, plots that show the numbers of their
tables, no serious finding of axe-core; wide and narrow, light and dark.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import served
from tests.integration.stored import StoredTables
from tests.runs.own_lanes import LANES
from tests.runs.world import Event, World, every_hour

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# A page of each kind, each of which has something to show.
PAGES = (
    "/",
    "/departures?last=90",
    "/turnarounds",
    "/departures/runs/4",
    "/departures/runs/35",
    "/turnarounds/runs/9",
    "/departures/window?key=JFK&start=2013-01-31T21:00&elements=true",
    "/departures/history?key=JFK",
    "/departures/state/windows",
    "/turnarounds/state/timers",
    "/departures/state/late",
    "/departures/state/quarantine",
    "/departures/late",
    "/departures/diff?a=main&b=trial",
    "/departures/diff?a=30&b=31",
    "/-/diff?a=departures&b=departures",
    "/departures/sql?statement=SELECT+origin,+count(*)+AS+open+FROM+windows_now+GROUP+BY+ALL",
    "/departures/runs/999",
)
# Of pages that differ only in numbers and values of their queries so many are opened.
MOST_ALIKE = 3


@dataclass
class Watch:
    """What a page has said and asked for while it was open."""

    messages: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, address: str, width: int = 1280, scheme: Literal["light", "dark"] = "light"
) -> Iterator[tuple[Page, Watch]]:
    """A page that notes errors on its console, and requests to any other place than `address`."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, watch = context.new_page(), Watch()
    page.on(
        "console",
        lambda message: watch.messages.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: watch.messages.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((address, "data:", "blob:"))
            else watch.foreign_requests.append(request.url)
        ),
    )
    yield page, watch
    context.close()


def is_expected(message: str, path: str) -> bool:
    """The browser says on its console that a page that is not there is not there."""
    return path.endswith("/999") and "404" in message


def plots_are_drawn(page: Page) -> None:
    page.wait_for_function(
        "() => [...document.querySelectorAll('script[data-plot]')].every("
        "block => document.getElementById(block.dataset.plot).querySelector('.main-svg'))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_have_no_error_no_foreign_request_and_no_sideways_scroll(
    browser: Browser, address: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    with opened(browser, address, width, scheme) as (page, watch):
        for path in PAGES:
            page.goto(address + path)
            plots_are_drawn(page)
            assert [text for text in watch.messages if not is_expected(text, path)] == [], path
            assert watch.foreign_requests == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            watch.messages.clear()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark"), (1280, "dark")])
def test_axe_finds_nothing_serious(
    browser: Browser, address: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    findings = []
    with opened(browser, address, width, scheme) as (page, _):
        for path in PAGES:
            page.goto(address + path)
            plots_are_drawn(page)
            for violation in Axe().run(page).response["violations"]:
                if violation["impact"] in ("serious", "critical"):
                    findings.append((path, violation["id"], violation["nodes"][0]["html"][:200]))
    assert findings == []


def test_every_link_leads_to_a_page_without_errors(browser: Browser, address: str) -> None:
    waiting, statuses, counts = [*PAGES], dict[str, int](), Counter[str]()
    with opened(browser, address) as (page, watch):
        while waiting:
            path = waiting.pop(0)
            kind = re.sub(r"\d+(?=/|$|\?)|=[^&]*", "", path)
            counts[kind] += 1
            if path in statuses or (counts[kind] > MOST_ALIKE and path not in PAGES) or "/file." in path:
                continue
            answer = page.goto(address + path)
            assert answer is not None
            statuses[path] = answer.status
            links = page.eval_on_selector_all(
                "a[href]", "links => links.map(link => link.href.baseVal ?? link.href)"
            )
            local_links = [url.removeprefix(address) for url in links if not url.startswith("#")]
            waiting += [url.split("#")[0] for url in local_links if url.startswith("/")]
            assert [url for url in local_links if not url.startswith(("/", address))] == [], path
            assert [text for text in watch.messages if not is_expected(text, path)] == [], path
            watch.messages.clear()
    assert {path: status for path, status in statuses.items() if status != 200} == {
        "/departures/runs/999": 404
    }
    assert len(statuses) > 2 * len(PAGES)


def drawn(page: Page, plot: str) -> dict[str, dict[str, Any]]:
    """The traces of a plot as the library has drawn them, by their names."""
    traces = page.evaluate(
        "id => document.getElementById(id).data.map(trace => "
        "({name: trace.name, y: [...trace.y], x: [...trace.x]}))",
        plot,
    )
    return {trace["name"]: trace for trace in traces}


def test_plots_show_the_numbers_of_the_tables(browser: Browser, address: str, month: Path) -> None:
    ledger = {row["seq"]: row for row in StoredTables(month, "departures").ledger()}
    live = [*range(1, 15), 33, 34, *range(17, 32)]
    with opened(browser, address) as (page, _):
        page.goto(f"{address}/departures?last=90")
        plots_are_drawn(page)
        rows, firings, state = (drawn(page, name) for name in ("rows", "firings", "state"))
        assert rows["read"]["y"] == [ledger[seq]["rows_read"] for seq in live]
        assert rows["too late"]["y"] == [ledger[seq]["rows_late"] for seq in live]
        assert firings["fired again"]["y"] == [ledger[seq]["windows_refired"] for seq in live]
        assert state["open windows"]["y"] == [ledger[seq]["windows_open"] for seq in live]
        for details in page.locator("details.numbers").all():
            details.locator("summary").click()
            assert details.locator("tbody tr").count() > 0
        numbers = page.locator("table:has(caption:text-is('Rows of each run')) tbody tr").all()
        texts = [row.locator("td").nth(2).inner_text().replace(",", "") for row in numbers]
        assert texts == [str(ledger[seq]["rows_read"]) for seq in live]
        # As many bars stand on the screen.
        bars = page.locator("#rows .barlayer .trace").first.locator(".point").count()
        assert bars == len(live)


def test_the_lineage_leads_to_each_run(browser: Browser, address: str) -> None:
    with opened(browser, address) as (page, _):
        page.goto(f"{address}/departures?last=90")
        page.locator("svg.drawing a[aria-label^='run 33,']").click()
        assert page.url == f"{address}/departures/runs/33"
        assert page.locator("h1").inner_text().startswith("Run 33")


def test_a_command_is_copied(browser: Browser, address: str) -> None:
    with opened(browser, address) as (page, _):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"{address}/departures/runs/4")
        page.locator("[data-copy]").first.click()
        text = page.evaluate("navigator.clipboard.readText()")
        assert text.startswith("slackwater runs departures 4 --warehouse ")


def test_keys_that_are_markup_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    key = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    world = World(tmp_path / "world", LANES)
    world.append([*every_hour(0, 6), Event(1, 1.5, 100, key, 1), Event(2, 2.5, 101, key, 2)])
    world.run(6)
    with served(tmp_path / "world") as address, opened(browser, address) as (page, watch):
        for path in ("/daily", "/daily/state/windows", "/daily/state/timers", "/daily/runs/1"):
            page.goto(address + path)
            assert "taken" not in page.title()
            assert page.locator("main script:not([type='application/json']), main img").count() == 0
        page.goto(f"{address}/daily/sql?statement=SELECT+*+FROM+panes_live")
        assert "<script>document.title" in page.locator("main").inner_text()
        assert watch.messages == []
