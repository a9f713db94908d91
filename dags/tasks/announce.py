"""The task `announce`: tells consumers which days of the published table have changed, at least once.

The ledger says what changed, Airflow's own asset events say what was told; nothing is remembered anywhere
else.
"""

import json
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from slackwater.dags.settings import Settings
from slackwater.dags.tasks.commands import answer
from slackwater.jobs import args

# Under this key of the asset's state store lies the seq up to which changes are known to have been told.
STORED = "announced_seq"
RECENT = 100  # asset events to look back on; one announcement makes an event per day that it names


class AnnounceOperator(BaseOperator):
    """Emits one asset event per touched day of the ledger rows that no earlier event covers; is skipped when
    there is none.

    Airflow writes the events together with this task's success, so an event's own `seq` is the proof that
    everything up to it was told. The state store is set from such events only, and outlives their clean-up.
    Where both are lost, the whole ledger is told again.
    """

    def __init__(self, *, pipeline: str, asset: Asset, settings: Settings, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], inlets=[asset], **kwargs)
        self.pipeline = pipeline
        self.asset = asset
        self.settings = settings

    def execute(self, context: Any) -> list[str]:
        """The announced days. Raises AirflowSkipException, or as `end` does."""
        since = self._told(context)
        found = answer(
            [
                str(self.settings.spark_bin / "slackwater"),
                *args.runs(
                    self.pipeline,
                    since=since,
                    warehouse=self.settings.warehouse,
                    pipelines=self.settings.pipelines,
                ),
            ]
        )
        rows = [row for row in json.loads(found) if row["touched"]]
        if not rows:
            raise AirflowSkipException(f"nothing was published after seq {since}")
        days = sorted({day for row in rows for day in row["touched"]})
        event = context["outlet_events"][self.asset]
        event.add_partitions(days)
        event.extra = {"seq": rows[-1]["seq"], "run_ids": [row["run_id"] for row in rows]}
        self.log.info(
            "seq %s to %s changed %d days: %s", rows[0]["seq"], rows[-1]["seq"], len(days), ", ".join(days)
        )
        return days

    def _told(self, context: Any) -> int:
        store = context["asset_state_store"][self.asset]
        events = context["inlet_events"][self.asset].ascending(False).limit(RECENT)
        stored = store.get(STORED, 0)
        told = max([stored, *(event.extra["seq"] for event in events if "seq" in (event.extra or {}))])
        if told > stored:
            store.set(STORED, told)
        return told
