"""The task `publish`: makes the validated run live by a command that starts Spark for large runs alone.

The commit and its races belong to the command; a task that is killed or run twice changes nothing.
"""

from typing import Any

from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowSkipException

from slackwater import args
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import CommandOperator, parent_run_variables
from slackwater.airflow.tasks.spark_environment import variables_of_spark
from slackwater.airflow.tasks.validate import GOOD_RUN_KEY, NOTHING, has_failed, refuse_mark


class PublishOperator(CommandOperator):
    """Runs `slackwater publish`. `run_id` is what `validate` returned (an XComArg): a run id, or NOTHING;
    None where it has failed, or a person has marked it a success.
    """

    template_fields = ("run_id",)
    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, pipeline: str, run_id: Any, settings: Settings, **kwargs: Any) -> None:
        super().__init__(settings=settings, trigger_rule=TriggerRule.ONE_DONE, **kwargs)
        self.pipeline = pipeline
        self.run_id = run_id

    def execute(self, context: Any) -> None:
        """Raises AirflowFailException for exit codes 1, 2, 4 and 5, and where `validate` has judged
        nothing; AirflowSkipException where it has failed and left no good slices; AirflowException
        (another try) for other exit codes.
        """
        run_id = self.run_id
        if run_id is None and has_failed(context, "validate"):
            run_id = context["ti"].xcom_pull(task_ids="validate", key=GOOD_RUN_KEY)
            if run_id is None:
                raise AirflowSkipException("`validate` has failed, and no good slice is before that")
        refuse_mark(run_id, context)
        if run_id == NOTHING:
            self.log.info("nothing was staged: the range is covered already")
            return
        self.run_command(
            args.publish(self.pipeline, run_id, **self.settings.places),
            {**parent_run_variables(context), **variables_of_spark(self.settings)},
        )
