"""The task `publish`: makes the validated run live by a command that needs no Spark.

The commit and its races belong to the command; a task that is killed or run twice changes nothing.
"""

from typing import Any

from slackwater.dags.page_links import RunPageLink
from slackwater.dags.settings import Settings
from slackwater.dags.tasks.commands import CommandOperator
from slackwater.dags.tasks.openlineage import parent_run_variables
from slackwater.dags.tasks.validate import ACCEPTED_KEY
from slackwater.jobs import args


class PublishOperator(CommandOperator):
    """Runs `slackwater publish`, its output in the task's log.

    Args:
        run_id: the run id that `validate` returned (an XComArg); None when nothing was staged.
    """

    template_fields = ("run_id",)
    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, pipeline: str, run_id: Any, settings: Settings, **kwargs: Any) -> None:
        super().__init__(settings=settings, **kwargs)
        self.pipeline = pipeline
        self.run_id = run_id

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException for exit codes 1, 2, 4 and 5, AirflowException (another try) for any
        other but 0.
        """
        if self.run_id is None:
            self.log.info("nothing was staged: the range is covered already")
            return
        self.run_command(
            args.publish(
                self.pipeline,
                self.run_id,
                accept=context["ti"].xcom_pull(task_ids="validate", key=ACCEPTED_KEY),
                warehouse=self.settings.warehouse,
                pipelines=self.settings.pipelines,
            ),
            parent_run_variables(context),
        )
