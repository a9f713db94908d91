"""A table whose commits this process applies itself is the table that delta-rs opens."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable, PlainCommit
from slackwater.tables.delta.stored_files import Within

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("ratio", pa.float64()),
        ("sum", pa.decimal128(38, 0)),
        ("inner", pa.struct([("a", pa.int64())])),
        ("part", pa.string()),
    ]
)
START = datetime(2013, 1, 1, tzinfo=UTC)


def row(n: int | None, part: str | None) -> dict[str, Any]:
    number = 0 if n is None else n
    return {
        "n": n,
        "text": None if n is None else "t" * number,  # the log has texts of up to 32 characters whole
        "at": START + timedelta(milliseconds=number),
        "day": date(2013, 1, 1) + timedelta(days=number),
        "ratio": None if n is None else n / 7,
        "sum": Decimal(number) * 10**30,
        "inner": {"a": n},
        "part": part,
    }


values = st.tuples(st.none() | st.integers(0, 30), st.sampled_from(["p", "q", None]))
steps = st.lists(
    st.tuples(st.sampled_from(["append", "remove", "transaction", "of delta-rs"]), values),
    min_size=1,
    max_size=8,
)


@given(steps)
def test_it_lists_the_files_that_delta_rs_lists(taken: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as root:
        folder = Folder(f"{root}/t", SCHEMA, ("part",))
        folder.ensure()
        for number, (step, (n, part)) in enumerate(taken):
            rows = pa.Table.from_pylist([row(n, part)], schema=SCHEMA)
            if step == "append":
                folder.append(rows)
            elif step == "of delta-rs":
                write_deltalake(folder.uri, rows, mode="append")
            elif step == "remove":
                folder.commit_files([], folder.files(Within.only("part", part)), transaction=None)
            else:
                folder.commit_files([], transaction=Transaction("a", number))
        ours, theirs = folder.open(), DeltaTable(folder.uri)
        assert ours.version() == theirs.version()
        assert ours.transaction_version("a") == theirs.transaction_version("a")
        files_of_delta_rs = pa.table(theirs.get_add_actions(flatten=True))
        assert ours.actions.sort_by("path").equals(files_of_delta_rs.sort_by("path"))
        assert ours.as_delta_rs().version() == ours.version()


def test_a_version_does_not_change_by_what_comes_after(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}/t", pa.schema([("n", pa.int64())]))
    versions: list[OpenTable] = []
    for n in range(12):  # beyond a checkpoint
        versions.append(folder.ensure())
        folder.append(pa.table({"n": [n]}))
    assert [table.actions.num_rows for table in reversed(versions)] == list(range(11, -1, -1))


@pytest.mark.parametrize(
    "action",
    [
        {"metaData": {"id": "x"}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
        {"domainMetadata": {"domain": "d"}},
        {"add": {"path": "a.parquet", "deletionVector": {"storageType": "u"}}},
        {"add": {"path": "a%20b.parquet"}},
        {"remove": {"path": "s3://elsewhere/a b.parquet"}},
        {"cdc": {"path": "c.parquet"}},
    ],
    ids=lambda action: next(iter(action)),
)
def test_what_is_not_plain_is_left_to_delta_rs(action: dict[str, Any]) -> None:
    content = "\n".join(map(json.dumps, ({"commitInfo": {}}, action))).encode()
    assert PlainCommit.of(content) is None


def test_a_log_that_a_commit_of_earlier_versions_carries_is_passed_over(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}/t", pa.schema([("n", pa.int64())]))
    for n in range(3):
        folder.append(pa.table({"n": [n]}))
    path = tmp_path / "t" / "_delta_log" / f"{3:020d}.json"
    info, *lines = path.read_text().splitlines()
    commit_info = {**json.loads(info)["commitInfo"], "slackwaterPackedLog": "c$@(M0RsIy1OW)"}
    path.write_text("\n".join([json.dumps({"commitInfo": commit_info}), *lines]))
    assert sorted(Folder(folder.uri, folder.schema).read()["n"].to_pylist()) == [0, 1, 2]
