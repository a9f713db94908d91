"""The task `announce`: tells consumers which days of the published table have changed, at least once.

The ledger says which days changed, and Airflow's own asset events say which changes were announced. Beside
them only the asset's state store is used, which outlives the clean-up of old events.
"""

import json
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from slackwater import args
from slackwater.airflow.page_links import RunPageLink
from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import answer_of

# Key in the asset's state store: the greatest seq that an event has been seen to announce.
SEQ_KEY = "announced_seq"
# Of the ledger's rows that are announced, in the event's extra.
COUNTS = ("rows_read", "rows_late", "windows_fired", "windows_refired")
RECENT = 100  # asset events to look back on; one announcement makes an event per day that it names


class AnnounceOperator(BaseOperator):
    """Emits an asset event for each day changed by ledger rows that no event covers; is skipped without any.

    Airflow writes the events together with this task's success, so an event's own `seq` proves that
    everything up to it was announced. The next announcement sets the state store from such events only. Where
    both are lost, the whole ledger is announced again.
    """

    operator_extra_links = (RunPageLink(),)

    def __init__(self, *, pipeline: str, asset: Asset, settings: Settings, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], inlets=[asset], **kwargs)
        self.pipeline = pipeline
        self.asset = asset
        self.settings = settings

    def execute(self, context: Any) -> list[str]:
        """The announced days. Raises AirflowSkipException, or as `require_success` does."""
        since = self._announced_seq(context)
        ledger = answer_of(self.settings, args.runs(self.pipeline, since=since, **self.settings.places))
        rows = [row for row in json.loads(ledger.stdout) if row["touched"]]
        if not rows:
            raise AirflowSkipException(f"nothing was published after seq {since}")
        days = sorted({day for row in rows for day in row["touched"]})
        event = context["outlet_events"][self.asset]
        event.add_partitions(days)
        event.extra = {
            "seq": rows[-1]["seq"],
            "run_ids": [row["run_id"] for row in rows],
            "days": days,
            **{name: sum(row[name] for row in rows) for name in COUNTS},
        }
        self.log.info(
            "seq %s to %s changed %d days: %s", rows[0]["seq"], rows[-1]["seq"], len(days), ", ".join(days)
        )
        return days

    def _announced_seq(self, context: Any) -> int:
        """The seq up to which past events or the state store prove announcements; updates the store."""
        store = context["asset_state_store"][self.asset]
        events = context["inlet_events"][self.asset].ascending(False).limit(RECENT)
        seq_in_store = store.get(SEQ_KEY, 0)
        seqs_of_events = [event.extra["seq"] for event in events if "seq" in (event.extra or {})]
        announced_seq: int = max([seq_in_store, *seqs_of_events])
        if announced_seq > seq_in_store:
            store.set(SEQ_KEY, announced_seq)
        return announced_seq
