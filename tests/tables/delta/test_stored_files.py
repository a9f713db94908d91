"""Rows are found in just the files that may hold them: never fewer than a look at every file finds, and no
other file is opened.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.written_files import write_file
from slackwater.tables.errors import DamagedFile

MOMENT = datetime(2013, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("number", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("x", pa.float64()),
    ]
)

numbers = st.one_of(st.none(), st.integers(-4, 4))
moments = st.one_of(
    st.none(), st.integers(0, 4000).map(lambda number: MOMENT + timedelta(microseconds=number))
)
rows = st.lists(
    st.tuples(numbers, st.sampled_from([None, "a", "b", "ключ"]), moments), min_size=1, max_size=4
)
commits = st.lists(
    st.tuples(st.sampled_from(["p", "q r", None]), rows, st.booleans()), min_size=1, max_size=5
)


def table_of(part: str | None, values: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (part, *row, 1.5), strict=True)) for row in values], schema=SCHEMA
    )


def add(folder: Folder, number: int, part: str | None, values: list[tuple[Any, ...]], is_ours: bool) -> None:
    """One file, written by delta-rs, or by us, which differ in their statistics."""
    table = table_of(part, values)
    if not is_ours or part is None:
        write_deltalake(folder.ensure().as_delta_rs(), table, mode="append", partition_by=["part"])
        return
    folder.commit_files(
        [
            write_file(
                folder.uri,
                f"part={part.replace(' ', '_')}/{number}.parquet",
                table.drop_columns(["part"]),
                {"part": part},
            )
        ]
    )


@settings(max_examples=40)
@given(commits, st.sampled_from(["part", "number", "name", "at"]), st.data())
def test_bounds_leave_out_no_row_that_is_wanted(written: Any, column: str, data: st.DataObject) -> None:
    kinds = {
        "part": st.sampled_from(["p", "q r"]),
        "number": st.integers(-4, 4),
        "name": st.sampled_from(["a", "b"]),
        "at": moments.filter(bool),
    }
    least, greatest = (
        data.draw(st.one_of(st.none(), kinds[column]), label=side) for side in ("least", "greatest")
    )
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("part",))
        for number, (part, values, is_ours) in enumerate(written):
            add(folder, number, part, values, is_ours)
        where = pc.field(column).is_valid()
        if least is not None:
            where = where & (pc.field(column) >= pa.scalar(least, SCHEMA.field(column).type))
        if greatest is not None:
            where = where & (pc.field(column) <= pa.scalar(greatest, SCHEMA.field(column).type))
        every = DeltaTable(folder.uri).to_pyarrow_dataset().to_table(filter=where).select(SCHEMA.names)
        rows_read = folder.read(where=where, within=Within(column, least, greatest))
        assert rows_read.schema.equals(SCHEMA)
        assert sorted(map(repr, rows_read.to_pylist())) == sorted(map(repr, every.to_pylist()))
        assert sorted(map(repr, folder.read(where=where).to_pylist())) == sorted(map(repr, every.to_pylist()))


@pytest.mark.parametrize("skew_s", [-58, 28])
def test_bounds_of_times_that_a_writer_has_skewed_leave_out_no_row(tmp_path: Path, skew_s: int) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA, ("part",))
    moment = datetime(1850, 1, 2, 0, 0, 20, tzinfo=UTC)
    add(folder, 0, "p", [(1, "a", moment)], False)
    [entry] = (tmp_path / "t" / "_delta_log").glob("*1.json")
    skewed_moment = (moment + timedelta(seconds=skew_s)).isoformat(timespec="milliseconds")
    content, count = re.subn(r"1850-01-02T00:00:20[.0]*(Z|\+00:00)", skewed_moment, entry.read_text())
    assert count == 2
    entry.write_text(content)
    reader = Folder(str(tmp_path / "t"), SCHEMA, ("part",))
    rows_read = reader.read(["number"], within=Within.only("at", moment))
    assert rows_read.num_rows == 1


@pytest.mark.parametrize("is_partition", [False, True])
def test_files_out_of_bounds_are_not_opened(tmp_path: Path, is_partition: bool) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA, ("part",))
    for number in range(6):
        add(folder, number, f"p{number}", [(number, "a", MOMENT)], True)
    for number in (0, 1, 4, 5):
        [file] = (tmp_path / "t" / f"part=p{number}").iterdir()
        file.unlink()
    within = Within("part", "p2", "p3") if is_partition else Within("number", 2, 3)
    assert sorted(folder.read(["number"], within=within)["number"].to_pylist()) == [2, 3]
    with pytest.raises(DamagedFile, match=r"part=p[05]/.*is not there any more"):
        folder.read(["number"])


@pytest.mark.parametrize(
    ("least", "name", "wanted_numbers"),
    [(0, "a", [0, 2]), (1, "a", [2]), (2, "b", []), (7, "a", []), (0, "c", [])],
)
def test_bounds_of_several_columns_hold_together_also_where_one_leaves_nothing(
    tmp_path: Path, least: int, name: str, wanted_numbers: list[int]
) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA)
    for number, text in enumerate("aba"):
        folder.append(table_of("p", [(number, text, MOMENT)]))
    files = folder.files(
        Within("number", least, None), Within.only("name", name), Within("at", MOMENT, MOMENT)
    )
    assert sorted(files.read(["number"])["number"].to_pylist()) == wanted_numbers


def test_a_table_that_is_opened_often_has_few_commits_to_read(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA)
    for number in range(25):
        folder.append(table_of("p", [(number, "a", MOMENT)]))
    [newest] = {path.name for path in (tmp_path / "t" / "_delta_log").glob("*020.checkpoint.parquet")} | {
        path.name for path in (tmp_path / "t" / "_delta_log").glob("*019.checkpoint.parquet")
    }
    assert DeltaTable(folder.uri).version() == 25, f"{newest}, then at most ten commits"


@settings(max_examples=20)
@given(commits, st.integers(1, 5))
def test_a_scan_gives_the_rows_of_a_reading_a_few_at_a_time(written: Any, most: int) -> None:
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("part",))
        for number, (part, values, is_ours) in enumerate(written):
            add(folder, number, part, values, is_ours)
        where = pc.field("number") > 0
        parts = list(folder.files().scan(["part", "number"], where, most))
        assert all(1 <= part.num_rows < 2 * most for part in parts)
        rows_read = pa.concat_tables(parts).to_pylist() if parts else []
        assert sorted(map(repr, rows_read)) == sorted(
            map(repr, folder.read(["part", "number"], where).to_pylist())
        )
        assert folder.files().rows == sum(len(values) for _, values, _ in written)


@settings(max_examples=20)
@given(commits, st.sampled_from([None, -1, 1]), st.sampled_from([None, 1, 2]))
def test_rows_within_bounds_are_counted(written: Any, least: int | None, greatest: int | None) -> None:
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("part",))
        for number, (part, values, is_ours) in enumerate(written):
            add(folder, number, part, values, is_ours)
        values = [value for _, rows, _ in written for value, *_ in rows if value is not None]
        count = sum(
            (least is None or least <= value) and (greatest is None or value <= greatest) for value in values
        )
        assert folder.files().count_within(Within("number", least, greatest)) == count


def test_of_files_whose_bounds_lie_within_others_no_row_is_read_to_count_them(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA, ("part",))
    for number, values in enumerate(([1, 2, 2], [2, 3])):
        add(folder, number, "p", [(value, "a", MOMENT) for value in values], is_ours=True)
    [inner] = folder.files(Within("number", None, 1)).paths
    (tmp_path / "t" / inner).unlink()
    assert folder.files().count_within(Within("number", 1, 2)) == 3 + 1
