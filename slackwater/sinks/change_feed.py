"""The declaration of a Delta table as a change feed. Standard library only: DAG files read it."""

from dataclasses import dataclass

from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.pipelines.sinks import Sink, SinkContext, SinkTarget


@refuse_unknown_arguments
@dataclass(frozen=True)
class ChangeFeedSink(Sink):
    """Corrections as rows of an append-only Delta table. ``op`` is insert, update_before, update_after or
    delete, as in Flink's changelogs; then the columns of `published` that tell rows apart, the results, and
    kind, firing, cause, seq (of the ledger row) and at.

    Args:
        name: of the sink.
        uri: where the table is: relative to the warehouse (``feeds/visits``), or an absolute path or URI.

    Raises:
        PipelineError: the URI is none, or lies in the folder of a pipeline's tables.
    """

    name: str
    uri: str

    def __post_init__(self) -> None:
        subject = f"ChangeFeedSink {self.name!r}"
        if not isinstance(self.uri, str) or not self.uri.strip("/"):
            raise PipelineError(
                subject, f"uri is {self.uri!r}; it is a path such as 'feeds/visits', or a URI"
            )
        if not self.is_absolute and ("/" not in self.uri or ".." in self.uri.split("/")):
            raise PipelineError(
                subject,
                f"uri is {self.uri!r}: that folder of the warehouse is for a pipeline's own tables. Name "
                "one below another, such as 'feeds/visits'.",
            )

    @property
    def is_absolute(self) -> bool:
        """Whether the URI is complete."""
        return "://" in self.uri or self.uri.startswith("/")

    @property
    def place(self) -> str:
        """Where the table is."""
        return self.uri

    def open(self, context: SinkContext) -> SinkTarget:
        """Raises SinkUnsuitable."""
        from slackwater.sinks.targets.change_feed import ChangeFeedTarget

        return ChangeFeedTarget.open(self.name, self.uri, context)
