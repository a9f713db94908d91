"""Puts the pages of the inspector into Airflow: below /slackwater, in the navigation, and as a tab of DAGs,
their runs and their tasks.

Airflow loads this file into each of its processes, so the pages are imported when the first one is asked for.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin
from anyio import to_thread

from slackwater.airflow.page_links import DAG_PAGE, DAG_RUN_PAGE, PREFIX

Application = Callable[..., Awaitable[None]]


class LazyPages:
    """The ASGI application that Airflow mounts: the pages, made when the first one is asked for."""

    def __init__(self) -> None:
        self._pages: Application | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if self._pages is None:
            self._pages = await to_thread.run_sync(_make_pages)
        await self._pages(scope, receive, send)


def _make_pages() -> Application:
    from slackwater.airflow.pages import create_pages

    return create_pages()


def _view(destination: str, page: str) -> dict[str, str]:
    """A place in Airflow's pages that shows one of ours; relative, as Airflow may be served below a path."""
    root = PREFIX.removeprefix("/")
    return {
        "name": "Slackwater",
        "destination": destination,
        "href": root + page,
        "url_route": f"slackwater-{destination}".replace("_", "-").removesuffix("-nav"),
        "icon": f"{root}/-/static/logo.svg",
    }


# Airflow fills in the names in braces.
_DAG_PAGE = DAG_PAGE.format(dag_id="{DAG_ID}")
_DAG_RUN_PAGE = DAG_RUN_PAGE.format(dag_id="{DAG_ID}", run_id="{RUN_ID}")


class SlackwaterPlugin(AirflowPlugin):
    """What Airflow finds by the entry point `airflow.plugins` of this package."""

    name = "slackwater"
    fastapi_apps = [{"app": LazyPages(), "url_prefix": PREFIX, "name": "Slackwater"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        _view("nav", "/"),
        _view("dag", _DAG_PAGE),
        _view("task", _DAG_PAGE),
        _view("dag_run", _DAG_RUN_PAGE),
        _view("task_instance", _DAG_RUN_PAGE),
    ]
