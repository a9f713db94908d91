"""Brings the columns of several sources together: the names and types of the columns in the pipeline's rows,
and the columns of each source that they are made from.

A column is common if each source has it, under its own name or one that `rename` gives, or says that it lacks
it. Names and types only; no row is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from slackwater.engine.rows.columns_read import SourceColumnError
from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.naming import Naming, has_sortable_texts
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.row_groups import Arrivals, SourceFile
from slackwater.engine.source.wider_types import wider_type
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import UNION_COLUMNS, Source


def namings_of(pipeline: Pipeline, schemas: Sequence[pa.Schema]) -> tuple[Naming | None, ...]:
    """How the pipeline's rows are made from each source's rows, with columns `schemas`; None for the only
    source of a pipeline, whose rows are taken as they are.

    Raises:
        SourceColumnError: columns can't be brought together.
    """
    if len(pipeline.sources) == 1:
        return (None,)
    own_names = [
        _common_names(pipeline, source, schema)
        for source, schema in zip(pipeline.sources, schemas, strict=True)
    ]
    columns = _common_columns(pipeline.sources, own_names)
    types = {name: _common_type(name, pipeline.sources, own_names, schemas) for name in columns}
    schema = pa.schema(
        [*((name, types[name]) for name in columns), *((name, pa.string()) for name in UNION_COLUMNS)]
    )
    namings = []
    for position, (source, own_schema, names) in enumerate(
        zip(pipeline.sources, schemas, own_names, strict=True)
    ):
        common_name = {own_name: name for name, own_name in names.items() if name in types}
        fields = [
            column.with_type(types[common_name[column.name]]) if column.name in common_name else column
            for column in own_schema
        ]
        namings.append(
            Naming(
                title=source.title,
                table=source.table,
                position=position,
                own_names={name: names.get(name) for name in columns},
                partition=source.source_partition,
                order=source.order_by,
                schema=schema,
                own_schema=pa.schema(fields),
            )
        )
        _check_order(source, own_schema)
    return tuple(namings)


@dataclass(frozen=True)
class PinnedSources:
    """The sources of a pipeline, each at a pinned version, and how its rows are made from theirs."""

    each: tuple[PinnedSource, ...]
    namings: tuple[Naming | None, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, each: Sequence[PinnedSource]) -> "PinnedSources":
        return cls(tuple(each), namings_of(pipeline, [source.schema for source in each]))

    @property
    def schema(self) -> pa.Schema:
        naming = self.namings[0]
        return self.each[0].schema if naming is None else naming.schema

    @property
    def why_not_direct(self) -> str | None:
        return next((item.why_not_direct for item in self.each if item.why_not_direct is not None), None)

    def read(self, file: InputFile, columns: Sequence[str]) -> pa.Table:
        source, naming = self.each[file.source], self.namings[file.source]
        if naming is None:
            return read_columns(source.uri, file, source.schema, columns)
        own_columns = naming.own_columns(columns)
        return naming.rows(read_columns(source.uri, file, naming.own_schema, own_columns), columns)

    def batches(
        self, file: InputFile, columns: Sequence[str], arrival: str, from_ms: int, to_ms: int
    ) -> Iterator[pa.Table]:
        """As `read`, some row groups at a time; those without arrivals in [from_ms, to_ms) are left out."""
        source, naming = self.each[file.source], self.namings[file.source]
        file = replace(file, may_hold_unread=False)
        if naming is None:
            own_columns, own_arrival, schema = tuple(columns), arrival, source.schema
        else:
            own_columns, schema = naming.own_columns(columns), naming.own_schema
            [own_arrival] = naming.own_columns([arrival])
        arrivals = Arrivals(own_arrival, from_ms, to_ms)
        for batch in SourceFile(source.uri, file, schema).batches(own_columns, None, arrivals=arrivals):
            yield batch.rows if naming is None else naming.rows(batch.rows, columns)


def check_common(pipeline: Pipeline, columns: Sequence[str], sources: PinnedSources) -> None:
    """Refuse a source that lacks a column which the pipeline reads, without having said so. Raises
    SourceColumnError with what the source could rename.
    """
    for source, naming in zip(pipeline.sources, sources.namings, strict=True):
        if naming is None:
            continue
        own_columns = _names_after_rename(source, naming.own_schema)
        for name in columns:
            if name in naming.schema.names or name in own_columns or name in source.lacks:
                continue
            raise SourceColumnError(
                f"source {source.table!r} has no column {name!r}, which the pipeline reads; it has "
                f"{', '.join(naming.own_schema.names)}. Say which of them it is, rename={{'…': {name!r}}}, "
                f"or that it has none, lacks=[{name!r}].",
                column=name,
            )


def _names_after_rename(source: Source, schema: pa.Schema) -> dict[str, str]:
    """Name after `rename` → own column, where no two columns get one name; the last one counts."""
    return {source.rename.get(name, name): name for name in schema.names}


def _common_names(pipeline: Pipeline, source: Source, schema: pa.Schema) -> dict[str, str]:
    roles = pipeline.roles
    common_names = {
        **source.rename,
        source.event_time: roles.event_time,
        source.arrival_time: roles.arrival_time,
    }
    for own_name in common_names:
        if own_name not in schema.names:
            raise SourceColumnError(
                f"source {source.table!r} has no column {own_name!r}; it has {', '.join(schema.names)}. "
                "Mend the pipeline or the source.",
                column=own_name,
            )
    names: dict[str, str] = {}
    for own_name in schema.names:
        name = common_names.get(own_name, own_name)
        if name in UNION_COLUMNS:
            if own_name in (source.source_partition, source.order_by) and own_name not in source.rename:
                continue  # the union's own column says as much
            raise SourceColumnError(
                f"source {source.table!r}: its column {own_name!r} is called as a column that rows of "
                f"several sources have besides ({', '.join(UNION_COLUMNS)}); give it another name, "
                f"rename={{{own_name!r}: '…'}}.",
                column=own_name,
            )
        if name in names:
            raise SourceColumnError(
                f"source {source.table!r}: two of its columns, {names[name]!r} and {own_name!r}, are called "
                f"{name!r} in common; give one of them another name with rename.",
                column=name,
            )
        names[name] = own_name
    for name in source.lacks:
        if name in names:
            raise SourceColumnError(
                f"source {source.table!r} says that it lacks {name!r}, and has it as {names[name]!r}; leave "
                "one of them out.",
                column=name,
            )
        if name in (*pipeline.keys, roles.event_time, roles.arrival_time):
            raise SourceColumnError(
                f"source {source.table!r} lacks {name!r}, which each row needs; no row of it could be used.",
                column=name,
            )
    return names


def _common_columns(sources: Sequence[Source], own_names: Sequence[Mapping[str, str]]) -> list[str]:
    """The columns that each source has or says to lack, and at least one has, in the order of the first."""
    every = dict.fromkeys(name for names in own_names for name in names)
    pairs = list(zip(sources, own_names, strict=True))
    return [name for name in every if all(name in names or name in source.lacks for source, names in pairs)]


def _common_type(
    name: str,
    sources: Sequence[Source],
    own_names: Sequence[Mapping[str, str]],
    schemas: Sequence[pa.Schema],
) -> pa.DataType:
    types = [
        (source, schema.field(names[name]).type)
        for source, names, schema in zip(sources, own_names, schemas, strict=True)
        if name in names
    ]
    first, kind = types[0]
    for source, other in types[1:]:
        common = wider_type(kind, other)
        if common is None:
            raise SourceColumnError(
                f"column {name!r} is {kind} in source {first.table!r} and {other} in {source.table!r}; no "
                "type holds both. Cast it in one of them, or rename it in one.",
                column=name,
            )
        kind = common
    return kind


def _check_order(source: Source, schema: pa.Schema) -> None:
    if source.order_by is None or source.order_by not in schema.names:
        return
    kind = schema.field(source.order_by).type
    if not has_sortable_texts(kind):
        raise SourceColumnError(
            f"source {source.table!r}: order_by is column {source.order_by!r} of type {kind}; of several "
            "sources it is a number, a text, a date or a time.",
            column=source.order_by,
        )
