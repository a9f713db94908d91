"""Tables that cross Spark as blobs, or in files, arrive as they were, and the files go with the shuffle."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.engine.source.scan import Batches
from slackwater.engine.transport import on_spark as spark_transport
from slackwater.engine.transport.blobs import BlobFiles, from_blob, to_blobs
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.engine.transport.task_errors import TaskFailed
from tests.engine.transport.test_transport import ROWS, commit, scan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_table_arrives_from_its_place(tmp_path: Path) -> None:
    files = BlobFiles(str(tmp_path))
    tables = [
        pa.table({"n": list(range(rows))}).replace_schema_metadata({b"mark": b"here"}) for rows in (3, 0, 9)
    ]
    sent = [*files.send(zip((2, 0, 2), tables, strict=True), "0"), *files.send([(1, tables[0])], "1")]
    assert [batch.column("number").to_pylist() for batch in sent] == [[2], [0], [2], [1]]
    received = [files.receive(batch.column("data")[0].as_buffer()) for batch in reversed(sent)]
    for table, right in zip(received, [tables[0], *reversed(tables)], strict=True):
        assert table.equals(right, check_metadata=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of shuffles lie."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(
        spark_transport, "TemporaryDirectory", lambda dir, **more: TemporaryDirectory(dir=folder, **more)
    )
    return folder


def many_rows(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """A megabyte for each batch."""
    yield from ((0, pa.table({"n": range(1 << 17)})) for _ in batches)


@pytest.mark.slow
def test_a_shuffle_on_one_machine_leaves_rows_in_files_until_it_ends(
    spark: "SparkSession", tmp_path: Path, folder: Path
) -> None:
    def sizes(number: int, received: Iterable[pa.Table]) -> Iterator[pa.Table]:
        rows = sum(table.num_rows for table in received)
        yield pa.table(
            {
                "rows": [rows],
                "bytes": [sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())],
            }
        )

    scan = scan_of(commit(tmp_path / "t", ROWS))
    [row] = OnSpark(spark).shuffle(scan, many_rows, 1, sizes)[0].to_pylist()
    assert row["rows"] and not row["rows"] % (1 << 17)
    assert row["bytes"] > 100_000
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_a_shuffle_that_fails_leaves_none(spark: "SparkSession", tmp_path: Path, folder: Path) -> None:
    def failing(number: int, received: Iterable[pa.Table]) -> Iterator[pa.Table]:
        raise ValueError(number)

    with pytest.raises(TaskFailed, match="ValueError"):
        OnSpark(spark).shuffle(scan_of(commit(tmp_path / "t", ROWS)), many_rows, 1, failing)
    assert not list(folder.iterdir())


def tables_of(batches: list[pa.RecordBatch]) -> list[pa.Table]:
    return [from_blob(batch.column(1)[0].as_buffer()) for batch in batches]


def test_a_large_table_crosses_in_pieces_under_its_number() -> None:
    table = pa.table({"n": list(range(100))}).replace_schema_metadata({b"mark": b"here"})
    batches = list(to_blobs([(3, table)], chunk_bytes=table.nbytes // 4))
    assert [batch.column(0).to_pylist() for batch in batches] == [[3]] * len(batches)
    assert len(batches) > 1 and pa.concat_tables(tables_of(batches)).equals(table, check_metadata=True)


def test_an_empty_table_keeps_its_columns() -> None:
    table = pa.table({"n": [1]}).slice(0, 0).replace_schema_metadata({b"mark": b"here"})
    [empty] = tables_of(list(to_blobs([(3, table)])))
    assert empty.equals(table, check_metadata=True)
