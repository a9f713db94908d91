"""Differences of two snapshots, held against counting rows one by one; in parts and of one key they are the
same.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.inspection.snapshot_diff import TABLES, differences
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.errors import DamagedFile
from slackwater.tables.schemas import TIME
from slackwater.windowing.times import to_datetime

KEYS, WINDOWS = ("k",), ("window_start", "window_end")
GROUPS = {"a": 0, "b": 0, "c": 3, "d": 9}
WINDOW_STATE = pa.schema(
    [
        ("run_id", pa.string()),
        ("key_group", pa.int32()),
        ("k", pa.string()),
        ("window_start", TIME),
        ("window_end", TIME),
        ("elements", pa.int64()),
        ("note", pa.string()),
    ]
)
PROGRESS = pa.schema([("run_id", pa.string()), ("source_partition", pa.string()), ("watermark", TIME)])


class Window(NamedTuple):
    """A row of `window_state`."""

    k: str
    start: int | None
    elements: int
    note: str | None

    @property
    def identity(self) -> tuple[str, int | None]:
        return self.k, self.start

    def values(self) -> dict[str, Any]:
        start = None if self.start is None else to_datetime(self.start)
        times = {"window_start": start, "window_end": to_datetime((self.start or 0) + 10)}
        return {"k": self.k, **times, "elements": self.elements, "note": self.note}


WINDOW = st.builds(
    Window,
    st.sampled_from(list(GROUPS)),
    st.none() | st.integers(0, 2),
    st.integers(1, 2),
    st.none() | st.sampled_from("xy"),
)
FILES = st.lists(st.lists(WINDOW, max_size=6), max_size=3)


def stored(root: str, files: Sequence[Sequence[Window]]) -> dict[str, StoredFiles]:
    """A snapshot of windows alone."""
    schemas = {name: PROGRESS if name == "source_progress" else WINDOW_STATE for name in TABLES}
    folders = {name: Folder(f"{root}/{name}", schema) for name, schema in schemas.items()}
    for folder in folders.values():
        folder.ensure()
    for windows in files:
        rows = [{"run_id": "r", "key_group": GROUPS[one.k], **one.values()} for one in windows]
        folders["window_state"].append(pa.Table.from_pylist(rows, WINDOW_STATE))
    return {name: folder.files() for name, folder in folders.items()}


@contextmanager
def two_snapshots(
    left: Sequence[Sequence[Window]], right: Sequence[Sequence[Window]]
) -> Iterator[tuple[Mapping[str, StoredFiles], Mapping[str, StoredFiles]]]:
    with tempfile.TemporaryDirectory() as root:
        yield stored(f"{root}/left", left), stored(f"{root}/right", right)


def by_values(windows: Counter[Window]) -> list[Window]:
    """Rows of one identity, in the order in which they are paired: nulls last."""
    return sorted(windows.elements(), key=lambda one: (one.elements, one.note is None, one.note or ""))


def expected_differences(left: list[Window], right: list[Window]) -> list[dict[str, Any]]:
    """Equal rows are taken away in pairs; the others of one identity are paired in the order of their
    values.
    """
    differing = []
    for identity in {one.identity for one in (*left, *right)}:
        sides = [Counter(one for one in rows if one.identity == identity) for rows in (left, right)]
        rest = [by_values(sides[0] - sides[1]), by_values(sides[1] - sides[0])]
        for place in range(max(map(len, rest))):
            pair = [rows[place].values() if place < len(rows) else None for rows in rest]
            first = pair[0] or pair[1] or {}
            names = [name for name in ("elements", "note") if not all(pair) or pair[0][name] != pair[1][name]]
            differing.append(
                {
                    "what": "window",
                    **{name: first[name] for name in (*KEYS, *WINDOWS)},
                    "name": None,
                    "there": "both" if all(pair) else "left" if pair[0] else "right",
                    "left": pair[0] and {name: pair[0][name] for name in names},
                    "right": pair[1] and {name: pair[1][name] for name in names},
                }
            )
    return differing


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as JSON, sorted."""
    return sorted(json.dumps(row, default=datetime.isoformat) for row in rows)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By window, then key, nulls first. Rows of one identity have no order."""
    return sorted(rows, key=lambda row: (row["window_start"] is not None, str(row["window_start"]), row["k"]))


@given(FILES, FILES, st.sampled_from([1, 3, 100]))
@settings(max_examples=12, deadline=None)
def test_differences_are_those_of_counting_rows(
    left: list[list[Window]], right: list[list[Window]], rows_at_once: int
) -> None:
    expected = expected_differences([*chain(*left)], [*chain(*right)])
    with two_snapshots(left, right) as sides:
        rows, total = differences(*sides, KEYS, WINDOWS, rows_at_once=rows_at_once)
        assert total == len(expected) and texts(rows) == texts(expected)
        assert rows == in_order(rows)
        first_rows, total = differences(*sides, KEYS, WINDOWS, most=2, rows_at_once=rows_at_once)
        assert total == len(expected)
        assert [row["k"] for row in first_rows] == [row["k"] for row in rows[:2]]
        for key_group in (GROUPS["c"], None):
            of_key, _ = differences(*sides, KEYS, WINDOWS, key={"k": pa.scalar("c")}, key_group=key_group)
            assert texts(of_key) == texts([row for row in expected if row["k"] == "c"])


def test_files_that_both_snapshots_have_are_not_read(tmp_path: Path) -> None:
    """Each file has one window; one snapshot has the first two files, the other the first and the third."""
    stored_files = stored(str(tmp_path), [[Window("a", number, 1, None)] for number in range(3)])
    files = stored_files["window_state"].one_by_one()
    by_start = {one.read(["window_start"]).column(0)[0].as_py(): one.paths[0] for one in files}
    paths = [by_start[to_datetime(number)] for number in range(3)]
    sides = [
        {**stored_files, "window_state": stored_files["window_state"].among([paths[0], path])}
        for path in paths[1:]
    ]
    (tmp_path / "window_state" / paths[0]).unlink()
    rows, _ = differences(sides[0], sides[1], KEYS, WINDOWS)
    assert [(row["window_start"], row["there"]) for row in rows] == [
        (to_datetime(1), "left"),
        (to_datetime(2), "right"),
    ]
    with pytest.raises(DamagedFile, match=paths[0]):
        differences(sides[0], stored(f"{tmp_path}/empty", []), KEYS, WINDOWS)


def test_a_damaged_file_of_a_snapshot_is_named(tmp_path: Path) -> None:
    """A bit of a value is wrong, which DuckDB itself would not notice."""
    window = Window("a", 1, 1, "x" * 40)
    sides = [stored(f"{tmp_path}/{side}", [[window]]) for side in ("left", "right")]
    [path] = (tmp_path / "right" / "window_state").glob("*.parquet")
    path.write_bytes(path.read_bytes().replace(b"x" * 40, b"x" * 39 + b"y", 1))
    with pytest.raises(DamagedFile, match=path.name):
        differences(sides[0], sides[1], KEYS, WINDOWS)
