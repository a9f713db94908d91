"""Snapshots of every format version that there was restore to what they were, and no other version is guessed
at.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.windowing.snapshot import (
    FORMAT_VERSION,
    SnapshotTables,
    SnapshotVersionError,
    migrate,
    read_tables,
)
from slackwater.windowing.snapshot.files import STEPS
from tests.windowing.snapshot.fixed_operators import FOLDER, OPERATORS, content_of

VERSIONS = sorted(int(folder.name[1:]) for folder in FOLDER.iterdir() if folder.name.startswith("v"))


def files_of(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / f"{table}.parquet").read_bytes() for table in SnapshotTables._fields)


def test_there_is_a_snapshot_of_every_version() -> None:
    assert list(range(1, FORMAT_VERSION + 1)) == VERSIONS
    assert sorted(STEPS) == list(range(1, FORMAT_VERSION))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_snapshot_of_any_version_restores_with_equal_content(name: str, version: int) -> None:
    folder = FOLDER / f"v{version}" / name
    codec, snapshot = OPERATORS[name]()
    tables, stored_version = read_tables(files_of(folder))
    assert stored_version == version
    restored_content = content_of(codec.from_tables(tables, version))
    assert restored_content == json.loads((folder / "content.json").read_text(encoding="utf-8"))
    assert restored_content == content_of(snapshot)


@pytest.mark.parametrize("name", OPERATORS)
def test_this_release_still_writes_this_version(name: str) -> None:
    """Whoever changes what is written raises FORMAT_VERSION."""
    codec, snapshot = OPERATORS[name]()
    tables_on_file, _ = read_tables(files_of(FOLDER / f"v{FORMAT_VERSION}" / name))
    assert list(codec.to_tables(snapshot)) == list(tables_on_file)


NOTHING = SnapshotTables(*[pa.table({"key_group": pa.array([], pa.int32())})] * 3)


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(
        SnapshotVersionError, match=r"of format 9, this release reads up to 1\. Install the release"
    ) as refusal:
        migrate(NOTHING, 9)
    assert (refusal.value.version, refusal.value.supported) == (9, FORMAT_VERSION)


def test_steps_are_taken_one_after_the_other() -> None:
    steps = {
        number: lambda tables, number=number: SnapshotTables(
            *(table.append_column(f"from_{number}", pa.nulls(table.num_rows)) for table in tables)
        )
        for number in (1, 2)
    }
    assert migrate(NOTHING, 1, steps, target=3).timers.column_names == ["key_group", "from_1", "from_2"]
    assert migrate(NOTHING, 2, steps, target=3).timers.column_names == ["key_group", "from_2"]
    assert migrate(NOTHING, 3, steps, target=3) is NOTHING


@pytest.mark.parametrize("version", [0, 1])
def test_a_version_from_which_no_step_leads_is_refused(version: int) -> None:
    with pytest.raises(
        SnapshotVersionError, match=f"of format {version}, and no step leads from {version} to {version + 1}"
    ):
        migrate(NOTHING, version, {2: lambda tables: tables}, target=3)
