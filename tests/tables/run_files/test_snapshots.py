"""Files of a snapshot: those that the log has of the run; dropped ones are put back until a vacuum may delete
them.
"""

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.errors import DamagedFile, SnapshotGone
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import (
    is_kept,
    put_back,
    put_back_around,
    require_kept,
    snapshot_files,
)
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables
from tests.tables.ledger.ledger_rows import run_row

SCHEMA = pa.schema([("run_id", pa.string()), ("key_group", pa.int32()), ("n", pa.int64())])
DAY_S = 86_400


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables({name: Folder(f"{tmp_path}/{name}", SCHEMA, ("run_id",)) for name in SNAPSHOT_TABLES})


def stage_snapshot(tables: Tables, run_id: str) -> LedgerRow:
    """A run that has left two rows of window state in two files, and nothing else."""
    folder, rows = tables["window_state"], pa.table({"key_group": pa.array([1], pa.int32()), "n": [7]})
    files = [write_staged(folder.uri, run_id, part, rows) for part in ("a", "b")]
    folder.commit_files(files)
    return run_row(run_id, seq=1, files={"window_state": tuple(file.path for file in files), "timers": ()})


def drop(tables: Tables, row: LedgerRow, days_ago: float = 0) -> None:
    """Take the run's rows out of the log, as upkeep did so long ago: the commit, which is changed for that,
    is one without a checksum.
    """
    folder = tables["window_state"]
    TableUpkeep(folder).drop_partitions("run_id", [row.run_id])
    commit = Path(f"{folder.uri}/_delta_log/{DeltaTable(folder.uri).version():020d}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    del actions[0]["commitInfo"]["slackwaterChecksum"]
    for action in actions:
        if "remove" in action:
            action["remove"]["deletionTimestamp"] = int((time.time() - days_ago * DAY_S) * 1000)
    commit.write_text("\n".join(map(json.dumps, actions)))


def in_log(tables: Tables) -> set[str]:
    fresh = Folder(tables["window_state"].uri, SCHEMA, ("run_id",))
    return {path for path, _, _ in fresh.files().descriptions()}


def rows_of(tables: Tables, run_id: str) -> int:
    return DeltaTable(tables["window_state"].uri).to_pyarrow_table(filters=[("run_id", "=", run_id)]).num_rows


def test_a_snapshot_that_the_log_has_is_not_committed_again(tables: Tables) -> None:
    row = stage_snapshot(tables, "r1")
    version = DeltaTable(tables["window_state"].uri).version()
    assert put_back(tables, row)["window_state"] == row.files["window_state"]
    assert DeltaTable(tables["window_state"].uri).version() == version
    assert put_back(tables, None) == dict.fromkeys(SNAPSHOT_TABLES, ())


def test_dropped_files_can_be_read_and_put_back_for_six_days(tables: Tables) -> None:
    row, other = stage_snapshot(tables, "r1"), stage_snapshot(tables, "r2")
    drop(tables, row, days_ago=5.9)
    fresh = Tables({name: Folder(folder.uri, SCHEMA, ("run_id",)) for name, folder in tables.folders.items()})
    assert in_log(fresh) == set(other.files["window_state"])
    assert is_kept(fresh, row) and snapshot_files(fresh, "window_state", row) == row.files["window_state"]
    assert set(put_back(fresh, row)["window_state"]) == set(row.files["window_state"])
    assert in_log(fresh) == {*row.files["window_state"], *other.files["window_state"]}
    assert rows_of(fresh, "r1") == 2
    put_back(fresh, row)
    assert rows_of(fresh, "r1") == 2, "once"


def test_files_that_a_vacuum_may_delete_within_a_day_count_as_gone(tables: Tables) -> None:
    row = stage_snapshot(tables, "r1")
    drop(tables, row, days_ago=6.1)
    fresh = Tables({name: Folder(folder.uri, SCHEMA, ("run_id",)) for name, folder in tables.folders.items()})
    assert not is_kept(fresh, row)
    with pytest.raises(SnapshotGone, match="state restore"):
        put_back(fresh, row)
    assert in_log(fresh) == set()


def test_a_file_that_is_lost_is_named_where_its_snapshot_is_needed(tables: Tables) -> None:
    row = stage_snapshot(tables, "r1")
    require_kept(tables, "hourly", row, [row])
    path, _ = row.files["window_state"]
    Path(tables["window_state"].uri, path).unlink()
    with pytest.raises(DamagedFile, match="it is not there any more, and the table's log names it") as error:
        require_kept(tables, "hourly", row, [row])
    assert error.value.facts["path"] == path


def test_a_snapshot_that_is_dropped_while_it_becomes_current_is_put_back_afterwards(tables: Tables) -> None:
    row = stage_snapshot(tables, "r1")
    with put_back_around(tables, row):
        drop(tables, row)
    assert in_log(tables) == set(row.files["window_state"])


def test_a_run_is_found_by_its_rows_where_somebody_has_rewritten_them(tables: Tables) -> None:
    row = stage_snapshot(tables, "r1")
    DeltaTable(tables["window_state"].uri).optimize.compact()
    [path] = snapshot_files(tables, "window_state", row)
    assert path not in row.files["window_state"] and rows_of(tables, "r1") == 2
