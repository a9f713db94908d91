"""The record of a source's files is kept small by those who add to it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.engine.source.file_record import FileRecord, RecordedFile
from slackwater.tables.delta import upkeep


def recorded_file(number: int) -> RecordedFile:
    return RecordedFile(f"{number}.parquet", None, 10, 1000, "{}", "{}")


@pytest.mark.slow
def test_dead_files_of_a_record_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files count as dead at once here, not after a week."""
    monkeypatch.setattr(upkeep, "KEPT_HOURS", 0)
    uri, versions = str(tmp_path / "record"), 100
    FileRecord(uri).add(1, [recorded_file(1)])
    DeltaTable(uri).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    for version in range(2, versions + 1):
        FileRecord(uri).add(version, [recorded_file(number) for number in range(1, version + 1)])
    assert len(list(Path(uri).glob("*.parquet"))) <= 36
    files = FileRecord(uri).files_at(versions)
    assert files == {f"{number}.parquet": recorded_file(number) for number in range(1, versions + 1)}
