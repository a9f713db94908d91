"""The pages inside of Airflow as its real API server shows them: behind its login, for each DAG those who may
see it, from each task to the page of its run, and in a browser as tabs.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser

from slackwater.pages.app import create_app
from tests.integration.airflow.conftest import Airflow, Task, await_, start
from tests.integration.command import here

PASSWORDS = {"ann": "tide", "root": "ebb"}
TO = "2013-01-03"
VALUES = {"form": "csv", "seq": "1", "name": "site.css", "table": "windows", "run_id": "none"}


class Answer(NamedTuple):
    status: int
    location: str | None
    text: str


class _Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    days = ("--from", "2013-01-01", "--to", TO)
    assert here("examples", "load", "departures", *days, "--warehouse", folder) == 0
    return folder


@pytest.fixture(scope="module")
def airflow(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """With a login, and `root` signed in."""
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "passwords.json").write_text(json.dumps(PASSWORDS))
    for airflow in start(
        folder / "home",
        SLACKWATER_WAREHOUSE=str(warehouse),
        AIRFLOW__CORE__AUTH_MANAGER="tests.integration.airflow.one_dag_manager.OneDagManager",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="False",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS="ann:viewer,root:admin",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(folder / "passwords.json"),
    ):
        yield replace(airflow, token=token_of(airflow, "root"))


@pytest.fixture(scope="module")
def run(airflow: Airflow) -> str:
    """A DAG run that has published two days."""
    await_(lambda: airflow.ask("dags/departures"), "the DAG")
    airflow.ask("dags/departures", {"is_paused": False}, "PATCH")
    body = {"logical_date": None, "conf": {"to": f"{TO}T00:00:00Z"}}
    run_id: str = airflow.ask("dags/departures/dagRuns", body)["dag_run_id"]
    assert airflow.ended("departures", run_id) == "success", airflow.log("departures", run_id, "publish")
    return run_id


def token_of(airflow: Airflow, user: str) -> str:
    body = json.dumps({"username": user, "password": PASSWORDS[user]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{airflow.port}/auth/token", body, {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        token: str = json.load(answer)["access_token"]
    return token


def get(airflow: Airflow, path: str, token: str | None, accept: str = "*/*") -> Answer:
    headers = {"Accept": accept} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    request = urllib.request.Request(f"http://127.0.0.1:{airflow.port}{path}", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Unfollowed())
    try:
        with opener.open(request, timeout=60) as answer:
            return Answer(answer.status, None, answer.read().decode())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers["Location"], error.read().decode())


def paths_of(pipeline: str) -> list[str]:
    routes = [route for route in create_app(None, None).routes if isinstance(route, APIRoute)]
    paths = [route.path.format(**{**VALUES, "pipeline": pipeline}) for route in routes]
    return [f"/slackwater{path}" for path in [*paths, f"/-/dags/{pipeline}", f"/-/dags/{pipeline}/runs/r"]]


def test_a_task_leads_to_the_page_of_its_run(airflow: Airflow, run: str) -> None:
    for task in ("replay", "validate", "publish", "announce"):
        assert airflow.tasks("departures", run)[task] == Task("success", 1)
        links = airflow.ask(f"dags/departures/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]
        answer = get(airflow, links["Slackwater"], airflow.token)
        assert answer.status == 303
        attempt = get(airflow, str(answer.location), airflow.token)
        assert (attempt.status, attempt.location) == (303, "/slackwater/departures/runs/2")
    page = get(airflow, "/slackwater/departures/runs/2", airflow.token)
    assert page.status == 200
    assert "departures__restate" in page.text and "2013-01-02T00:00:00+00:00" in page.text


def test_no_endpoint_answers_without_a_login(airflow: Airflow, run: str) -> None:
    assert len(paths_of("departures")) > 12
    for path in paths_of("departures"):
        assert get(airflow, path, None).status == 401, path
        assert get(airflow, path, "no.such.token").status in (401, 403), path
        answer = get(airflow, path, None, "text/html")
        assert answer.status == 307, path
        login, _, query = str(answer.location).partition("?")
        assert login == "/api/v2/auth/login"
        assert urllib.parse.parse_qs(query) == {"next": [path]}
        assert get(airflow, str(answer.location), None).status == 307


def test_what_is_of_a_pipeline_is_for_those_who_may_see_its_dag(airflow: Airflow, run: str) -> None:
    ann = token_of(airflow, "ann")
    assert get(airflow, "/api/v2/dags/turnarounds", ann).status == 403, "Airflow itself hides the DAG"
    for path in paths_of("turnarounds"):
        if "turnarounds" in path:
            assert get(airflow, path, ann).status == 403, path
            assert get(airflow, path, airflow.token).status != 403, path
    assert get(airflow, "/slackwater/departures/runs/2", ann).status == 200
    assert get(airflow, "/slackwater/-/dags/turnarounds__restate", ann).status == 403
    overview = get(airflow, "/slackwater/", ann)
    assert (overview.status, "turnarounds" in overview.text) == (200, False)
    assert "turnarounds" in get(airflow, "/slackwater/", airflow.token).text


def test_pages_stand_in_the_navigation_and_as_tabs(airflow: Airflow, run: str, browser: Browser) -> None:
    address = f"http://127.0.0.1:{airflow.port}"
    with browser.new_context(base_url=address, locale="en-US") as context:
        page = context.new_page()
        page.goto(f"/slackwater/-/dags/departures/runs/{run}")
        page.get_by_label("Username").fill("root")
        page.get_by_label("Password").fill(PASSWORDS["root"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/slackwater/departures/runs/2")
        assert page.get_by_role("link", name="DAG in Airflow").get_attribute("href") == "/dags/departures"

        page.goto("/")
        page.get_by_role("link", name="Slackwater", exact=True).click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="departures", exact=True).click()
        frame.get_by_role("heading", name="Lineage").wait_for()
        page.wait_for_url("**/plugin/slackwater/slackwater/departures")
        assert not frame.get_by_role("link", name="DAG in Airflow").is_visible(), "it would open in the frame"

        places = {
            "/dags/departures": ("slackwater-dag", "Lineage"),
            "/dags/departures/tasks/publish": ("slackwater-task", "Lineage"),
            f"/dags/departures/runs/{run}": ("slackwater-dag-run", "What it changed"),
            f"/dags/departures/runs/{run}/tasks/publish": ("slackwater-task-instance", "What it changed"),
        }
        for place, (tab, heading) in places.items():
            page.goto(place)
            page.locator(f"a[href$='/plugin/{tab}']").click()
            page.frame_locator("iframe").get_by_role("heading", name=heading).wait_for()
