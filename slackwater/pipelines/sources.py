"""The sources of a pipeline's rows, and the roles of their columns.

Names only: whether the columns exist is checked against the pinned table version before a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

from slackwater.pipelines.canonical import plain_value
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import (
    Expression,
    check_derived_names,
    parse_derivations,
    parse_expression,
)
from slackwater.pipelines.mistyped_names import refuse_unknown_arguments
from slackwater.windowing.calendars import zone_named
from slackwater.windowing.errors import ConfigurationError

# The columns that a union adds to the rows of its sources: the name of the row's source, its source
# partition, and its place among rows of equal arrival, by the sources' order in the list and then by the
# source's order column.
SOURCE, SOURCE_PARTITION, SOURCE_ORDER = "source", "source_partition", "source_order"
UNION_COLUMNS = (SOURCE, SOURCE_PARTITION, SOURCE_ORDER)
MOST_SOURCES = 1000
# The columns that `explode` adds: an item of the list, and its number in it, from 1.
ITEM, ITEM_NUMBER = "item", "item_number"

# The arrival of rows whose table has no column for it: the time of the commit that brought them. A source
# with this arrival has these two columns besides its own; Delta's change feed calls them so, too.
COMMIT_TIME, COMMIT_VERSION = "_commit_timestamp", "_commit_version"


@dataclass(frozen=True)
class Roles:
    """The columns of a pipeline's rows that have a role.

    Attributes:
        event_time, arrival_time: columns of times.
        source_partition, order_by: see `DeltaSource`; None: there is none.
        source: the column that names the row's source; None where there is one source.
    """

    event_time: str
    arrival_time: str
    source_partition: str | None = None
    order_by: str | None = None
    source: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with a role, each once, in the order of the fields."""
        names = (self.event_time, self.arrival_time, self.source_partition, self.order_by, self.source)
        return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True)
class Source:
    """The declarations that all kinds of sources share; see `DeltaSource` and `ParquetSource`."""

    table: str
    event_time: str = ""
    arrival_time: str = ""
    source_partition: str | None = None
    order_by: str | None = None
    order: Literal["arrival", "event"] = "arrival"
    name: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    lacks: Sequence[str] = ()
    derive: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    explode: str | None = None

    def __post_init__(self) -> None:
        subject = self.subject
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
                hint = (
                    ", or say arrival_time=COMMIT_TIME where the table has none, or order='event' for history"
                    if role == "arrival_time"
                    else ""
                )
                raise PipelineError(subject, f"{role} is missing; name the timestamp column{hint}")
        for role in ("source_partition", "order_by", "name"):
            name = getattr(self, role)
            if name is not None and (not isinstance(name, str) or not name):
                kind = "give it a name" if role == "name" else "name a column"
                raise PipelineError(subject, f"{role} is {name!r}; {kind}, or leave it out")
        if self.arrives_by_commit and self.source_partition in (COMMIT_TIME, COMMIT_VERSION):
            raise PipelineError(
                subject,
                f"source_partition is {self.source_partition!r}, of which each commit has another; name a "
                "column of the table, or leave it out",
            )
        self._check_mapping()
        self._check_computed_columns()

    @property
    def subject(self) -> str:
        """How an error names it."""
        return f"{type(self).__name__} {self.table!r}"

    @property
    def arrives_by_commit(self) -> bool:
        """Whether a row arrives when the commit that brought it was made."""
        return self.arrival_time == COMMIT_TIME

    def _check_mapping(self) -> None:
        if not isinstance(self.rename, Mapping) or not all(
            isinstance(text, str) and text for pair in self.rename.items() for text in pair
        ):
            raise PipelineError(
                self.subject,
                f"rename is {self.rename!r}; it maps columns of the source to names that all sources share",
            )
        if isinstance(self.lacks, str) or not all(isinstance(name, str) and name for name in self.lacks):
            raise PipelineError(self.subject, f"lacks is {self.lacks!r}; it is a list of common columns")
        object.__setattr__(self, "rename", dict(self.rename))
        object.__setattr__(self, "lacks", tuple(self.lacks))

    def _check_computed_columns(self) -> None:
        if not isinstance(self.derive, Mapping):
            raise PipelineError(
                self.subject, f"derive is {self.derive!r}; it maps columns to expressions in SQL"
            )
        object.__setattr__(self, "derive", dict(self.derive))
        check_derived_names(self.subject, self.derive)
        if self.zone is None:
            return
        try:
            zone_named(self.zone)
        except ConfigurationError as error:
            from zoneinfo import available_timezones  # see `zone_named`

            similar = get_close_matches(str(self.zone), available_timezones(), 1) or ["Europe/Berlin"]
            raise PipelineError(self.subject, f"zone: {error} For example: zone={similar[0]!r}") from error

    # DuckDB reads expressions, and takes longer to import than a DAG file: where they are asked for.
    @cached_property
    def derivations(self) -> tuple[tuple[str, Expression], ...]:
        """The derived columns with their expressions, a column before those that read it. Raises
        PipelineError: an expression is none, or columns read each other.
        """
        return parse_derivations(self.subject, self.derive)

    @cached_property
    def explosion(self) -> Expression | None:
        """The list that is exploded; None: none is. Raises PipelineError: the expression is none."""
        return None if self.explode is None else parse_expression(self.subject, "explode", self.explode)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.roles.columns

    @property
    def roles(self) -> Roles:
        return Roles(self.event_time, self.arrival_time, self.source_partition, self.order_by)

    @property
    def title(self) -> str:
        """Its name among several sources."""
        return self.table.rstrip("/").rpartition("/")[2] if self.name is None else self.name

    def describe(self) -> dict[str, Any]:
        """The declaration as plain JSON values, without unset ones that few sources have."""
        return {
            name: value
            for name, value in plain_value(self).items()
            if name not in ("derivations", "explosion")
            and (name not in ("name", "rename", "lacks", "derive", "zone", "explode") or value)
        }

    def __hash__(self) -> int:
        expressions = (*self.derive.items(), self.zone, self.explode)
        return hash((type(self), self.table, self.name, self.columns, self.order, self.lacks, expressions))


@refuse_unknown_arguments
@dataclass(frozen=True)
class DeltaSource(Source):
    """A Delta table of events, append-only between two runs.

    Args:
        table: relative to the warehouse (``sources/departures``) or an absolute path or URI.
        event_time: column of type timestamp: when the event happened.
        arrival_time: column of type timestamp: when the row reached the table. Runs select by it. Where the
            table has none, `COMMIT_TIME`: the time of the commit that brought the row; the version of the
            table is then the column ``_commit_version``, which may be `order_by`.
        source_partition: optional column: the unit of watermark generation, as a Kafka partition is in Flink.
        order_by: optional column that orders rows of equal arrival.
        order: ``arrival``; or ``event``, for history without arrival times or to see the results without
            delays: each row then arrives at its event time, and `arrival_time` becomes that column.
        name: in a pipeline of several sources, how rows, source partitions and messages name this one; by
            default the last part of `table`.
        rename: in a pipeline of several sources, its column → the name that all have in common, where
            the two differ. Columns with a role need none: they are called as in the first source.
        lacks: in a pipeline of several sources, common columns that this one does not have: they are null in
            its rows.
        derive: column → an expression of SQL over the source's columns, and over those derived before it. A
            derived column may have a role: event time, arrival, source partition, order, key, operand.
        zone: the time zone of times without one, ``Europe/Berlin``; by default they are of UTC. A local time
            that the clocks skip counts as the hour after it, one that comes twice as the second.
        explode: an expression whose value is a list: each item becomes a row of its own, with the columns
            `item` and `item_number` (from 1), which `derive` may read.

    Raises:
        PipelineError: a name is missing or is not text.
    """

    __hash__ = Source.__hash__


@refuse_unknown_arguments
@dataclass(frozen=True)
class ParquetSource(Source):
    """A folder of Parquet files of events, to which files are added between two runs. Files whose names begin
    with ``_`` or ``.``, or that lie in folders with such names, are not looked at.

    Args:
        table: the folder, relative to the warehouse (``landing/orders``) or an absolute path or URI.
        event_time: column of type timestamp: when the event happened. Times without a zone are UTC.
        arrival_time: column of type timestamp: when the row reached the folder. Runs select by it. Where the
            files have none, `COMMIT_TIME`: the modification time at which the row's file was first seen.
        source_partition: optional column: the unit of watermark generation, as a Kafka partition is in Flink.
        order_by: optional column that orders rows of equal arrival.
        order: ``arrival``; or ``event``, see `DeltaSource`.
        name: in a pipeline of several sources, its name; by default the last part of `table`.
        rename: in a pipeline of several sources, its column → the name that all of them have in common.
        lacks: in a pipeline of several sources, common columns that this one does not have.
        derive, zone, explode: see `DeltaSource`.

    Raises:
        PipelineError: a name is missing or is not text.
    """

    __hash__ = Source.__hash__


def roles_of(sources: Sequence[Source]) -> Roles:
    """The roles of columns in the rows of a pipeline with these sources. Rows of several sources have the
    union's own columns, and their times are called as in the first source.
    """
    first = sources[0]
    if len(sources) == 1:
        return first.roles
    return Roles(
        event_time=first.rename.get(first.event_time, first.event_time),
        arrival_time=first.rename.get(first.arrival_time, first.arrival_time),
        source_partition=SOURCE_PARTITION,
        order_by=SOURCE_ORDER,
        source=SOURCE,
    )


def check_sources(subject: str, sources: Sequence[object]) -> None:
    """The sources of a pipeline can be told apart, and only several of them have names in common. Raises
    PipelineError: two have one name or one table; one says what only several can.
    """
    if not sources or len(sources) > MOST_SOURCES:
        raise PipelineError(subject, f"source has {len(sources)} sources; it is 1 to {MOST_SOURCES}")
    declarations: list[Source] = []
    for source in sources:
        if not isinstance(source, Source):
            raise PipelineError(
                subject, f"source has {source!r}; it is a DeltaSource or ParquetSource, or a list of such"
            )
        declarations.append(source)
    if len(declarations) == 1:
        only = declarations[0]
        if only.name is not None or only.rename or only.lacks:
            raise PipelineError(
                only.subject,
                "name, rename and lacks tell several sources apart and bring their columns together; a "
                "pipeline of one source names its columns as they are",
            )
        return
    for one in ("table", "title"):
        values = [getattr(source, one) for source in declarations]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise PipelineError(
                subject,
                f"two sources have the table {twice!r}; each is read once"
                if one == "table"
                else f"two sources are called {twice!r}; give them names, `name=…`",
            )
    for source in declarations:
        if "/" in source.title:
            raise PipelineError(
                source.subject,
                f"name is {source.title!r}; a name has no '/', which divides it from its source partitions",
            )
    _check_times(declarations)


def _check_times(sources: Sequence[Source]) -> None:
    """The times of all sources are called as in the first source, and no other column is."""
    common = roles_of(sources)
    for source in sources:
        if (source.event_time == source.arrival_time) != (common.event_time == common.arrival_time):
            raise PipelineError(
                source.subject,
                "its event time and arrival are one column, another source has two; all sources have "
                "order='event', or none",
            )
        for column, name in (
            (source.event_time, common.event_time),
            (source.arrival_time, common.arrival_time),
        ):
            other_name = source.rename.get(column, name)
            if other_name != name:
                raise PipelineError(
                    source.subject,
                    f"rename calls {column!r} {other_name!r}, the first source calls that role {name!r}; "
                    "leave it out",
                )
