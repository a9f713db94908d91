"""Where a pipeline's rows come from, and which of their columns mean what.

Names only: whether the columns exist is checked against the pinned table version before a run.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.jobs.pipelines.errors import PipelineError


@dataclass(frozen=True)
class DeltaSource:
    """A Delta table of events, append-only between two runs.

    Args:
        table: relative to the warehouse (``sources/departures``) or an absolute path or URI.
        event_time: column of type timestamp: when the event happened.
        arrival_time: column of type timestamp: when the row reached the table. Runs select by it.
        source_partition: optional column: the unit of watermark generation, as a Kafka partition is in Flink.
        order_by: optional column that orders rows of equal arrival.
        order: ``arrival``; or ``event``, for history without arrival times or to see the results without
            delays: each row then arrives at its event time, and `arrival_time` becomes that column.

    Raises:
        PipelineError: a name is missing or is not text.
    """

    table: str
    event_time: str = ""
    arrival_time: str = ""
    source_partition: str | None = None
    order_by: str | None = None
    order: Literal["arrival", "event"] = "arrival"

    def __post_init__(self) -> None:
        subject = f"DeltaSource {self.table!r}"
        if self.order not in ("arrival", "event"):
            raise PipelineError(subject, f"order is {self.order!r}; it is 'arrival' or 'event'")
        if self.order == "event":
            object.__setattr__(self, "arrival_time", self.event_time)
        if not isinstance(self.table, str) or not self.table:
            raise PipelineError(
                subject, "the table is missing; give a path relative to the warehouse, or a URI"
            )
        for role in ("event_time", "arrival_time"):
            if not isinstance(getattr(self, role), str) or not getattr(self, role):
                hint = ", or say order='event' where history has none" if role == "arrival_time" else ""
                raise PipelineError(subject, f"{role} is missing; name the timestamp column{hint}")
        for role in ("source_partition", "order_by"):
            name = getattr(self, role)
            if name is not None and (not isinstance(name, str) or not name):
                raise PipelineError(subject, f"{role} is {name!r}; name a column, or leave it out")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with a role, each once, in the order event time, arrival time, source partition,
        order.
        """
        names = (self.event_time, self.arrival_time, self.source_partition, self.order_by)
        return tuple(dict.fromkeys(name for name in names if name))
