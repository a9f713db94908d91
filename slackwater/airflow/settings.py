"""Every parameter of the DAGs, in one place: what a DAG file gives `dags`, environment variables of Airflow's
processes, read at each parse, and what a team sets beside what its pipelines declare: values of Airflow's
own.

Not Airflow Variables, which would cost each parse a query. No credentials: those are in the environment or in
Airflow's connections.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowNotFoundException

from slackwater import args
from slackwater.airflow.connections import SlackwaterHook, UnusableConnection
from slackwater.pipelines import Pipeline
from slackwater.pipelines.registry import split_pipelines


@dataclass(frozen=True, kw_only=True)
class DagOptions:
    """Options of the DAGs of a pipeline.

    Args:
        tags: beside `slackwater`.
        by_sources: whether the DAG runs when all its sources' assets have events, instead of on schedule.
        on: where slices are replayed, in place of what the pipeline declares: by Spark's tasks (``spark``),
            without Spark's tasks (``here``), or as their size says (``auto``).
        default_args: of every task, over ours: owner, queue, executor, execution_timeout, callbacks, retries.
        dag_args: other arguments of Airflow's `DAG`: callbacks, deadline, owner_links, access_control.
        on_overdue: Airflow's `SyncCallback` or `AsyncCallback`, called when an unfinished run is as long
            overdue as makes its pipeline red (`Health.overdue`).
        approval: arguments of Airflow's `ApprovalOperator` where the pipeline asks for approval:
            response_timeout, defaults, assigned_users, notifiers.
    """

    tags: Sequence[str] = ()
    by_sources: bool = False
    on: Literal["auto", "here", "spark"] | None = None
    default_args: Mapping[str, Any] = field(default_factory=dict)
    dag_args: Mapping[str, Any] = field(default_factory=dict)
    on_overdue: Any = None
    approval: Mapping[str, Any] = field(default_factory=dict)

    def dag_arguments(self, default_args: Mapping[str, Any]) -> dict[str, Any]:
        """These as arguments of a DAG whose tasks have `default_args` unless they say otherwise."""
        return {
            **self.dag_args,
            "tags": ["slackwater", *self.tags],
            "default_args": {**default_args, **self.default_args},
        }


# A run that comes before its source has settled is tried again.
LEAST_RETRIES = 3
_FIRST_DELAY, _LONGEST_DELAY = timedelta(minutes=1), timedelta(hours=1)
# What the id of a restate DAG has behind the name of its pipeline.
RESTATE = "__restate"


class SettingsError(ValueError):
    """A variable cannot be used; Airflow shows the message as the import error of the DAG file."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of the DAGs and their variables. Paths are on the machine that runs the tasks.

    Args:
        warehouse: SLACKWATER_WAREHOUSE, a folder or a URI.
        pipelines: SLACKWATER_PIPELINES, the user's files, modules and folders, with commas; None for none.
        examples: SLACKWATER_EXAMPLES, whether the examples get DAGs as well.
        spark_bin: SLACKWATER_SPARK_BIN, the bin folder of the environment that holds Spark and slackwater;
            Airflow's own by default.
        spark_connection: SLACKWATER_SPARK_CONNECTION, the Airflow connection that names the Spark master.
        connection: SLACKWATER_CONNECTION, the id of the Airflow connection that opens the warehouse's
            storage; None for none. One of type `slackwater` may also say where the warehouse is, and which
            Spark works on it where `spark_connection` is absent.
        spark_conf: SLACKWATER_SPARK_CONF, Spark properties, as a variable a JSON object; they win over ours.
        pool: SLACKWATER_POOL, the Airflow pool of the tasks that start Spark.
        manifests: SLACKWATER_MANIFESTS, where a command leaves its outcome for the task that started it: a
            folder of the worker; where Spark's driver runs in a cluster, a URI, or a folder that both share.
        driver_pipelines: SLACKWATER_DRIVER_PIPELINES, where drivers in a cluster find the pipelines; None for
            the paths of `pipelines`.
        retries: SLACKWATER_RETRIES, at least `LEAST_RETRIES`.
        retry_delay: SLACKWATER_RETRY_MINUTES; a pipeline that settles more slowly waits longer.
        upkeep: SLACKWATER_UPKEEP, the prefix of the warehouse's own DAGs' ids, one for each warehouse.
        maintain_schedule, health_schedule: SLACKWATER_MAINTAIN_SCHEDULE, SLACKWATER_HEALTH_SCHEDULE, cron
            expressions or presets, UTC.
    """

    warehouse: str
    pipelines: str | None
    examples: bool
    spark_bin: Path
    spark_connection: str
    connection: str | None
    spark_conf: Mapping[str, str]
    pool: str
    manifests: Path | str
    driver_pipelines: str | None
    retries: int
    retry_delay: timedelta
    upkeep: str
    maintain_schedule: str
    health_schedule: str

    def retry_delay_of(self, pipeline: Pipeline) -> timedelta:
        """Long enough that the next try of a replay finds the source settled."""
        return max(self.retry_delay, pipeline.settle)

    @property
    def default_args(self) -> dict[str, Any]:
        """Retries of tasks, with growing delays; a task that another try would end alike fails at once."""
        return {
            "retries": self.retries,
            "retry_delay": min(self.retry_delay, _FIRST_DELAY),
            "retry_exponential_backoff": 2,
            "max_retry_delay": max(self.retry_delay, _LONGEST_DELAY),
        }

    def uri_of(self, table: str) -> str:
        """The URI of a table: below the warehouse, unless it is one already, or an absolute path."""
        if "://" in table:
            return table
        if Path(table).is_absolute():
            return Path(table).as_uri()
        root = self.warehouse if "://" in self.warehouse else Path(self.warehouse).as_uri()
        return f"{root.rstrip('/')}/{table}"

    def with_places(self, text: str) -> str:
        """`text`, in which each command of ours names the warehouse and the pipelines."""
        return args.with_places(text, **self.places)

    @property
    def places(self) -> dict[str, Any]:
        """The arguments that every command line of ours has."""
        return {"warehouse": self.warehouse, "pipelines": self.pipelines}

    def manifest(self, dag_id: str) -> str:
        """Where the command of a DAG run leaves its outcome: one file per run, written anew by each try."""
        return f"{self.manifests}/{dag_id}/{{{{ run_id }}}}.json"


def read(environment: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """The settings of this process; overrides, unless None, replace its variables. Raises SettingsError."""
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if unknown_names := overrides.keys() - {field.name for field in fields(Settings)}:
        names = ", ".join(field.name for field in fields(Settings))
        raise SettingsError(f"there is no setting {', '.join(sorted(unknown_names))}; there are {names}.")

    def variable(name: str, default: str | Path = "") -> str:
        return environment.get(name) or str(default)

    home = Path(environment.get("AIRFLOW_HOME") or Path.home() / "airflow")
    connection = overrides.pop("connection", None) or variable("SLACKWATER_CONNECTION") or None
    warehouse = overrides.pop("warehouse", None) or variable("SLACKWATER_WAREHOUSE")
    pipelines = overrides.pop("pipelines", None) or variable("SLACKWATER_PIPELINES")
    for name, kind in (("spark_bin", Path), ("manifests", _folder_or_uri)):
        if name in overrides:
            overrides[name] = kind(overrides[name])
    minutes = _number("SLACKWATER_RETRY_MINUTES", variable("SLACKWATER_RETRY_MINUTES", "10"), least=0)
    settings = Settings(
        warehouse=_absolute_warehouse(warehouse or _warehouse_of(connection)),
        pipelines=_absolute(split_pipelines(pipelines) if isinstance(pipelines, str) else pipelines),
        examples=_claim("SLACKWATER_EXAMPLES", variable("SLACKWATER_EXAMPLES", "false")),
        spark_bin=Path(variable("SLACKWATER_SPARK_BIN", Path(sys.executable).parent)),
        spark_connection=variable("SLACKWATER_SPARK_CONNECTION", "slackwater_spark"),
        connection=connection,
        spark_conf=_properties(variable("SLACKWATER_SPARK_CONF", "{}")),
        pool=variable("SLACKWATER_POOL", "default_pool"),
        manifests=_folder_or_uri(variable("SLACKWATER_MANIFESTS", home / "manifests")),
        driver_pipelines=variable("SLACKWATER_DRIVER_PIPELINES") or None,
        retries=_number("SLACKWATER_RETRIES", variable("SLACKWATER_RETRIES", "3"), least=LEAST_RETRIES),
        retry_delay=timedelta(minutes=minutes),
        upkeep=variable("SLACKWATER_UPKEEP", "slackwater"),
        maintain_schedule=variable("SLACKWATER_MAINTAIN_SCHEDULE", "@weekly"),
        health_schedule=variable("SLACKWATER_HEALTH_SCHEDULE", "@hourly"),
    )
    settings = replace(settings, **overrides)
    if settings.retries < LEAST_RETRIES:
        raise SettingsError(f"retries is {settings.retries}; it is a whole number, at least {LEAST_RETRIES}.")
    return settings


def _absolute_warehouse(warehouse: str | None) -> str:
    if not warehouse:
        raise SettingsError(
            "there is no warehouse: give dags(warehouse=…), set SLACKWATER_WAREHOUSE, or name by "
            "SLACKWATER_CONNECTION an Airflow connection that says where it is."
        )
    return warehouse if "://" in warehouse else str(Path(warehouse).expanduser().absolute())


def _warehouse_of(connection: str | None) -> str | None:
    """The warehouse that an Airflow connection names. Costs each parse a query, so it is asked last."""
    if connection is None:
        return None
    try:
        return SlackwaterHook(connection).warehouse
    except (AirflowNotFoundException, UnusableConnection) as error:
        raise SettingsError(f"SLACKWATER_CONNECTION: {error}") from error


def _folder_or_uri(location: str | Path) -> Path | str:
    text = str(location)
    return text.rstrip("/") if "://" in text else Path(text)


def _absolute(pipelines: Sequence[str]) -> str | None:
    """Files and folders by absolute paths, since tasks run in their own folders; modules unchanged."""
    parts = []
    for part in pipelines:
        if "://" in part:
            raise SettingsError(
                f"{part}: DAGs are declared by pipelines of this machine, by path or module. "
                "SLACKWATER_DRIVER_PIPELINES says where drivers in a cluster find theirs, also by URI."
            )
        path = Path(part).expanduser()
        parts.append(str(path.absolute()) if part.endswith(".py") or path.is_dir() else part)
    return ",".join(parts) or None


def _claim(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise SettingsError(f"{name} is {text!r}; it is true or false.")
    return text == "true"


def _number(name: str, text: str, *, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise SettingsError(f"{name} is {text!r}; it is a whole number, at least {least}.")
    return int(text)


def _properties(text: str) -> Mapping[str, str]:
    try:
        properties = json.loads(text)
    except ValueError as error:
        raise SettingsError(
            f'SLACKWATER_SPARK_CONF is no JSON ({error}); write {{"spark.executor.memory": "4g"}}.'
        ) from error
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise SettingsError(
            f'SLACKWATER_SPARK_CONF is {text!r}; it is a JSON object of strings: {{"spark.executor.memory": '
            '"4g"}.'
        )
    return properties
