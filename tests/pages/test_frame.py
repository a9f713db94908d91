"""What holds for every page: who may see it, what it may load, what an error looks like, where links lead."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.routing import APIRoute

from slackwater.pages.app import create_app
from slackwater.pages.frame.site import check_sender
from tests.pages.page_reader import PageReader, ReadPage


def linked_pages(reader: PageReader, start: str, most_alike: int | None = None) -> dict[str, ReadPage]:
    """Every page that can be reached from `start` by links, with what was got. Of pages that differ only in
    numbers of their paths and values of their queries at most `most_alike` are got; so of the files of
    several tables.
    """
    waiting, pages, counts = [start], {}, Counter[str]()
    while waiting:
        path = waiting.pop()
        if path not in pages:
            kind = re.sub(r"\d+(?=/|$)|=[^&]*|/state/\w+(?=/file)", "", path)
            counts[kind] += 1
            if most_alike is not None and counts[kind] > most_alike:
                continue
            pages[path] = reader.get(path)
            if pages[path].headers["content-type"].startswith("text/html"):
                waiting += [link for link in pages[path].links if not link.startswith("#")]
    return pages


@pytest.mark.parametrize("most_alike", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_every_link_leads_to_a_page(pages: PageReader, most_alike: int | None) -> None:
    statuses = {path: page.status for path, page in linked_pages(pages, "/", most_alike).items()}
    assert {"/", "/departures"} <= statuses.keys() and len(statuses) > 20
    assert {path: status for path, status in statuses.items() if status != 200} == {}


def test_what_pages_load_is_served_by_themselves(pages: PageReader) -> None:
    for url in pages.page("/departures").loaded:
        assert url.startswith("/-/static/")
        assert pages.get(url).status == 200


@pytest.mark.slow
def test_links_hold_under_a_prefix(replayed: Path) -> None:
    outer = FastAPI()
    outer.mount("/slack/water", create_app(str(replayed), None))
    page = PageReader(outer).page("/slack/water/departures")
    urls = [*page.links, *page.loaded]
    assert all(url.startswith(("/slack/water/", "#")) for url in urls)
    assert all(PageReader(outer).get(url).status == 200 for url in urls if not url.startswith("#"))


def test_every_answer_forbids_what_is_inline_or_foreign(pages: PageReader) -> None:
    for path in ("/", "/departures", "/nothing", "/departures/runs/abc", "/-/static/site.css"):
        policy = pages.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_pages_only_look(pages: PageReader, method: str) -> None:
    for path in ("/", "/departures", "/departures/runs/3"):
        assert getattr(pages.client, method)(path).status_code == 405


def test_a_pipeline_that_is_not_there_names_the_nearest(pages: PageReader) -> None:
    page = pages.get("/departurs")
    assert page.status == 404
    assert "/departures" in page.links


def test_a_run_that_is_not_there_leads_to_those_that_are(pages: PageReader) -> None:
    page = pages.get("/departures/runs/99")
    assert page.status == 404
    assert "/departures" in page.links
    assert pages.get("/departures/runs/abc").status == 400


def test_a_pipeline_that_never_ran_says_so(pages: PageReader) -> None:
    page = pages.page("/turnarounds")
    assert "has not run in this warehouse yet" in page.text
    assert "slackwater run turnarounds --to TIME --warehouse " in page.text
    assert "Perhaps you meant" not in page.text


def only_departures(request: Request, pipeline: str | None) -> None:
    if pipeline not in (None, "departures"):
        raise HTTPException(403, "not yours")


def test_who_may_not_see_a_pipeline_learns_nothing_of_it(replayed: Path) -> None:
    guarded_pages = PageReader(create_app(str(replayed), None, only_departures))
    assert guarded_pages.get("/departures").status == 200
    assert guarded_pages.get("/turnarounds").status == 403
    for path in ("/", "/turnaround"):
        assert "turnarounds" not in guarded_pages.get(path).source.replace(f"&#39;{path[1:]}&#39;", "")


def test_every_route_asks_who_is_there(replayed: Path) -> None:
    asked: list[str | None] = []

    def refuse(request: Request, pipeline: str | None) -> None:
        asked.append(pipeline)
        raise HTTPException(401, "who?")

    app = create_app(str(replayed), None, refuse)
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes) >= 4
    for route in routes:
        assert route.methods <= {"GET", "HEAD"}
        assert check_sender in [dependency.call for dependency in route.dependant.dependencies]
        path = (
            route.path.replace("{pipeline}", "departures").replace("{seq}", "1").replace("{name}", "site.css")
        )
        assert PageReader(app).get(path).status == 401, path
    assert "departures" in asked and None in asked


def test_a_login_elsewhere_is_followed(replayed: Path) -> None:
    def to_login(request: Request, pipeline: str | None) -> None:
        raise HTTPException(307, headers={"Location": "/auth/login"})

    page = PageReader(create_app(str(replayed), None, to_login)).get("/")
    assert (page.status, page.headers["location"]) == (307, "/auth/login")


def test_a_fault_of_ours_shows_no_details(replayed: Path) -> None:
    app = create_app(str(replayed), None)

    @app.get("/-/fault")
    def fault() -> None:
        raise RuntimeError("a secret")

    page = PageReader(app).get("/-/fault")
    assert page.status == 500
    assert "secret" not in page.source
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_names_in_urls_are_escaped(pages: PageReader) -> None:
    page = pages.get("/<script>alert(1)</script>")
    assert page.status == 404
    assert "<script>alert" not in page.source
    assert urlsplit(page.headers.get("location", "")).netloc == ""
