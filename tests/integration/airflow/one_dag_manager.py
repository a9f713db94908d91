"""An auth manager for Airflow as the tests start it: `ann` may see the DAGs of one pipeline alone."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class OneDagManager(SimpleAuthManager):
    """Airflow's simple one, which knows no permissions on single DAGs, with one."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **request: Any) -> bool:
        is_hidden = details is not None and details.id and not details.id.startswith("departures")
        if user.username == "ann" and is_hidden:
            return False
        return super().is_authorized_dag(user=user, details=details, **request)
