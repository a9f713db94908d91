"""The datasets of a verb's events: the sources that it reads and the tables that readers see, under the names
that OpenLineage has for them, with versions, columns and column lineage.

Reads logs of tables; the ledger row of a run says what it read and wrote.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import Schema
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)
from openlineage.client.naming.dataset import (
    ABFSS,
    GCS,
    HDFS,
    S3,
    DatasetNaming,
    LocalFileSystem,
    RemoteFileSystem,
)

from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.engine.rows.union_columns import namings_of
from slackwater.engine.source.computed_columns import stored_names
from slackwater.engine.source.naming import Naming
from slackwater.engine.source.pinning import pin, place_of
from slackwater.errors import without_credentials
from slackwater.openlineage.column_lineage import (
    Dependencies,
    Dependency,
    dependencies_of_all_rows,
    dependencies_of_published,
    dependencies_of_side_output,
)
from slackwater.pipelines import Pipeline
from slackwater.pipelines.sources import DeltaSource, Source
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runs.publishing.change_summary import change_summaries
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.schemas import side_table
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.times import MILLISECOND

PUBLISHED = "published"
_AZURE = ".dfs.core.windows.net"


class DatasetName(NamedTuple):
    """The namespace and the name of a dataset, by OpenLineage's convention for storage."""

    namespace: str
    name: str


# The name of a source as a dataset, its columns, and how the pipeline's rows are made of its rows.
_ReadSource = tuple[DatasetName, pa.Schema, Naming | None]


def dataset_name(place: str) -> DatasetName:
    """The name of the table or folder at `place`, an absolute path or a URI.

    ``/data/a`` is ``/data/a`` in ``file``; ``s3://lake/data/a`` is ``data/a`` in ``s3://lake``. In storage
    that OpenLineage has no names for, a table is called as in a bucket.
    """
    scheme, authority, path = (
        urlsplit(without_credentials(place))[:3] if "://" in place else ("file", "", place)
    )
    path, key = path.rstrip("/") or "/", path.strip("/") or "/"
    container, _, host = authority.partition("@")
    naming: DatasetNaming
    match scheme:
        case "file":
            naming = RemoteFileSystem(authority, path) if authority else LocalFileSystem(path)
        case "s3" | "s3a" | "s3n":
            naming = S3(authority, key)
        case "gs":
            naming = GCS(authority, key)
        case "abfs" | "abfss" if host.endswith(_AZURE):
            naming = ABFSS(container, host.removesuffix(_AZURE), key)
        case "hdfs" if ":" in authority:
            host, _, port = authority.rpartition(":")
            naming = HDFS(host, port, path)
        case _:
            return DatasetName(f"{scheme}://{authority}", key)
    return DatasetName(naming.get_namespace(), naming.get_name())


class Datasets:
    """The datasets of one pipeline.

    Attributes:
        inputs, outputs: by their names alone.
    """

    def __init__(self, opened_pipeline: OpenedPipeline) -> None:
        self._opened_pipeline = opened_pipeline
        self._pipeline: Pipeline = opened_pipeline.pipeline
        warehouse: Warehouse = opened_pipeline.warehouse
        self._sources = {
            source.table: dataset_name(warehouse.source(source.table)) for source in self._pipeline.sources
        }
        tables = (PUBLISHED, *map(side_table, self._pipeline.side_columns))
        root = f"{warehouse.root}/{self._pipeline.name}"
        self._tables = {table: dataset_name(f"{root}/{table}") for table in tables}
        self.inputs = [InputDataset(*name) for name in self._sources.values()]
        self.outputs = [OutputDataset(*name) for name in self._tables.values()]

    def describe(
        self, runs: Sequence[LedgerRow], publications: Sequence[LedgerRow]
    ) -> tuple[list[InputDataset], list[OutputDataset]]:
        """Inputs and outputs after a verb, with versions, columns and statistics.

        Args:
            runs: the runs that the verb has replayed, in slice order; if it has replayed none, the runs that
                its publications have made live. Without runs, inputs have names alone.
            publications: the rows of main that the verb has committed; without any, outputs have names alone.

        Raises:
            SlackwaterError, DeltaError, OSError: a log can't be read.
        """
        if publications and not runs:
            runs = _runs_made_live(self._opened_pipeline.tables.ledger, publications)
        if not runs:
            return self.inputs, self.outputs
        reads = {
            source.table: [item for row in runs for item in row.inputs if item.table == source.table]
            for source in self._pipeline.sources
        }
        schemas = [self._source_schema(source, reads[source.table][-1]) for source in self._pipeline.sources]
        inputs = [
            self._input(source, reads[source.table], schema)
            for source, schema in zip(self._pipeline.sources, schemas, strict=True)
        ]
        return inputs, self._outputs(schemas, publications) if publications else self.outputs

    def _source_schema(self, source: Source, item: Input) -> pa.Schema:
        """The columns of a source at the version that was read last."""
        place = place_of(self._opened_pipeline.warehouse, self._pipeline, source)
        return pin(source, place, item.version, item.table_id, may_be_empty=True).schema

    def _input(self, source: Source, items: Sequence[Input], schema: pa.Schema) -> InputDataset:
        stored_columns = pa.schema([schema.field(name) for name in stored_names(schema, schema.names)])
        facets: dict[str, DatasetFacet] = {"schema": _schema_facet(stored_columns)}
        if isinstance(source, DeltaSource):  # versions of a folder are this pipeline's own count
            facets["version"] = _version_facet(items[-1].version)
        statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=sum(item.rows for item in items),
            size=sum(item.bytes for item in items),
            fileCount=sum(item.files for item in items),
        )
        return InputDataset(
            *self._sources[source.table], facets=facets, inputFacets={"inputStatistics": statistics}
        )

    def _outputs(
        self, schemas: Sequence[pa.Schema], publications: Sequence[LedgerRow]
    ) -> list[OutputDataset]:
        """The tables of readers after `publications`."""
        pipeline, tables = self._pipeline, self._opened_pipeline.tables
        namings = namings_of(pipeline, schemas)
        rows_schema = schemas[0] if namings[0] is None else namings[0].schema
        sources = list(zip(self._sources.values(), schemas, namings, strict=True))
        columns = with_derived_columns(pipeline, rows_schema).names
        dependencies: dict[str, Dependencies] = {
            PUBLISHED: dependencies_of_published(pipeline, columns),
            **{
                side_table(tag): dependencies_of_side_output(pipeline, tag, columns)
                for tag in pipeline.side_columns
            },
        }
        outputs = []
        for table, name in self._tables.items():
            folder = tables[table]
            version = folder.version()
            assert version is not None, "it was written before"
            outputs.append(
                OutputDataset(
                    *name,
                    facets={
                        "version": _version_facet(version),
                        "schema": _schema_facet(folder.schema),
                        "columnLineage": self._lineage_facet(dependencies[table], sources),
                    },
                )
            )
        changed_rows = sum(summary.total for summary in change_summaries(tables, publications).values())
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=changed_rows
        )
        outputs[0].outputFacets = {"outputStatistics": statistics}
        return outputs

    def _lineage_facet(
        self, dependencies: Dependencies, sources: Sequence[_ReadSource]
    ) -> column_lineage_dataset.ColumnLineageDatasetFacet:
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={
                column: column_lineage_dataset.Fields(inputFields=self._input_fields(items, sources))
                for column, items in dependencies.items()
            },
            dataset=self._input_fields(dependencies_of_all_rows(self._pipeline), sources),
        )

    def _input_fields(
        self, dependencies: Iterable[Dependency], sources: Sequence[_ReadSource]
    ) -> list[column_lineage_dataset.InputField]:
        """Each source's stored columns in `dependencies`, each once with all its transformations."""
        transformations: dict[tuple[DatasetName, str], list[column_lineage_dataset.Transformation]] = {}
        for dependency in dependencies:
            transformation = column_lineage_dataset.Transformation(
                type=dependency.type, subtype=dependency.subtype, masking=dependency.is_masking
            )
            for name, schema, naming in sources:
                column = dependency.column
                own_columns = (column,) if naming is None else naming.own_columns([column])
                for own_column in stored_names(schema, own_columns):
                    transformations.setdefault((name, own_column), []).append(transformation)
        return [
            column_lineage_dataset.InputField(*name, field=column, transformations=items)
            for (name, column), items in transformations.items()
        ]


def _runs_made_live(ledger: LedgerReader, publications: Sequence[LedgerRow]) -> list[LedgerRow]:
    """The runs that are live after these rows of main, one after another, and were not before them."""
    first, last = publications[0], publications[-1]
    assert first.slice_start is not None
    seqs_before = set(() if first.parent_seq is None else seqs_of(ledger.row(first.parent_seq).live))
    earliest_end = first.slice_start - MILLISECOND  # the slice of a close ends where it starts
    return [row for row in ledger.live_runs(last, earliest_end) if row.seq not in seqs_before]


def _version_facet(version: int) -> dataset_version_dataset.DatasetVersionDatasetFacet:
    return dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))


def _schema_facet(schema: pa.Schema) -> schema_dataset.SchemaDatasetFacet:
    """Columns with Delta's names of their types."""
    fields = Schema.from_arrow(schema).fields
    return schema_dataset.SchemaDatasetFacet(
        fields=[
            schema_dataset.SchemaDatasetFacetFields(name=field.name, type=field.type.type) for field in fields
        ]
    )
