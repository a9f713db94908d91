"""A folder of Parquet files that belongs to a table is refused, with the source to use."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.source.file_list import FolderIsTable, list_files

ROWS = pa.table({"n": [1, 2, 3, 4], "day": ["a", "a", "b", "b"]})


@pytest.mark.parametrize("folder", ["", "day=a", "day=a/hour=3"])
def test_files_of_a_delta_table_are_no_folder_of_files(tmp_path: Path, folder: str) -> None:
    table = str(tmp_path / "lake" / "orders")
    write_deltalake(table, ROWS, partition_by=["day"])
    DeltaTable(table).delete("n > 1")
    (tmp_path / "lake" / "orders" / "day=a" / "hour=3").mkdir(exist_ok=True)
    with pytest.raises(FolderIsTable, match=r"deleted or replaced.*DeltaSource") as error:
        list_files(f"{table}/{folder}".rstrip("/"), {})
    assert error.value.exit_code == 2 and f'DeltaSource("{table}", …)' in error.value.message


def test_a_folder_above_a_delta_table_is_refused_with_the_table(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "lake" / "orders"), ROWS)
    with pytest.raises(FolderIsTable, match=r'DeltaSource\(".*/lake/orders", …\)'):
        list_files(str(tmp_path / "lake"), {})


@pytest.mark.parametrize("folder", [".", "data", "data/day=a"])
@pytest.mark.parametrize(
    ("metadata", "name"),
    [("metadata/00002-ab.metadata.json", "Iceberg"), (".hoodie/hoodie.properties", "Hudi")],
)
def test_data_files_of_other_tables_are_no_folder_of_files(
    tmp_path: Path, folder: str, metadata: str, name: str
) -> None:
    table = tmp_path / "orders"
    for path in (table / metadata, table / "data" / "day=a" / "0.parquet"):
        path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, table / "data" / "day=a" / "0.parquet")
    (table / metadata).write_text("{}")
    with pytest.raises(FolderIsTable, match=f"a table of {name} .*Slackwater reads no {name}: .*DeltaSource"):
        list_files(str(table / folder), {})


def test_other_folders_beside_and_above_are_no_tables(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    (landing / "metadata").mkdir(parents=True)
    (landing / "metadata" / "notes.json").write_text("{}")
    (tmp_path / "metadata").mkdir()
    write_deltalake(str(tmp_path / "other"), ROWS)
    pq.write_table(ROWS, landing / "0.parquet")
    assert list(list_files(str(landing), {})) == ["0.parquet"]
