"""A log that has lost a file is refused with the name of that file; one that has lost nothing that is needed
is read.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.errors import LogDamaged

SCHEMA = pa.schema([("n", pa.int64())])
EMPTY_IT = Path.touch
HINT = "_last_checkpoint"

Damage = Callable[[Path], object]


def commit(version: int) -> str:
    return f"{version:020d}.json"


def checkpoint(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def empty(*names: str) -> Damage:
    return lambda log: [(log / name).write_bytes(b"") for name in names]


def lose(*names: str) -> Damage:
    return lambda log: [(log / name).unlink() for name in names]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A table whose version n has the rows 1 … n, up to 22, with checkpoints of the versions 9 and 19."""
    folder = Folder(f"{tmp_path}/t", SCHEMA)
    for n in range(1, 23):
        folder.append(pa.table({"n": [n]}))
    names = {path.name for path in (tmp_path / "t/_delta_log").iterdir()}
    assert {checkpoint(9), checkpoint(19), HINT, *map(commit, range(23))} <= names
    return folder


def log_of(folder: Folder) -> Path:
    return Path(folder.uri) / "_delta_log"


WITHOUT_CHECKPOINTS = lose(HINT, checkpoint(9), checkpoint(19))


@pytest.mark.parametrize(
    ("damages", "named_file", "message"),
    [
        ([empty(commit(21))], commit(21), "is empty"),
        ([empty(commit(22))], commit(22), "is empty"),
        ([empty(commit(23))], commit(23), "is empty"),
        ([lose(commit(21))], commit(21), "is missing"),
        ([lose(commit(20))], commit(20), "is missing"),
        ([WITHOUT_CHECKPOINTS, empty(commit(3))], commit(3), "is empty"),
        ([WITHOUT_CHECKPOINTS, empty(commit(0))], commit(0), "is empty"),
        ([WITHOUT_CHECKPOINTS, lose(commit(3))], commit(3), "is missing"),
        ([WITHOUT_CHECKPOINTS, lose(commit(0))], commit(0), "is missing"),
        (
            [lose(checkpoint(19))],
            HINT,
            "names a checkpoint of version 19 that is lost; the commits are all there",
        ),
        (
            [empty(checkpoint(19))],
            HINT,
            "names a checkpoint of version 19 that is lost; the commits are all there",
        ),
        (
            [lose(checkpoint(19), checkpoint(9))],
            HINT,
            "names a checkpoint of version 19 that is lost; the commits are all there",
        ),
        (
            [lose(checkpoint(19), checkpoint(9), commit(0))],
            checkpoint(19),
            "is missing or empty, and commits before it are gone",
        ),
    ],
)
def test_a_file_that_is_lost_is_named(
    folder: Folder, damages: list[Damage], named_file: str, message: str
) -> None:
    for damage in damages:
        damage(log_of(folder))
    with pytest.raises(
        LogDamaged, match=rf"^{re.escape(folder.uri)}: _delta_log/{named_file} {message}"
    ) as raised_error:
        Folder(folder.uri, SCHEMA).read()
    assert raised_error.value.facts == {"uri": folder.uri, "path": f"_delta_log/{named_file}"}
    assert raised_error.value.exit_code == 1


@pytest.mark.parametrize(
    "damage", [empty(HINT), lose(HINT), empty(commit(19)), lose(*map(commit, range(19))), lose(checkpoint(9))]
)
def test_files_that_no_reader_needs_may_be_lost(folder: Folder, damage: Damage) -> None:
    damage(log_of(folder))
    assert sorted(Folder(folder.uri, SCHEMA).read().column("n").to_pylist()) == list(range(1, 23))


def test_the_table_can_be_read_again_without_the_hint_that_the_error_says_to_delete(folder: Folder) -> None:
    lose(checkpoint(19), checkpoint(9))(log_of(folder))
    with pytest.raises(LogDamaged, match=rf"`rm _delta_log/{HINT}`"):
        Folder(folder.uri, SCHEMA).read()
    lose(HINT)(log_of(folder))
    assert sorted(Folder(folder.uri, SCHEMA).read().column("n").to_pylist()) == list(range(1, 23))


def test_an_empty_commit_is_noticed_also_by_a_handle_that_is_open(folder: Folder) -> None:
    """Another process' commits after it make it one in the middle."""
    another = Folder(folder.uri, SCHEMA)
    another.append(pa.table({"n": [23]}))
    another.append(pa.table({"n": [24]}))
    empty(commit(23))(log_of(folder))
    with pytest.raises(LogDamaged, match=f"{commit(23)} is empty"):
        folder.read()


def test_an_empty_newest_commit_of_one_s_own_is_seen(folder: Folder) -> None:
    empty(commit(22))(log_of(folder))
    for use in (folder.read, lambda: folder.append(pa.table({"n": [23]}))):
        with pytest.raises(LogDamaged, match=f"{commit(22)} is empty"):
            use()
    assert not (log_of(folder) / commit(23)).exists()
