"""The tasks of the DAGs of a whole warehouse. Each is one command that needs no Spark."""

import json
import subprocess
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from slackwater import args
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import CommandOperator, answer_of

# The exit code of `slackwater health` where a pipeline is red.
_RED = 1


class PipelinesOperator(BaseOperator):
    """The names of the pipelines of the warehouse that have run."""

    def __init__(self, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    def execute(self, context: Any) -> list[str]:
        healths = json.loads(_health(self.settings, as_json=True).stdout)
        names = [
            health["pipeline"] for health in healths if health["head"] is not None and health["is_registered"]
        ]
        self.log.info("pipelines that have run: %s", ", ".join(names) or "none")
        return names


class MaintainOperator(CommandOperator):
    """Runs `slackwater maintain`, its output in the task's log."""

    template_fields = ("pipeline",)

    def __init__(self, *, pipeline: str, settings: Settings, **kwargs: Any) -> None:
        super().__init__(settings=settings, **kwargs)
        self.pipeline = pipeline

    def execute(self, context: Any) -> None:
        self.run_command(args.maintain(self.pipeline, **self.settings.places))


class HealthOperator(BaseOperator):
    """Fails, without a retry, while a pipeline of the warehouse is red."""

    def __init__(self, *, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.settings = settings

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException with the reasons, or as `require_success`."""
        table = _health(self.settings, as_json=False)
        for line in table.stdout.splitlines():
            self.log.info("%s", line)
        if table.returncode == _RED:
            healths = json.loads(_health(self.settings, as_json=True).stdout)
            reasons = [
                f"{health['pipeline']}: {reason}"
                for health in healths
                if health["health"] == "red"
                for reason in health["reasons"]
            ]
            raise AirflowFailException(self.settings.with_places("; ".join(reasons)))


def _health(settings: Settings, *, as_json: bool) -> subprocess.CompletedProcess[str]:
    """What `slackwater health` says. Raises as `require_success` does, for other exit codes than 0 and 1."""
    arguments = args.health(as_json=as_json, **settings.places)
    return answer_of(settings, arguments, answers=(0, _RED))
