"""A task that runs one of our commands, and gives what its manifest says to the task behind it.

This file says where a command runs; the verb says what it does. spark-submit hides exit codes, so the outcome
comes back in the manifest.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow.providers.common.compat.sdk import conf as airflow_settings
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import Connection, ObjectStoragePath
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from slackwater.airflow.page_links import STAGED_RUN_KEY, SUMMARY_KEY, RunPageLink, run_page_path, whole_url
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import (
    command_of,
    environment_of,
    parent_run_variables,
    variables_of_connection,
)
from slackwater.airflow.tasks.spark_application import SparkApplication, SparkApplicationTrigger
from slackwater.airflow.tasks.spark_environment import (
    has_driver_in_cluster,
    master_of,
    spark_connection,
    variables_of_spark,
)
from slackwater.args import Manifest, ManifestError, manifest_fields, manifest_of, read_manifest
from slackwater.pipelines import Pipeline

# Files of this package, which spark-submit is given by their paths.
SPARK_SUBMIT = Path(__file__).parents[1] / "spark-submit"
# Of a variable of a driver or an executor that a cluster starts.
_PREFIXES = ("spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv", "spark.executorEnv")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", " ": "\\ "})  # of Java's properties files
# The exit code of a command that was asked for what cannot be: no such pipeline, a file that can't be loaded.
_USAGE = 2
# Outcomes that fail the task itself: a person must decide, or another try would end the same way.
ENDED_EARLY = ("refused", "failed", "lost")
# Variables of a command: the process with which it ends, and the file for all that Spark says.
PARENT, SPARK_LOG_FILE = "SLACKWATER_PARENT", "SLACKWATER_SPARK_LOG_FILE"


def _applications() -> Path:
    """The folder of the PySpark applications: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parents[2]
    return package / "jobs" if (package / "jobs").is_dir() else package.parent / "jobs"


# Verb → the PySpark application that is submitted for it.
APPLICATIONS = MappingProxyType(
    {verb: _applications() / name for verb, name in {"run": "replay.py", "backfill": "backfill.py"}.items()}
)


class JobOperator(SparkApplication):
    """Runs `slackwater` with (templated) arguments, and returns the fields of its manifest; a line of it ends
    the log and is an XCom.

    Where there is a connection of Spark the command is a PySpark application, which Airflow's own operator
    submits. In deploy mode client, which a connection has unless it says otherwise, its driver runs on the
    worker, and ends when the task does. In deploy mode cluster the operator follows it, and finds it again
    after a restart; where it is deferrable, Airflow's triggerer waits for it, and the task holds no slot
    meanwhile. Without a connection the command is a process of the task, which starts Spark for large slices
    alone.

    Args:
        arguments: the command line behind `slackwater`, with --manifest.
        before_try: called with the task's context before each try, not when the task goes on after waiting;
            what it raises ends the try.
        deferrable: whether the triggerer awaits a Spark application; by default Airflow's setting
            `operators.default_deferrable`.
    """

    operator_extra_links = (*SparkApplication.operator_extra_links, RunPageLink())

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        arguments: list[str],
        settings: Settings,
        before_try: Callable[[Any], None] | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        retry_delay = settings.retry_delay_of(pipeline)
        super().__init__(
            name=f"slackwater {pipeline.name}",
            conn_id=settings.spark_connection,
            spark_binary=str(SPARK_SUBMIT),
            application=str(APPLICATIONS[arguments[0]]),
            application_args=arguments[1:],
            conf=dict(settings.spark_conf),
            env_vars={"SLACKWATER_SPARK_BIN": str(settings.spark_bin)},
            pool=settings.pool,
            retry_delay=retry_delay,
            max_retry_delay=max(retry_delay, settings.default_args["max_retry_delay"]),
            **kwargs,
        )
        self.settings = settings
        self.timezone = pipeline.timezone
        self.verb = arguments[0]
        self.before_try = before_try
        if deferrable is None:
            deferrable = airflow_settings.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    @cached_property
    def process(self) -> SubprocessHook:
        """One per task process, so that `on_kill` finds the command that `execute` started."""
        return SubprocessHook()

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override]  # theirs: None
        """Raises AirflowException where another try may help, AirflowFailException where none would."""
        if self.before_try is not None:
            self.before_try(context)
        if self._manifest_file().exists():
            self.log.info("the command of an earlier try has ended, and its task did not hear of it")
        else:
            self._run(context)
        return self._hand_on(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        if not self._manifest_file().exists():
            self._require_success(event["status"])
        return self._hand_on(context)

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        """Wait for an application that was submitted: here, or by the triggerer."""
        connection = spark_connection(self.settings)
        if not self.deferrable or connection is None:
            return super().poll_until_complete(external_id, context)
        trigger = SparkApplicationTrigger(external_id, self.settings.spark_connection, master_of(connection))
        self.log.info("Airflow's triggerer waits for %s", external_id)
        self.defer(trigger=trigger, method_name=self.execute_complete.__name__)

    def is_job_succeeded(self, status: str) -> bool:
        """Of the application that Airflow has noted for this task: always False. One that ended well has left
        a manifest, which was looked for before; where there is none, a person has cleared the task, and it is
        submitted anew.
        """
        return False

    def _require_success(self, status: str | None) -> None:
        if status is None:
            raise AirflowException("must be tried again: the cluster does not say how the application is")
        if not super().is_job_succeeded(status):
            raise AirflowException(
                f"must be tried again: the application has ended as {status}; its log is the cluster's"
            )

    def _hand_on(self, context: Any) -> dict[str, Any]:
        manifest = self._manifest_file()
        try:
            outcome = read_manifest(manifest)
        except ManifestError as error:
            raise AirflowFailException(str(error)) from error
        manifest.unlink()
        outcome = replace(outcome, message=self.settings.with_places(outcome.message))
        ti = context["ti"]
        self.log.info("its page: %s", whole_url(run_page_path(ti.dag_id, ti.run_id)))
        summary = outcome.summary(self.timezone)
        for line in summary.splitlines():
            self.log.info("%s", line)
        ti.xcom_push(SUMMARY_KEY, summary)
        ti.xcom_push(STAGED_RUN_KEY, outcome.run_id)
        if outcome.outcome in ENDED_EARLY:
            # The next task reads which slices were staged before that.
            ti.xcom_push(BaseXCom.XCOM_RETURN_KEY, manifest_fields(outcome))
            raise AirflowFailException(sentence_of(outcome))
        return manifest_fields(outcome)

    def on_kill(self) -> None:
        if self.process.sub_process is not None:
            self.process.send_sigterm()
        else:
            super().on_kill()

    def forget_manifest(self) -> None:
        """Remove an earlier try's manifest, unless it is a success that its killed task did not hand on."""
        manifest = self._manifest_file()
        try:
            outcome = read_manifest(manifest)
        except ManifestError:
            outcome = None
        if outcome is None or outcome.exit_code != 0 or outcome.verdict == "failed":
            manifest.unlink(missing_ok=True)

    def _run(self, context: Any) -> None:
        self.env_vars = {**(self.env_vars or {}), **parent_run_variables(context)}
        connection = spark_connection(self.settings)
        if connection is None:
            self._run_here()
        elif has_driver_in_cluster(connection):
            self._run_in_cluster(connection, context)
        else:
            self._run_in_client(context)

    def _run_in_cluster(self, connection: Connection, context: Any) -> None:
        """Run on the cluster; a private file hands over storage's variables, as command lines are public."""
        self.follow_by(master_of(connection))
        arguments: list[str] = list(self.application_args or [])
        if self.settings.driver_pipelines is not None and "--pipelines" in arguments:
            arguments[arguments.index("--pipelines") + 1] = self.settings.driver_pipelines
        self.application_args = arguments
        variables = self._storage_variables()
        with tempfile.NamedTemporaryFile("w", prefix="slackwater-", suffix=".conf") as file:
            if variables:
                file.write(properties_of(variables))
                file.flush()
                self.properties_file = file.name
            try:
                super().execute(context)
            except ValueError as error:  # of a connection that lacks what following needs
                raise AirflowFailException(str(error)) from error

    def _run_in_client(self, context: Any) -> None:
        """Run the driver in the task's process; storage's variables are in its environment, not arguments."""
        variables = {**self._storage_variables(), PARENT: str(os.getpid()), **self._spark_log()}
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            super().execute(context)
        except AirflowException as error:
            if getattr(self._submission, "returncode", None) == _USAGE:
                raise AirflowFailException(str(error)) from error
            raise
        finally:
            if self._submission is not None:
                self._submission.stdout.close()  # which their hook leaves open
            os.environ.clear()
            os.environ.update(before)

    @property
    def _submission(self) -> Any:
        """The process of spark-submit; None before there is one."""
        return None if self._hook is None else self._hook._submit_sp

    def _storage_variables(self) -> dict[str, str]:
        """The variables that open the storage. What their connection says of Spark becomes conf of ours."""
        variables = dict(variables_of_connection(self.settings))
        variables.pop("SLACKWATER_MASTER", None)
        conf = json.loads(variables.pop("SLACKWATER_SPARK_CONF", "{}"))
        self.conf = {**conf, **(self.conf or {})}
        return variables

    def _spark_log(self) -> dict[str, str]:
        """The variable of the file for all that Spark says: beside the manifest, unless it is set."""
        manifest = self._manifest_file()
        if isinstance(manifest, Path) and SPARK_LOG_FILE not in os.environ:
            return {SPARK_LOG_FILE: str(manifest.with_name("spark.log"))}
        return {}

    def _manifest_file(self) -> Path | ObjectStoragePath:
        """A file of this worker, or by URI one of a store, which Airflow opens."""
        arguments: list[str] = self.application_args or []
        location = arguments[arguments.index("--manifest") + 1]
        return ObjectStoragePath(location) if "://" in location else Path(location)

    def _run_here(self) -> None:
        environment = {
            **environment_of(self.settings),
            **(self.env_vars or {}),
            **variables_of_spark(self.settings, self.conf or {}),
            **self._spark_log(),
        }
        command = command_of(self.settings, [self.verb, *(self.application_args or [])])
        result = self.process.run_command(command, env=environment)
        if result.exit_code == _USAGE:
            raise AirflowFailException(result.output)
        if result.exit_code != 0:
            raise AirflowException(f"must be tried again (exit {result.exit_code}): {result.output}")


def require_outcome(manifest: Any) -> Manifest:
    """The outcome that a task has returned as fields. Raises AirflowFailException: they are none."""
    try:
        return manifest_of(manifest)
    except ManifestError as error:
        raise AirflowFailException(str(error)) from error


def sentence_of(outcome: Manifest) -> str:
    """How a command has ended, for the failure of a task."""
    return f"{outcome.outcome} (exit {outcome.exit_code}): {outcome.message}"


def properties_of(variables: Mapping[str, str]) -> str:
    """A properties file of Spark that gives these variables to driver and executors of YARN or Kubernetes."""
    return "".join(
        f"{prefix}.{name}={value.translate(_ESCAPES)}\n"
        for name, value in variables.items()
        for prefix in _PREFIXES
    )
