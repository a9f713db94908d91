"""The declaration of hashes in Redis as a sink. Standard library only: DAG files read it."""

from dataclasses import dataclass

from slackwater.errors import without_credentials
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.pipelines.sinks import Sink, SinkContext, SinkTarget
from slackwater.sinks.connections import check_url, variable_of
from slackwater.sinks.key_patterns import fields_of


@refuse_unknown_arguments
@dataclass(frozen=True)
class RedisSink(Sink):
    """Rows of `published` as hashes in Redis, a field for each result; nulls are left out. Withdrawn rows are
    deleted. Numbers are written in full, Booleans as ``true`` and ``false``, times in ISO 8601 (UTC), and
    what has parts as JSON.

    Args:
        name: of the sink. The position is under the key ``slackwater:<pipeline>:<name>``.
        url: ``env:NAME``, ``airflow:CONN_ID``, or ``redis://host:port/database`` without a password.
        key: of each hash, ``visits:{page}:{window_start_ms}``. In braces: key columns, window_start and
            window_end (ISO 8601), window_start_ms and window_end_ms, the columns that a class of windows
            declares, and where rows need them to differ timestamp_ms, firing, ordinal and run_id. Where
            several of them are texts, they are written percent-encoded.

    Raises:
        PipelineError: the URL is none, or the key can't be filled in.
    """

    name: str
    url: str
    key: str

    def __post_init__(self) -> None:
        subject = f"RedisSink {self.name!r}"
        check_url(subject, self.url)
        try:
            fields = fields_of(self.key)
        except (TypeError, ValueError) as error:
            raise PipelineError(
                subject, f"key is {self.key!r}; it is a text such as 'visits:{{page}}'"
            ) from error
        if not fields or "" in fields or any(not field.isidentifier() for field in fields):
            raise PipelineError(
                subject, f"key is {self.key!r}; it names columns in braces, 'visits:{{page}}'"
            )

    @property
    def place(self) -> str:
        """The keys, and where their server is named."""
        return f"{self.key} in {self.url if variable_of(self.url) else without_credentials(self.url)}"

    def open(self, context: SinkContext) -> SinkTarget:
        """Raises SinkUnsuitable or SinkDown."""
        from slackwater.sinks.targets.redis import RedisTarget

        return RedisTarget.open(self.name, self.url, self.key, context)
