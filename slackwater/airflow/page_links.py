"""Where the inspector's pages are inside Airflow, for the plugin that serves them and the tasks' links."""

from typing import Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

PREFIX = "/slackwater"
# Below the prefix: to the page of what a DAG, or a run of one, is about.
DAG_PAGE = "/-/dags/{dag_id}"
DAG_RUN_PAGE = "/-/dags/{dag_id}/runs/{run_id}"
# Key of the XCom by which `replay` and `restate` tell the id of the run that was staged last.
STAGED_RUN_KEY = "staged_run_id"
# Key of the XCom in which a replay or restatement tells in two lines what it has done.
SUMMARY_KEY = "summary"


def whole_url(path: str) -> str:
    """The URL of a path below Airflow's, for use elsewhere; just the path without a base URL of Airflow."""
    return (conf.get("api", "base_url", fallback="") or "").rstrip("/") + path


def airflow_path() -> str:
    """The path below which Airflow is served, without a final slash; "" where it has a host of its own."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class RunPageLink(BaseOperatorLink):
    """From a task to the page of the run that its DAG run has made, or is about to publish."""

    name = "Slackwater"

    def get_link(self, operator: object, *, ti_key: Any) -> str:
        """The URL, for which Airflow asks when the task ends, in the task's process."""
        return airflow_path() + run_page_path(ti_key.dag_id, ti_key.run_id)


def run_page_path(dag_id: str, run_id: str) -> str:
    return PREFIX + DAG_RUN_PAGE.format(dag_id=quote(dag_id, safe=""), run_id=quote(run_id, safe=""))
