"""Every parameter of the DAGs, in one place: environment variables of Airflow's processes, read at each
parse.

Not Airflow Variables, which would cost each parse a query. No credentials: those are in the environment or in
Airflow's connections.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.registry import Registry, load

ROOT = Path(__file__).resolve().parents[1]


class SettingsError(ValueError):
    """A variable cannot be used; Airflow shows the message as the import error of the DAG file."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of the DAGs and the variables that set them. Paths are those of the machine that runs
    the tasks.

    Args:
        warehouse: SLACKWATER_WAREHOUSE, a folder or a URI.
        pipelines: SLACKWATER_PIPELINES, the user's own file or module; None for none.
        examples: SLACKWATER_EXAMPLES, whether the examples get DAGs as well.
        spark_bin: SLACKWATER_SPARK_BIN, the bin folder of the environment that holds Spark and slackwater;
            Airflow's own by default.
        spark_connection: SLACKWATER_SPARK_CONNECTION, the id of the Airflow connection that names the Spark
            master.
        spark_conf: SLACKWATER_SPARK_CONF, a JSON object of Spark properties; they win over ours.
        pool: SLACKWATER_POOL, the Airflow pool of the tasks that start Spark.
        manifests: SLACKWATER_MANIFESTS, a folder that all workers share.
        retries: SLACKWATER_RETRIES, at least 3: a run that comes before its source has settled is tried
            again.
        retry_delay: SLACKWATER_RETRY_MINUTES; a pipeline that settles more slowly waits longer.
    """

    warehouse: str
    pipelines: str | None
    examples: bool
    spark_bin: Path
    spark_connection: str
    spark_conf: Mapping[str, str]
    pool: str
    manifests: Path
    retries: int
    retry_delay: timedelta

    def retry_delay_of(self, pipeline: Pipeline) -> timedelta:
        """Long enough that the next try finds the source settled."""
        return max(self.retry_delay, pipeline.settle)

    def published_uri(self, pipeline: str) -> str:
        """The URI of the table that readers of `pipeline` read."""
        root = self.warehouse if "://" in self.warehouse else Path(self.warehouse).as_uri()
        return f"{root.rstrip('/')}/{pipeline}/published"


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this process. Raises SettingsError."""
    home = Path(environment.get("AIRFLOW_HOME") or Path.home() / "airflow")
    warehouse = environment.get("SLACKWATER_WAREHOUSE") or str(ROOT / "var" / "warehouse")
    return Settings(
        warehouse=warehouse if "://" in warehouse else str(Path(warehouse).expanduser().absolute()),
        pipelines=_absolute(environment.get("SLACKWATER_PIPELINES") or None),
        examples=_claim("SLACKWATER_EXAMPLES", environment.get("SLACKWATER_EXAMPLES") or "false"),
        spark_bin=Path(environment.get("SLACKWATER_SPARK_BIN") or Path(sys.executable).parent),
        spark_connection=environment.get("SLACKWATER_SPARK_CONNECTION") or "slackwater_spark",
        spark_conf=_properties(environment.get("SLACKWATER_SPARK_CONF") or "{}"),
        pool=environment.get("SLACKWATER_POOL") or "default_pool",
        manifests=Path(environment.get("SLACKWATER_MANIFESTS") or home / "manifests"),
        retries=_number("SLACKWATER_RETRIES", environment.get("SLACKWATER_RETRIES") or "3", least=3),
        retry_delay=timedelta(
            minutes=_number(
                "SLACKWATER_RETRY_MINUTES", environment.get("SLACKWATER_RETRY_MINUTES") or "10", least=0
            )
        ),
    )


def pipelines_with_dags(settings: Settings) -> Registry:
    """The pipelines that get DAGs: the user's, and the examples where they are asked for."""
    return load(settings.pipelines, examples=settings.examples)


def _absolute(pipelines: str | None) -> str | None:
    """A file by its absolute path, since tasks run in folders of their own; a module as it is."""
    return (
        str(Path(pipelines).expanduser().absolute()) if pipelines and pipelines.endswith(".py") else pipelines
    )


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
