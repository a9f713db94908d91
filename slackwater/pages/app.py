"""Puts the pages together as one ASGI application, which `slackwater serve` serves and Airflow mounts. Every
page is a file with a router; all of them look, none changes anything.
"""

from fastapi import Depends, FastAPI
from fastapi.middleware.gzip import GZipMiddleware

from slackwater.pages import (
    attempt_page,
    diff_page,
    history_page,
    lateness_page,
    pipeline_page,
    run_page,
    sql_page,
    state_page,
    warehouse_page,
    window_page,
)
from slackwater.pages.frame import static_files
from slackwater.pages.frame.failures import handle_failures
from slackwater.pages.frame.headers import HeadAsGet, SecurityHeaders
from slackwater.pages.frame.site import AirflowLinks, Authorize, Site, check_sender

# Fixed paths come before `/{pipeline}`.
ROUTERS = (
    static_files.router,
    warehouse_page.router,
    diff_page.router,
    run_page.router,
    attempt_page.router,
    lateness_page.router,
    state_page.router,
    sql_page.router,
    history_page.router,
    window_page.router,
    pipeline_page.router,
)


def create_app(
    warehouse: str | None,
    pipelines: str | None,
    authorize: Authorize | None = None,
    airflow: AirflowLinks | None = None,
    *,
    examples: bool = True,
) -> FastAPI:
    """The pages of a warehouse, to be served or mounted under any prefix.

    Args:
        authorize: called with each request and the pipeline that it asks for, or None for a page about no
            single one; raises HTTPException where its sender may not see that.
        airflow: links into the Airflow that shows these pages.
        examples: whether the examples are among the pipelines.
    """
    app = FastAPI(
        title="Slackwater",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(check_sender)],
    )
    app.state.site = Site(
        warehouse_uri=warehouse,
        pipelines=pipelines,
        authorize=authorize,
        airflow=airflow,
        examples=examples,
    )
    for router in ROUTERS:
        app.include_router(router)
    handle_failures(app)

    app.add_middleware(SecurityHeaders)
    app.add_middleware(GZipMiddleware, minimum_size=1024)
    app.add_middleware(HeadAsGet)
    return app
