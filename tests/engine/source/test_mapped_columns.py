"""Columns that Delta has mapped to other names: the list of files tells their bounds under those."""

import json
from pathlib import Path

import pytest

from slackwater.engine.source.pinning import pin
from tests.engine.source.source_logs import SOURCE, hour


@pytest.mark.parametrize("is_partition", [False, True])
def test_bounds_of_a_mapped_column_are_its_own_whatever_the_name_that_another_had_before(
    tmp_path: Path, is_partition: bool
) -> None:
    """`a` was renamed to `b`, and another column was added under its name."""
    names = {"b": "a", "a": "col-2"}
    fields = []
    for number, (name, in_files) in enumerate(names.items(), 1):
        mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": in_files}
        fields.append({"name": name, "type": "timestamp", "nullable": True, "metadata": mapped})
    metadata = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["a"] if is_partition else [],
        "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    }
    bounds = {"a": "2013-01-01T01:00:00.000Z"} | (
        {} if is_partition else {"col-2": "2013-01-02T06:00:00.000Z"}
    )
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    values = {"col-2": "2013-01-02 06:00:00"} if is_partition else {}
    file = {
        "path": "x.parquet",
        "partitionValues": values,
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    actions = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"metaData": metadata},
        {"add": file | {"stats": json.dumps(stats)}},
    ]
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text(
        "".join(json.dumps(action) + "\n" for action in actions)
    )
    source = pin(SOURCE, str(tmp_path))
    chosen = [[file.path for file in source.files(hour(low), hour(low + 24), "a", None)] for low in (0, 24)]
    assert chosen == [[], ["x.parquet"]]
