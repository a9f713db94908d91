"""Tables that cross Spark as blobs arrive as they were: rows, columns and the mark with their name."""

import pyarrow as pa

from slackwater.engine.transport.table_blobs import from_blob, to_blobs


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
