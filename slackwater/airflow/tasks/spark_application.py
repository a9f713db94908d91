"""Waits for a Spark application whose driver runs in a cluster, and ends it, where no task process does.

How a cluster is asked (YARN's resource manager, the API of Kubernetes) is what Airflow's Spark provider does.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

POLL_SECONDS = 20.0
# After so many questions without an answer, one after the other, the task itself is tried again.
_PATIENCE = 10


class SparkApplication(SparkSubmitOperator):
    """Follows its application by the cluster's interfaces, for which no spark-submit needs to stay."""

    def follow_by(self, master: str) -> None:
        """Choose the interface by which the application is followed, before it is submitted."""
        self._yarn_track_via_rm_api = "yarn" in master
        self._track_driver_via_k8s_api = "k8s" in master

    def kill_application(self, application_id: str) -> None:
        """End an application that another process has submitted; does nothing where it has ended."""
        backend = self._backend
        if backend.hook._is_yarn_cluster_mode:
            backend.hook._yarn_application_id = application_id
        else:
            namespace, pod = self._parse_k8s_external_id(application_id)
            backend.hook._connection["namespace"] = namespace
            backend.hook._kubernetes_driver_pod = pod
        backend.on_kill()


class SparkApplicationTrigger(BaseTrigger):
    """Waits in Airflow's triggerer for an application's end, and ends it when a person stops the task. Its
    one event is `{"status": …}`, in the cluster's words, or None if that does not answer.
    """

    def __init__(
        self, application_id: str, connection: str, master: str, poll_seconds: float = POLL_SECONDS
    ) -> None:
        super().__init__()
        self.application_id = application_id
        self.connection = connection
        self.master = master
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "application_id": self.application_id,
            "connection": self.connection,
            "master": self.master,
            "poll_seconds": self.poll_seconds,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        failures = 0
        while True:
            try:
                status, is_active = await asyncio.to_thread(self._status)
            except Exception as error:  # noqa: BLE001  # each cluster has a client with errors of its own
                failures += 1
                self.log.warning("%s: the cluster does not answer: %s", self.application_id, error)
                if failures == _PATIENCE:
                    yield TriggerEvent({"status": None})
                    return
            else:
                failures = 0
                if not is_active:
                    yield TriggerEvent({"status": status})
                    return
            await asyncio.sleep(self.poll_seconds)

    async def on_kill(self) -> None:
        """Airflow calls this when a person clears the task or marks it while it waits."""
        await asyncio.to_thread(self._kill)

    def _status(self) -> tuple[str, bool]:
        application = self._application()
        status = application.get_job_status(self.application_id, {})
        return status, application.is_job_active(status)

    def _kill(self) -> None:
        self._application().kill_application(self.application_id)

    def _application(self) -> SparkApplication:
        application = SparkApplication(task_id="application", conn_id=self.connection)
        application.follow_by(self.master)
        return application
