"""A task that runs one of our commands, and gives what its manifest says to the task behind it.

This file says where a command runs; jobs says what it does. spark-submit hides exit codes, so the outcome
comes back in the manifest.
"""

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from slackwater.dags.page_links import SUMMARY_KEY, RunPageLink, run_page_path, whole_url
from slackwater.dags.settings import Settings
from slackwater.dags.tasks.commands import command_of, environment_of
from slackwater.dags.tasks.openlineage import parent_run_variables
from slackwater.jobs import args
from slackwater.jobs.args import ManifestError, manifest_fields, read_manifest
from slackwater.jobs.pipelines import Pipeline

# Files of this package, which spark-submit is given by their paths.
SPARK_SUBMIT = Path(__file__).parents[1] / "spark-submit"
# Of an Airflow connection → Spark's property, where it is not spark-submit that reads the connection.
PROPERTIES = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
# The exit code of a command that was asked for what cannot be: no such pipeline, a file that can't be loaded.
_USAGE = 2
APPLICATION = Path(args.__file__).parent / "submit" / "slackwater_job.py"


class JobOperator(SparkSubmitOperator):
    """Runs `slackwater` with (templated) arguments, and returns the fields of the manifest that they name; a
    line of it is the last of the log, and an XCom.

    Where Spark's driver runs on the worker (deploy mode client, which a connection has unless it says
    otherwise) the command is a process of the task: it starts Spark for large slices alone, and ends when the
    task does. In deploy mode cluster it is a Spark application, which Airflow's own operator follows, and
    finds again after a restart.

    Args:
        pipeline: the pipeline that the command is about.
        arguments: the command line behind `slackwater`, with --manifest.
    """

    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, RunPageLink())

    def __init__(
        self, *, pipeline: Pipeline, arguments: list[str], settings: Settings, **kwargs: Any
    ) -> None:
        retry_delay = settings.retry_delay_of(pipeline)
        super().__init__(
            name=f"slackwater {pipeline.name}",
            conn_id=settings.spark_connection,
            spark_binary=str(SPARK_SUBMIT),
            application=str(APPLICATION),
            application_args=arguments,
            conf=dict(settings.spark_conf),
            env_vars={"SLACKWATER_SPARK_BIN": str(settings.spark_bin)},
            pool=settings.pool,
            retry_delay=retry_delay,
            max_retry_delay=max(retry_delay, settings.default_args["max_retry_delay"]),
            **kwargs,
        )
        self.settings = settings

    @cached_property
    def process(self) -> SubprocessHook:
        """One per task process, so that `on_kill` finds the command that `execute` started."""
        return SubprocessHook()

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override]  # theirs: None
        """Raises AirflowException for what another try may mend, AirflowFailException where no outcome is
        left, or what is asked for cannot be.
        """
        manifest = Path(self._manifest())
        if manifest.exists():
            self.log.info("the command of an earlier try has ended, and its task did not hear of it")
        else:
            self._run(context)
        try:
            outcome = read_manifest(manifest)
        except ManifestError as error:
            raise AirflowFailException(str(error)) from error
        manifest.unlink()
        ti = context["ti"]
        self.log.info("its page: %s", whole_url(run_page_path(ti.dag_id, ti.run_id)))
        for line in outcome.summary.splitlines():
            self.log.info("%s", line)
        ti.xcom_push(SUMMARY_KEY, outcome.summary)
        return manifest_fields(outcome)

    def on_kill(self) -> None:
        """Airflow calls this when the task is stopped from outside."""
        if self.process.sub_process is not None:
            self.process.send_sigterm()
        else:
            super().on_kill()

    def forget_manifest(self) -> None:
        """Remove the manifest of an earlier try, unless that ended well: its task was killed before it could
        hand it on, and this try does.
        """
        manifest = Path(self._manifest())
        try:
            outcome = read_manifest(manifest)
        except ManifestError:
            outcome = None
        if outcome is None or outcome.exit_code != 0 or outcome.verdict == "failed":
            manifest.unlink(missing_ok=True)

    def _run(self, context: Any) -> None:
        self.env_vars = {**(self.env_vars or {}), **parent_run_variables(context)}
        connection = self._connection()
        if connection is not None and connection.extra_dejson.get("deploy-mode") == "cluster":
            super().execute(context)
        else:
            self._run_here(connection)

    def _manifest(self) -> str:
        arguments: list[str] = self.application_args or []
        return arguments[arguments.index("--manifest") + 1]

    def _connection(self) -> Connection | None:
        try:
            return BaseHook.get_connection(self.settings.spark_connection)
        except AirflowNotFoundException:  # Spark then runs in this process
            return None

    def _run_here(self, connection: Connection | None) -> None:
        environment = {**environment_of(self.settings), **(self.env_vars or {})}
        conf = json.loads(environment.get("SLACKWATER_SPARK_CONF") or "{}")
        environment["SLACKWATER_SPARK_CONF"] = json.dumps(
            {**conf, **conf_of(connection), **(self.conf or {})}
        )
        environment["SLACKWATER_PARENT"] = str(os.getpid())
        if connection is not None:
            environment["SLACKWATER_MASTER"] = master_of(connection)
        command = command_of(self.settings, self.application_args or [])
        result = self.process.run_command(command, env=environment)
        if result.exit_code == _USAGE:
            raise AirflowFailException(result.output)
        if result.exit_code != 0:
            raise AirflowException(f"must be tried again (exit {result.exit_code}): {result.output}")


def conf_of(connection: Connection | None) -> dict[str, str]:
    """What else Airflow's connections of type `spark` hold, as Spark's properties."""
    extra = {} if connection is None else connection.extra_dejson
    return {name: str(extra[key]) for key, name in PROPERTIES.items() if extra.get(key)}


def master_of(connection: Connection) -> str:
    """The Spark master that an Airflow connection of type `spark` names, in one of the two ways in which
    Airflow stores it.
    """
    host = connection.host or ""
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    url = host if is_whole else f"{connection.conn_type}://{host}"
    return f"{url}:{connection.port}" if connection.port else url
