"""Inside of Airflow every page asks Airflow who is there and what they may see. Airflow's answers are those
of a manager of this file; the real one is asked by tests/integration/airflow/test_pages.py.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute

from slackwater.airflow import pages
from slackwater.airflow.plugin import SlackwaterPlugin
from slackwater.pages.app import create_app
from slackwater.pages.frame.site import check_sender
from tests.pages.page_reader import PageReader

ALL_PAGES = "text/html,application/xhtml+xml"
VALUES = {
    "form": "csv",
    "seq": "1",
    "name": "site.css",
    "table": "windows",
    "run_id": "none",
    "dag_id": "departures",
}


class Manager:
    """Airflow's auth manager as far as pages ask it: `ann` may see the DAGs `departures` and its restate DAG,
    `root` all.
    """

    async def user_of(self, request: Any, token: None, bearer: Any) -> str:
        if bearer is None:
            raise HTTPException(401, "Not authenticated")
        return str(bearer.credentials)

    def is_authorized_dag(self, *, method: str, details: Any, user: str) -> bool:
        assert method == "GET"
        return user == "root" or details.id.removesuffix("__restate") == "departures"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setenv("SLACKWATER_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setenv("SLACKWATER_EXAMPLES", "true")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/flow")
    manager = Manager()
    monkeypatch.setattr(pages, "get_user", manager.user_of)
    monkeypatch.setattr(pages, "get_auth_manager", lambda: manager)
    monkeypatch.setattr(pages, "DagModel", SimpleNamespace(get_team_name=lambda dag_id: None))
    return pages.create_pages()


def get(app: FastAPI, path: str, user: str | None = None, **headers: str) -> Any:
    bearer = {} if user is None else {"Authorization": f"Bearer {user}"}
    return PageReader(app).get(path, **bearer, **headers)


def paths_of(app: FastAPI, pipeline: str) -> list[str]:
    """One path for each route; `pipeline` where it has one."""
    return [
        route.path.format(**{**VALUES, "pipeline": pipeline})
        for route in app.routes
        if isinstance(route, APIRoute)
    ]


def test_no_endpoint_answers_who_is_not_signed_in(app: FastAPI) -> None:
    assert all(isinstance(route, APIRoute) for route in app.routes)
    paths = paths_of(app, "departures")
    assert len(paths) > len(create_app(None, None).routes)
    for path in (*paths, "/nowhere/at/all", "/departures/runs/none"):
        answer = get(app, path)
        assert answer.status == 401, path
        assert "warehouse" not in answer.text
        browser = get(app, f"{path}?a=1&b=%2F", accept=ALL_PAGES)
        assert browser.status == 307, path
        assert browser.headers["location"].startswith("/flow/api/v2/auth/login?next=%2F"), path
        assert browser.headers["location"].endswith("%3Fa%3D1%26b%3D%252F"), path


def test_what_is_of_a_pipeline_is_for_those_who_may_see_its_dag(app: FastAPI) -> None:
    mine, others = paths_of(app, "departures"), paths_of(app, "turnarounds")
    of_a_pipeline = [path for path in others if "turnarounds" in path]
    assert len(of_a_pipeline) >= 8
    for path in of_a_pipeline:
        assert get(app, path, "ann").status == 403, path
        assert get(app, path, "root").status != 403, path
    assert [path for path in mine if get(app, path, "ann").status in (401, 403)] == []


@pytest.mark.parametrize("page", ["/-/dags/{}", "/-/dags/{}__restate", "/-/dags/{}/runs/r1"])
def test_a_tab_of_a_dag_shows_its_pipeline_to_those_who_may_see_it(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    staged: list[str | None] = [None]
    monkeypatch.setattr(pages, "staged_run_id", lambda dag_id, run_id: staged[0])
    answer = get(app, page.format("departures"), "ann")
    assert (answer.status, answer.headers["location"]) == (303, "/departures")
    assert get(app, page.format("turnarounds"), "ann").status == 403
    assert get(app, page.format("another"), "root").status == 404
    staged[0] = "20130102T000000-12ab"
    answer = get(app, page.format("turnarounds"), "root")
    is_of_a_run = "/runs/" in page
    attempt = "/turnarounds/attempts/20130102T000000-12ab"
    assert answer.headers["location"] == (attempt if is_of_a_run else "/turnarounds")


def test_the_list_names_what_its_reader_may_see(app: FastAPI) -> None:
    assert "turnarounds" in get(app, "/", "root").text
    page = get(app, "/", "ann")
    assert "departures" in page.text
    assert "turnarounds" not in page.source


def test_a_pipeline_is_not_compared_with_one_that_its_reader_may_not_see(app: FastAPI) -> None:
    assert get(app, "/-/diff?a=departures&b=turnarounds", "ann").status == 403
    assert get(app, "/-/diff?a=departures&b=turnarounds", "root").status == 404, "neither has run"


def test_every_endpoint_asks_in_the_same_place(app: FastAPI) -> None:
    for route in app.routes:
        assert isinstance(route, APIRoute)
        assert route.methods <= {"GET", "HEAD"}
        assert check_sender in [dependency.call for dependency in route.dependant.dependencies], route.path


def test_a_restatement_is_told_as_the_parameters_of_its_dag() -> None:
    start = datetime(2013, 1, 2, tzinfo=UTC)
    form = pages.restate_form("departures", start, start + timedelta(days=1))
    assert form.dag_id == "departures__restate"
    assert form.href.endswith("/dags/departures__restate")
    bounds = {"from": "2013-01-02T00:00:00+00:00", "to": "2013-01-03T00:00:00+00:00"}
    assert json.loads(form.conf) == bounds


def test_the_plugin_shows_pages_in_places_of_airflow_and_imports_none_of_them() -> None:
    views = {view["destination"]: view["href"] for view in SlackwaterPlugin.external_views}
    of_dag, of_run = "slackwater/-/dags/{DAG_ID}", "slackwater/-/dags/{DAG_ID}/runs/{RUN_ID}"
    assert views == {
        "nav": "slackwater/",
        "dag": of_dag,
        "task": of_dag,
        "dag_run": of_run,
        "task_instance": of_run,
    }
    assert len({view["url_route"] for view in SlackwaterPlugin.external_views}) == len(views)
