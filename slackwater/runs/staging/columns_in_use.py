"""Which columns a pipeline reads, by a recorded description of it (`Pipeline.describe`): its own, with the
names that all sources share, and those of each source.

Works on plain values. A function that is not told its columns sees all of them, which count for none here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slackwater.pipelines import Aggregate
from slackwater.pipelines.expressions import parse_condition, parse_expression

_ROLES = ("event_time", "arrival_time", "source_partition", "order_by")


class ColumnsInUse(NamedTuple):
    """Columns that a description reads, with those from which they are derived.

    Attributes:
        common: under the names that all sources share.
        of_sources: of each source, under its own names.
    """

    common: frozenset[str]
    of_sources: tuple[frozenset[str], ...]


def columns_in_use(description: Mapping[str, Any]) -> ColumnsInUse:
    common = _with_operands(_columns_named(description), description.get("derive") or {})
    return ColumnsInUse(
        common, tuple(_columns_of_source(source, common) for source in described_sources(description))
    )


def described_sources(description: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    sources = description["source"]
    return sources if isinstance(sources, list) else [sources]


def _columns_named(description: Mapping[str, Any]) -> Iterator[str]:
    distinct_by = description.get("distinct_by") or ()
    yield from (distinct_by,) if isinstance(distinct_by, str) else distinct_by
    key_by = description["key_by"] or ()
    yield from (key_by,) if isinstance(key_by, str) else key_by
    yield from description["columns"] or ()
    for aggregate in (description["select"] or {}).values():
        yield from aggregate_of(aggregate).columns
    if description["where"] is not None:
        yield from parse_condition("the pipeline", description["where"]).columns


def aggregate_of(values: Mapping[str, Any]) -> Aggregate:
    return Aggregate(**{name: value for name, value in values.items() if name != "class"})


def _columns_of_source(source: Mapping[str, Any], common: Iterable[str]) -> frozenset[str]:
    own_names = {common_name: name for name, common_name in (source.get("rename") or {}).items()}
    lacking = source.get("lacks") or ()
    names = {own_names.get(name, name) for name in common if name not in lacking}
    names |= {source[role] for role in _ROLES if source.get(role)}
    if source.get("explode"):
        names |= set(parse_expression("the source", "explode", source["explode"]).columns)
    return _with_operands(names, source.get("derive") or {})


def _with_operands(names: Iterable[str], derive: Mapping[str, str]) -> frozenset[str]:
    """`names`, and the columns from which those are derived that are."""
    waiting, columns = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in columns:
            columns.add(name)
            if name in derive:
                waiting += parse_expression("the source", f"derive[{name!r}]", derive[name]).columns
    return frozenset(columns)
