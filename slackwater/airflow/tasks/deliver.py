"""The tasks `deliver_<sink>`: deliver published corrections to a sink, by a command that needs no Spark.

A sink that is down fails its own task alone, which is tried again; what it lacks is delivered by whichever
try comes first, of this run or a later one.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook

from slackwater import args
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import NO_VARIABLES, CommandOperator
from slackwater.pipelines import Pipeline

AIRFLOW = "airflow:"  # a sink's URL that names an Airflow connection begins so


def deliver(pipeline: Pipeline, settings: Settings) -> list["DeliverOperator"]:
    return [
        DeliverOperator(
            task_id=f"deliver_{sink.name}",
            pipeline=pipeline.name,
            sink=sink.name,
            url=getattr(sink, "url", ""),
            settings=settings,
        )
        for sink in pipeline.sinks
    ]


class DeliverOperator(CommandOperator):
    """Runs `slackwater sinks deliver` for one sink, with its connection for a `url` ``airflow:CONN_ID``."""

    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, pipeline: str, sink: str, url: str, settings: Settings, **kwargs: Any) -> None:
        super().__init__(settings=settings, **kwargs)
        self.pipeline = pipeline
        self.sink = sink
        self.url = url

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException for a sink declared wrongly, AirflowException (retry) for one down."""
        arguments = args.deliver(self.pipeline, self.sink, **self.settings.places)
        self.run_command(arguments, self._variables())

    def _variables(self) -> Mapping[str, str]:
        """The Airflow connection that the sink's URL names, as a variable of the command."""
        if not self.url.startswith(AIRFLOW):
            return NO_VARIABLES
        name = self.url.removeprefix(AIRFLOW)
        return {f"AIRFLOW_CONN_{name.upper()}": BaseHook.get_connection(name).get_uri()}
