"""A log that has lost a file is refused with the name of that file; one that has lost nothing that is needed
is read.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import LogDamaged

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


def drop_last_line(log: Path) -> None:
    path = log / commit(23)
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0])


def replace_in_newest(old: bytes, new: bytes) -> Damage:
    def damage(log: Path) -> None:
        path = log / commit(23)
        content = path.read_bytes()
        assert content.count(old) == 1
        path.write_bytes(content.replace(old, new))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop_last_line, r"was cut off: it has 1 of its 2 lines"),
        (replace_in_newest(b'\\"numRecords\\": 1', b'\\"numRecords\\": 7'), "was changed: its lines are not"),
        (
            replace_in_newest(b'"slackwaterLines": "2"', b'"slackwaterLines": "z"'),
            "was changed: its first line",
        ),
    ],
)
def test_a_commit_that_is_cut_between_two_lines_or_changed_is_named(
    folder: Folder, damage: Damage, message: str
) -> None:
    """By one who reads, by one who would extend the table, and by one who has it open as of before."""
    Folder(folder.uri, SCHEMA).append(pa.table({"n": [23]}))
    damage(log_of(folder))
    for use in (
        Folder(folder.uri, SCHEMA).read,
        partial(Folder(folder.uri, SCHEMA).append, pa.table({"n": [24]})),
        folder.read,
    ):
        with pytest.raises(LogDamaged, match=f"{commit(23)} {message}") as raised_error:
            use()
        assert raised_error.value.exit_code == 1
    assert not (log_of(folder) / commit(24)).exists()


def test_commits_that_delta_rs_writes_for_us_say_how_long_they_are(tmp_path: Path) -> None:
    """A value of a partition that needs quotes makes a commit that is no plain one."""
    schema = pa.schema([("n", pa.int64()), ("place", pa.string())])
    folder = Folder(f"{tmp_path}/t", schema, partition_by=("place",))
    folder.append(pa.table({"n": [1, 2], "place": ["a b", "c d"]}))
    newest = log_of(folder) / commit(1)
    lines = newest.read_bytes().splitlines()
    info = json.loads(lines[0])["commitInfo"]
    assert info["slackwaterLines"] == "3" == str(len(lines)) and "slackwaterChecksum" not in info
    newest.write_bytes(b"\n".join(lines[:2]))
    with pytest.raises(LogDamaged, match="was cut off: it has 2 of its 3 lines"):
        Folder(folder.uri, schema).read()


def test_commits_that_say_nothing_of_their_length_are_read(folder: Folder) -> None:
    """As earlier versions and other writers have written them."""
    for path in log_of(folder).glob("*.json"):
        info, *others = path.read_bytes().splitlines()
        facts = json.loads(info)
        for name in ("slackwaterLines", "slackwaterChecksum"):
            facts["commitInfo"].pop(name, None)
        path.write_bytes(b"\n".join([json.dumps(facts).encode(), *others]))
    assert sorted(Folder(folder.uri, SCHEMA).read().column("n").to_pylist()) == list(range(1, 23))
