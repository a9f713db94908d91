"""Column lineage of a pipeline: the columns of its rows that each result depends on.

Follows from the declaration alone. The kinds of dependency are OpenLineage's, of its facet of column lineage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from slackwater.engine.rows.columns_read import columns_of_condition, element_columns
from slackwater.pipelines import Aggregate, Pipeline
from slackwater.pipelines.sources import Roles
from slackwater.pipelines.window_columns import telling_columns

_DIRECT = frozenset({"IDENTITY", "TRANSFORMATION", "AGGREGATION"})
# Aggregates whose results do not reveal the values that went in.
_COUNTS = frozenset({"count", "count_distinct", "approx_distinct"})
# Aggregates whose second column decides which row's value the result is.
_DECIDED_BY_OTHER = frozenset({"min_by", "max_by"})


class Dependency(NamedTuple):
    """One column that a result depends on.

    Attributes:
        column: of the pipeline's rows; for a derived column, one of the source.
        subtype: IDENTITY, TRANSFORMATION or AGGREGATION of its values; or CONDITIONAL, SORT, GROUP_BY, FILTER
            or WINDOW, where its values decide which others count.
        is_masking: whether the result does not reveal its values.
    """

    column: str
    subtype: str
    is_masking: bool = False

    @property
    def type(self) -> str:
        """DIRECT where values go into the result, else INDIRECT."""
        return "DIRECT" if self.subtype in _DIRECT else "INDIRECT"


Dependencies = Mapping[str, tuple[Dependency, ...]]


def dependencies_of_published(pipeline: Pipeline, columns: Sequence[str]) -> Dependencies:
    """Column of `published` → its dependencies. Columns that count firings and revisions are left out.

    Args:
        columns: all columns of the pipeline's rows, derived ones included.
    """
    times = _time_dependencies(pipeline, columns)
    day = {"window_date": next(iter(times.values()))} if times else {}
    results = (
        {
            name: _aggregate_dependencies(aggregate, pipeline.roles)
            for name, aggregate in pipeline.select.items()
        }
        if pipeline.select
        else dict.fromkeys(pipeline.pane_results, _function_dependencies(pipeline, columns))
    )
    published_columns = {**_key_dependencies(pipeline), **times, **day, **results}
    for name, expression in pipeline.computed_results:
        operands = (
            _as_transformation(item) for column in expression.columns for item in published_columns[column]
        )
        published_columns[name] = tuple(dict.fromkeys(operands))
    dependencies = _on_source_columns(pipeline, published_columns)
    return {name: items for name, items in dependencies.items() if name not in pipeline.hidden}


def dependencies_of_side_output(pipeline: Pipeline, tag: str, columns: Sequence[str]) -> Dependencies:
    """Column of a side output's table → its dependencies; arguments as for `dependencies_of_published`."""
    names = [name for name, _ in pipeline.side_columns[tag] if name not in pipeline.keys]
    values = dict.fromkeys(names, _function_dependencies(pipeline, columns))
    return _on_source_columns(
        pipeline, {**_key_dependencies(pipeline), **_time_dependencies(pipeline, columns), **values}
    )


def dependencies_of_all_rows(pipeline: Pipeline) -> tuple[Dependency, ...]:
    """The columns that decide which rows exist and which of them share a window: keys, conditions, times."""
    roles = pipeline.roles
    dependencies = (
        *_each(pipeline.keys, "GROUP_BY"),
        *_each((*columns_of_condition(pipeline), *pipeline.distinct_columns), "FILTER"),
        *_each((roles.event_time, roles.arrival_time, roles.source_partition), "WINDOW"),
        *_each((roles.order_by,), "SORT"),
    )
    return _on_source_columns(pipeline, {"": dependencies})[""]


def _key_dependencies(pipeline: Pipeline) -> Dependencies:
    return {key: (Dependency(key, "IDENTITY"),) for key in pipeline.keys}


def _time_dependencies(pipeline: Pipeline, columns: Sequence[str]) -> Dependencies:
    """The columns that hold a row's window, or the moment at which a process function emitted the row. The
    arrival of rows is the clock of processing time.
    """
    roles, assigner = pipeline.roles, pipeline.window
    if assigner is None:
        return {"timestamp": _each((roles.event_time,), "TRANSFORMATION")}
    time = roles.event_time if assigner.is_event_time else roles.arrival_time
    elements = element_columns(pipeline, columns) if assigner.looks_at_elements else ()
    return dict.fromkeys(telling_columns(pipeline), _each((time, *elements), "TRANSFORMATION"))


def _aggregate_dependencies(aggregate: Aggregate, roles: Roles) -> tuple[Dependency, ...]:
    is_compared = aggregate.kind in _DECIDED_BY_OTHER
    order = {
        None: (),
        "event_time": (roles.event_time, roles.arrival_time, roles.order_by),
        "arrival": (roles.arrival_time, roles.order_by),
    }
    return (
        *_each((aggregate.column,), "AGGREGATION", is_masking=aggregate.kind in _COUNTS),
        *_each((aggregate.other_column,), "SORT" if is_compared else "AGGREGATION"),
        *_each(aggregate.columns_of_condition, "CONDITIONAL"),
        *_each(order[aggregate.by], "SORT"),
    )


def _function_dependencies(pipeline: Pipeline, columns: Sequence[str]) -> tuple[Dependency, ...]:
    """A function of the user's own depends on all columns that it is handed."""
    return _each((*pipeline.keys, *element_columns(pipeline, columns)), "TRANSFORMATION")


def _each(columns: Iterable[str | None], subtype: str, *, is_masking: bool = False) -> tuple[Dependency, ...]:
    return tuple(Dependency(name, subtype, is_masking) for name in columns if name is not None)


def _as_transformation(dependency: Dependency) -> Dependency:
    return dependency._replace(subtype="TRANSFORMATION") if dependency.subtype == "IDENTITY" else dependency


def _on_source_columns(pipeline: Pipeline, dependencies: Dependencies) -> Dependencies:
    """`dependencies` with each derived column replaced by the columns that it is computed from."""
    expressions = dict(pipeline.derivations)

    def underlying(dependency: Dependency) -> Iterator[Dependency]:
        expression = expressions.get(dependency.column)
        if expression is None:
            yield dependency
            return
        for name in expression.columns:
            yield from underlying(_as_transformation(dependency)._replace(column=name))

    return {
        name: tuple(dict.fromkeys(source_item for item in items for source_item in underlying(item)))
        for name, items in dependencies.items()
    }
