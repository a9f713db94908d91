"""The declaration of a table of a SQL database as a sink. Standard library only: DAG files read it."""

from dataclasses import dataclass

from slackwater.errors import without_credentials
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.pipelines.sinks import Sink, SinkContext, SinkTarget
from slackwater.sinks.connections import check_url, variable_of


@refuse_unknown_arguments
@dataclass(frozen=True)
class SqlSink(Sink):
    """Rows of `published` as rows of a SQL table: key columns, window_start and window_end (UTC), the
    results; ordinal where a window emits several rows, firing where firings are published side by side.
    Withdrawn rows are deleted. The position is in the table ``slackwater_positions`` beside it.

    Args:
        name: of the sink.
        url: where the database is, for SQLAlchemy: ``env:NAME``, ``airflow:CONN_ID``, or a URL that holds no
            password.
        table: name of the table, with its schema where it has one, ``reports.visits``. Created when absent.

    Raises:
        PipelineError: the URL or the table is none.
    """

    name: str
    url: str
    table: str

    def __post_init__(self) -> None:
        check_url(f"SqlSink {self.name!r}", self.url)
        parts = self.table.split(".") if isinstance(self.table, str) else []
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise PipelineError(
                f"SqlSink {self.name!r}", f"table is {self.table!r}; it is 'table' or 'schema.table'"
            )

    @property
    def place(self) -> str:
        """The table, and where its database is named."""
        return f"{self.table} in {self.url if variable_of(self.url) else without_credentials(self.url)}"

    def open(self, context: SinkContext) -> SinkTarget:
        """Raises SinkUnsuitable or SinkDown."""
        from slackwater.sinks.targets.sql import SqlTarget

        return SqlTarget.open(self.name, self.url, self.table, context)
