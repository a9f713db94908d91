"""The pipelines of a warehouse are found in a folder and in an object store alike."""

from pathlib import Path

import obstore
import pyarrow.fs as pafs
import pytest
from obstore.store import MemoryStore

from slackwater.inspection.health import report
from slackwater.tables.stores import StoreFolder
from slackwater.tables.warehouse import Warehouse

OBJECTS = ("b/runs/_delta_log/0.json", "a/runs/_delta_log/0.json", "c/runs/0.parquet", "sources/x/0.parquet")


def in_folder(folder: Path) -> pafs.FileSystem:
    for path in OBJECTS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"{}")
    return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())


def in_store(folder: Path) -> pafs.FileSystem:
    client = MemoryStore()
    for path in OBJECTS:
        obstore.put(client, f"lake/warehouse/{path}", b"{}")
    return pafs.PyFileSystem(StoreFolder(client, "lake/warehouse/"))


@pytest.mark.parametrize("make", [in_folder, in_store])
def test_pipelines_with_a_ledger_are_found_in_every_storage(make, tmp_path, monkeypatch) -> None:
    root = make(tmp_path)
    monkeypatch.setattr(report, "filesystem", lambda uri: root)
    assert report.names_in(Warehouse.at(str(tmp_path))) == ["a", "b"]
