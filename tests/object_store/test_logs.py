"""The log of a table in an object store, read by the names of its files; delta-rs reads the same table from
the server's files.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.tables.delta.carried_log import CARRIED_COMMITS, KEY, pack, unpack
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.errors import LogDamaged
from tests.object_store.conftest import Store
from tests.object_store.proxy import Fault
from tests.object_store.server import BUCKET

SCHEMA = pa.schema([("n", pa.int64())])


def table_in(store: Store, name: str, commits: int) -> tuple[str, Path]:
    """(URI, the server's folder) of a table to which one process has appended so many rows."""
    folder = Folder(f"s3://{BUCKET}/{name}", SCHEMA)
    for n in range(commits):
        folder.append(pa.table({"n": [n]}))
    store.proxy.forget()
    return folder.uri, store.folder / name


def checkpoint_versions(files: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (files / "_delta_log").glob("*.checkpoint.parquet"))


def values(folder: Folder) -> list[int]:
    return sorted(folder.read()["n"].to_pylist())


def test_it_is_opened_by_its_checkpoint_and_the_commits_since(in_store: Store) -> None:
    uri, files = table_in(in_store, "long", 22)
    table = DeltaTable(files)
    assert (table.version(), sorted(table.to_pyarrow_table()["n"].to_pylist())) == (22, list(range(22)))
    assert checkpoint_versions(files) == [17, 20], "the ones before these are superseded"
    reader = Folder(uri, SCHEMA)
    assert reader.version() == 22
    counts = in_store.proxy.counts()
    assert counts == {"GET": len(["hint", "checkpoint", 21, 22, "no 23"])}
    in_store.proxy.forget()
    assert reader.version() == 22
    assert in_store.proxy.counts() == {"GET": 1}


def test_behind_a_recorded_version_its_files_are_read_by_their_names(in_store: Store) -> None:
    """Who commits behind it learns of newer commits, and who reads asks for them."""
    uri, _ = table_in(in_store, "recorded", 22)
    reader, writer = Folder(uri, SCHEMA), Folder(uri, SCHEMA)
    for folder in (reader, writer):
        table = folder.find_behind(21)
        assert table is not None and table.version() == 21
        assert in_store.proxy.counts() == {"GET": len(["checkpoint", 21])}
        in_store.proxy.forget()
    assert values(reader) == list(range(22))
    writer.append(pa.table({"n": [22]}))
    assert values(reader) == values(writer) == list(range(23))


@pytest.mark.parametrize("is_there", [False, True], ids=["no checkpoint", "no commit"])
def test_where_such_a_file_is_missing_the_table_is_opened_by_its_hint(
    in_store: Store, is_there: bool
) -> None:
    """An earlier version writes fewer checkpoints. Without the commit that is recorded it is an older table,
    which the caller refuses.
    """
    uri, files = table_in(in_store, f"early_{is_there}", 12)
    missing = f"{12:020d}.json" if is_there else f"{11:020d}.checkpoint.parquet"
    (files / "_delta_log" / missing).unlink()
    if not is_there:
        hint = {"version": 8, "size": 9}
        (files / "_delta_log" / "_last_checkpoint").write_text(json.dumps(hint))
    table = Folder(uri, SCHEMA).find_behind(12)
    assert table is not None and table.version() == (11 if is_there else 12)


def carrying(uri: str) -> Folder:
    return Folder(uri, SCHEMA, has_recorded_version=True)


def test_a_commit_carries_those_since_the_last_checkpoint(in_store: Store) -> None:
    """One process for each commit. Who appends opens nothing else; who reads opens the last checkpoint, too.
    For delta-rs the table is an ordinary one.
    """
    uri, files = f"s3://{BUCKET}/carried", in_store.folder / "carried"
    carrying(uri).ensure()
    versions = 2 * CARRIED_COMMITS + 3
    for version in range(1, versions):
        folder = carrying(uri)
        assert folder.find_behind(version - 1) is not None
        in_store.proxy.forget()
        folder.append(pa.table({"n": [version]}))
        if (version + 1) % CARRIED_COMMITS:
            assert in_store.proxy.counts() == {"PUT": len(["rows", "commit"])}
    assert checkpoint_versions(files) == [CARRIED_COMMITS - 1, 2 * CARRIED_COMMITS - 1]
    in_store.proxy.forget()
    table = carrying(uri).find_behind(versions - 1)
    assert table is not None and in_store.proxy.counts() == {"GET": len(["commit"])}
    assert table.version() == versions - 1 and table.schema == SCHEMA
    rows = carrying(uri).read_at(table)["n"].to_pylist()
    assert sorted(rows) == sorted(DeltaTable(files).to_pyarrow_table()["n"].to_pylist())
    assert sorted(rows) == list(range(1, versions))


def test_commits_that_are_too_large_to_be_carried_get_a_checkpoint_every_third_time(in_store: Store) -> None:
    """One process for each commit, which reads by their names the checkpoint and the commits since."""
    uri, files = f"s3://{BUCKET}/large_commits", in_store.folder / "large_commits"
    carrying(uri).ensure()
    statistics = '{"numRecords": 1}'
    for version in range(1, 12):
        new_files = [
            WrittenFile(f"part-{version}-{number}.parquet", {}, 1, 100, statistics) for number in range(500)
        ]
        folder = carrying(uri)
        in_store.proxy.forget()
        assert folder.find_behind(version - 1) is not None
        assert checkpoint_versions(files) == list(range(2, version, 3))[-2:]
        counts = in_store.proxy.counts()
        assert counts.keys() == {"GET"} and counts["GET"] <= len(["checkpoint", "a commit", "the next one"])
        folder.commit_files(new_files)
    assert DeltaTable(files).get_add_actions().num_rows == 11 * 500


def test_a_commit_that_later_ones_carry_may_be_gone(in_store: Store) -> None:
    """The next checkpoint mends the log for other readers. A checkpoint that is gone is named."""
    uri, files = f"s3://{BUCKET}/gone", in_store.folder / "gone"
    folder = carrying(uri)
    count = CARRIED_COMMITS + 5
    for n in range(count):
        folder.append(pa.table({"n": [n]}))
    (files / f"_delta_log/{count - 2:020d}.json").unlink()
    for n in range(count, count + CARRIED_COMMITS):
        reader = carrying(uri)
        table = reader.find_behind(n)
        assert table is not None and sorted(reader.read_at(table)["n"].to_pylist()) == list(range(n))
        reader.append(pa.table({"n": [n]}))
    assert sorted(DeltaTable(files).to_pyarrow_table()["n"].to_pylist()) == list(
        range(count + CARRIED_COMMITS)
    )
    newest = count + CARRIED_COMMITS
    (files / f"_delta_log/{2 * CARRIED_COMMITS - 1:020d}.checkpoint.parquet").unlink()
    newest_table = carrying(uri).find_behind(newest)
    assert newest_table is not None
    with pytest.raises(LogDamaged, match="checkpoint"):
        carrying(uri).read_at(newest_table)


@pytest.mark.parametrize("has_recorded_version", [False, True], ids=["every third", "carried"])
def test_every_version_can_be_read_though_its_checkpoint_is_superseded(
    in_store: Store, has_recorded_version: bool
) -> None:
    name, count = f"versions_{has_recorded_version}", 3 * CARRIED_COMMITS
    folder, files = Folder(f"s3://{BUCKET}/{name}", SCHEMA, (), None, has_recorded_version), in_store.folder
    for n in range(count):
        folder.append(pa.table({"n": [n]}))
    interval = CARRIED_COMMITS if has_recorded_version else 3
    last = count // interval * interval - 1
    assert checkpoint_versions(files / name) == [last - interval, last]
    assert [DeltaTable(files / name, version=version).count() for version in range(count + 1)] == list(
        range(count + 1)
    )


def test_checkpoints_of_upkeep_and_the_two_before_them_are_not_superseded(in_store: Store) -> None:
    """Upkeep takes commits away, and the oldest version that is left then begins with one of these."""
    uri, files = table_in(in_store, "kept_small", 12)
    TableUpkeep(Folder(uri, SCHEMA)).checkpoint()
    for n in range(12, 24):
        Folder(uri, SCHEMA).append(pa.table({"n": [n]}))
    assert checkpoint_versions(files) == [8, 11, 12, 20, 23]
    assert values(Folder(uri, SCHEMA)) == list(range(24))


def test_who_is_behind_by_more_commits_than_one_carries_opens_the_newest_checkpoint(in_store: Store) -> None:
    """The commit whose version is recorded names one that was superseded since."""
    uri = f"s3://{BUCKET}/far_behind"
    folder, recorded, count = carrying(uri), CARRIED_COMMITS + 5, 4 * CARRIED_COMMITS
    for n in range(count):
        folder.append(pa.table({"n": [n]}))
    reader = carrying(uri)
    assert reader.find_behind(recorded) is not None
    in_store.proxy.forget()
    assert values(reader) == list(range(count))
    counts = in_store.proxy.counts()
    assert not counts["LIST"]
    commits = 2 * CARRIED_COMMITS + 1
    assert counts["GET"] <= count + commits + len(["hint", "checkpoint"]), "of rows, and of the log"


def test_a_newest_commit_that_is_lost_is_missed(in_store: Store) -> None:
    uri, files = f"s3://{BUCKET}/newest_lost", in_store.folder / "newest_lost"
    folder = carrying(uri)
    for n in range(5):
        folder.append(pa.table({"n": [n]}))
    (files / f"_delta_log/{5:020d}.json").unlink()
    table = carrying(uri).find_behind(5)
    assert table is not None and table.version() == 4
    (files / f"_delta_log/{5:020d}.json").write_bytes(b"")
    with pytest.raises(LogDamaged, match="is empty"):
        carrying(uri).find_behind(5)


def test_a_commit_whose_answer_is_lost_is_among_what_is_known(in_store: Store) -> None:
    uri, _ = table_in(in_store, "unanswered", 2)
    folder = Folder(uri, SCHEMA)
    assert values(folder) == [0, 1]
    with in_store.proxy.faults(Fault.LOST, r"PUT .*unanswered/_delta_log/"):
        folder.append(pa.table({"n": [2]}))
    assert folder.known_files().rows == 3
    assert folder.files(table=folder.newest_known()).rows == 3


def test_a_checkpoint_is_as_good_as_the_commits_before_it(in_store: Store) -> None:
    uri, files = table_in(in_store, "cleaned", 12)
    for version in range(9):
        (files / f"_delta_log/{version:020d}.json").unlink()
    assert values(Folder(uri, SCHEMA)) == list(range(12))
    assert sorted(DeltaTable(files).to_pyarrow_table()["n"].to_pylist()) == list(range(12))


def test_what_others_commit_is_seen(in_store: Store) -> None:
    """Plain commits by their names, others by opening the table anew."""
    uri, files = table_in(in_store, "shared", 2)
    reader, other = Folder(uri, SCHEMA), Folder(uri, SCHEMA)
    assert values(reader) == [0, 1]
    other.append(pa.table({"n": [2]}))
    assert values(reader) == [0, 1, 2]
    other.add_columns([pa.field("more", pa.string())])
    assert reader.stored_layout().schema.names == ["n"], "what it knows will do"
    assert reader.open().schema.names == ["n", "more"]
    DeltaTable(files).delete("n = 1")
    assert values(reader) == [0, 2]


def test_where_there_is_no_table_there_is_none(in_store: Store) -> None:
    folder = Folder(f"s3://{BUCKET}/nowhere", SCHEMA)
    assert folder.find() is None and values(folder) == []


@pytest.mark.parametrize("version", [3, 4])
def test_an_empty_commit_is_named(in_store: Store, version: int) -> None:
    uri, files = table_in(in_store, f"damaged_{version}", 4)
    (files / f"_delta_log/{version:020d}.json").write_bytes(b"")
    with pytest.raises(LogDamaged, match=f"{version:020d}.json is empty"):
        Folder(uri, SCHEMA).read()


@pytest.mark.parametrize("version", [3, 4])
def test_a_commit_that_is_cut_between_two_lines_is_named(in_store: Store, version: int) -> None:
    uri, files = table_in(in_store, f"cut_{version}", 4)
    commit = files / f"_delta_log/{version:020d}.json"
    commit.write_bytes(commit.read_bytes().rpartition(b"\n")[0])
    for use in (Folder(uri, SCHEMA).read, lambda: Folder(uri, SCHEMA).append(pa.table({"n": [9]}))):
        with pytest.raises(LogDamaged, match=f"{version:020d}.json was cut off: it has 1 of its 2 lines"):
            use()


def _cut(content: dict[str, Any]) -> str:
    del content["commits"][-1][-1]
    return "was cut off: it has 1 of its 2 lines"


def _other_file(content: dict[str, Any]) -> str:
    content["commits"][-1][-1]["add"]["size"] += 1
    return "was changed: its lines are not those"


def _one_too_few(content: dict[str, Any]) -> str:
    del content["commits"][1]
    return "was changed: the commits that it carries"


@pytest.mark.parametrize("damage", [_cut, _other_file, _one_too_few])
def test_commits_that_are_carried_are_compared_with_what_they_say(
    in_store: Store, damage: Callable[[dict[str, Any]], str]
) -> None:
    uri, files = f"s3://{BUCKET}/seals{damage.__name__}", in_store.folder / f"seals{damage.__name__}"
    folder = carrying(uri)
    for n in range(4):
        folder.append(pa.table({"n": [n]}))
    path = files / f"_delta_log/{4:020d}.json"
    first_line, _, own_lines = path.read_text().partition("\n")
    commit_info = json.loads(first_line)
    carried = unpack(commit_info["commitInfo"][KEY])
    reason = damage(carried)
    commit_info["commitInfo"][KEY] = pack(carried)
    path.write_text("\n".join([json.dumps(commit_info), own_lines]))
    with pytest.raises(LogDamaged, match=f"{path.name} {reason}"):
        carrying(uri).find_behind(4)


@pytest.mark.parametrize("lines", [1, 2])
def test_a_commit_that_carries_others_and_is_cut_is_named(in_store: Store, lines: int) -> None:
    """Within its first line, and behind it."""
    uri, files = f"s3://{BUCKET}/cut_carrier_{lines}", in_store.folder / f"cut_carrier_{lines}"
    folder = carrying(uri)
    for n in range(4):
        folder.append(pa.table({"n": [n]}))
    path = files / f"_delta_log/{4:020d}.json"
    first_line = path.read_bytes().partition(b"\n")[0]
    path.write_bytes(first_line if lines == 2 else first_line[:-60])
    with pytest.raises(LogDamaged, match=f"{path.name} was (cut off|changed)"):
        carrying(uri).find_behind(4)
