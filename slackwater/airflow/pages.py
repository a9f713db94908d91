"""The inspector's pages for Airflow's users: each page for those who are signed in, and what belongs to a
pipeline for those who may see its DAG.

Nothing else in airflow/ knows the pages. Only Airflow's API server imports them, at the first request.
"""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.models.dag import DagModel
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from anyio import from_thread
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from slackwater.airflow.page_links import DAG_PAGE, DAG_RUN_PAGE, STAGED_RUN_KEY, airflow_path
from slackwater.airflow.settings import RESTATE, read
from slackwater.pages.app import create_app
from slackwater.pages.frame.links import link, same_page
from slackwater.pages.frame.site import AirflowLinks, RestateForm, site_of


def create_pages() -> FastAPI:
    settings = read()
    app = create_app(
        settings.warehouse,
        settings.pipelines,
        check_reader,
        AirflowLinks(dag=dag_url, restate_form=restate_form),
        examples=settings.examples,
    )
    app.get(DAG_PAGE, name="dag")(dag_page)
    app.get(DAG_RUN_PAGE, name="dag_run")(dag_run_page)
    return app


def check_reader(request: Request, pipeline: str | None) -> None:
    """Refuse a request whose sender is not signed in to Airflow, or may not see the DAG of `pipeline`. Called
    in a thread of the server, once for each pipeline of a page.

    Raises:
        HTTPException: 307 to Airflow's login for a browser that is not signed in, else 401 or 403.
    """
    user = _signed_in_user(request)
    if pipeline is None:
        return
    details = DagDetails(id=pipeline, team_name=DagModel.get_team_name(pipeline))
    if not get_auth_manager().is_authorized_dag(method="GET", details=details, user=user):
        raise HTTPException(403, f"Airflow does not show you the DAG {pipeline}.")


def _signed_in_user(request: Request) -> Any:
    """Airflow's user who has sent the request; found out once for each request."""
    if not hasattr(request.state, "slackwater_reader"):
        try:
            request.state.slackwater_reader = from_thread.run(_user_of, request)
        except HTTPException as error:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            login = f"{airflow_path()}/api/v2/auth/login?{urlencode({'next': same_page(request)})}"
            raise HTTPException(307, headers={"Location": login}) from error
    return request.state.slackwater_reader


async def _user_of(request: Request) -> Any:
    return await get_user(request, None, await bearer_scheme(request))


def dag_url(dag_id: str) -> str:
    """The page of a DAG in Airflow. Of one that is not there Airflow says so."""
    return f"{airflow_path()}/dags/{dag_id}"


def restate_form(pipeline: str, start: datetime, end: datetime) -> RestateForm:
    """A pipeline's restate DAG, and the parameters for the arrivals [start, end); a URL can't set them."""
    bounds = {"from": start.astimezone(UTC).isoformat(), "to": end.astimezone(UTC).isoformat()}
    dag_id = pipeline + RESTATE
    return RestateForm(dag_id, dag_url(dag_id), json.dumps(bounds))


def dag_page(request: Request, dag_id: str) -> Response:
    """To the page of the pipeline that a DAG is of."""
    pipeline = _pipeline_of(request, dag_id)
    return RedirectResponse(link(request, "pipeline", pipeline=pipeline), status_code=303)


def dag_run_page(request: Request, dag_id: str, run_id: str) -> Response:
    """To the page of the run that a DAG run has staged last, or of the pipeline where it has staged none."""
    pipeline = _pipeline_of(request, dag_id)
    last_run_id = staged_run_id(dag_id, run_id)
    if last_run_id is None:
        return RedirectResponse(link(request, "pipeline", pipeline=pipeline), status_code=303)
    url = link(request, "attempt", pipeline=pipeline, run_id=last_run_id)
    return RedirectResponse(url, status_code=303)


def _pipeline_of(request: Request, dag_id: str) -> str:
    """The pipeline of a DAG. Raises HTTPException: 403 if the sender may not see it, 404 if it isn't ours."""
    site, pipeline = site_of(request), dag_id.removesuffix(RESTATE)
    for name in {dag_id, pipeline}:
        site.check(request, name)
    if pipeline not in site.names():
        raise HTTPException(404, f"The DAG {dag_id} is not of a pipeline of Slackwater.")
    return pipeline


def staged_run_id(dag_id: str, run_id: str) -> str | None:
    """The id of the last run that a DAG run has staged, as its tasks have left it in Airflow's database."""
    query = XComModel.get_many(run_id=run_id, dag_ids=dag_id, key=STAGED_RUN_KEY, limit=1)
    with create_session() as session:
        message = session.scalars(query).first()
    return None if message is None else XComModel.deserialize_value(message)
