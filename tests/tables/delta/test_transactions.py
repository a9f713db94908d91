"""Facts that commits leave in a log are found by the transaction of the commit, however long the log is."""

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import Transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.tables.delta import transactions as module
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.log_files import commit_path
from slackwater.tables.delta.transactions import Transactions

SCHEMA = pa.schema([("seq", pa.int64())])
APPLICATION = "app"


def commit(folder: Folder, seq: int | None) -> None:
    """A commit with the transaction `seq` and a fact of it; None: of somebody who makes no transaction."""
    if seq is None:
        folder.append(pa.table({"seq": pa.array([0])}))
    else:
        folder.commit_files([], transaction=Transaction(APPLICATION, seq), facts={"said": f"of {seq}"})


def facts_of(folder: Folder, first: int, last: int) -> dict[int, str]:
    facts = Transactions(folder, APPLICATION).facts(first, last)
    return {seq: values["said"] for seq, values in facts.items() if "said" in values}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, list[int]]:
    """A table with 150 commits: others without a transaction among them, and gaps between the seqs."""
    folder = Folder(str(tmp_path_factory.mktemp("log") / "t"), SCHEMA)
    seqs, seq = [], 0
    for number in range(150):
        seq += 1 + number % 3
        commit(folder, None if number % 5 in (1, 2) else seq)
        seqs += [] if number % 5 in (1, 2) else [seq]
    return folder, seqs


@settings(max_examples=40)
@given(st.data())
def test_the_facts_of_a_range_of_transactions_are_found(
    log: tuple[Folder, list[int]], data: st.DataObject
) -> None:
    folder, seqs = log
    first = data.draw(st.integers(0, seqs[-1] + 2))
    last = data.draw(st.integers(first, seqs[-1] + 2))
    assert facts_of(folder, first, last) == {seq: f"of {seq}" for seq in seqs if first <= seq <= last}


def test_few_commits_are_read_of_a_long_log(log: tuple[Folder, list[int]]) -> None:
    folder, seqs = log
    for seq in (seqs[0], seqs[40], seqs[-1]):
        with patch.object(module, "filesystem", wraps=module.filesystem) as file_systems:
            assert facts_of(folder, seq, seq) == {seq: f"of {seq}"}
        # Halving 151 versions takes 8 steps, each of which may meet two commits without a transaction.
        assert file_systems.call_count <= 8 * 3 + 32


def test_commits_that_are_gone_from_the_log_have_no_facts(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "t"), SCHEMA)
    for seq in range(1, 9):
        commit(folder, seq)
    folder.open().as_delta_rs().create_checkpoint()
    for version in range(5):
        (tmp_path / "t" / commit_path(version)).unlink()
    assert facts_of(Folder(folder.uri, SCHEMA), 1, 99) == {seq: f"of {seq}" for seq in range(5, 9)}


def test_there_are_none_where_there_is_no_table(tmp_path: Path) -> None:
    assert facts_of(Folder(str(tmp_path / "t"), SCHEMA), 1, 9) == {}
