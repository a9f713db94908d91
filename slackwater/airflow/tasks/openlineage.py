"""Hands a task's OpenLineage run to its command as the parent of the command's own run.

Does nothing where Airflow's provider for OpenLineage is not installed.
"""

import logging
from typing import Any

log = logging.getLogger(__name__)


def parent_run_variables(context: Any) -> dict[str, str]:
    """The variables of a process that name the run of the task that starts it, and that of its DAG run."""
    try:
        from airflow.providers.openlineage.plugins import macros
    except ImportError:
        return {}
    try:
        return {
            "OPENLINEAGE_PARENT_ID": macros.lineage_parent_id(context["ti"]),
            "OPENLINEAGE_ROOT_PARENT_ID": macros.lineage_root_parent_id(context["ti"]),
        }
    except Exception as error:  # noqa: BLE001 - no task fails because its run can't be named
        log.warning("OpenLineage: the command's run is told without its parent: %s", error)
        return {}
