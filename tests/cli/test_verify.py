"""`slackwater verify SEQ` repeats a run to the same hashes, finds rows that were tampered with, names inputs
that are gone, and writes nothing.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs import opened_pipeline
from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.stored import StoredTables

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def stored(replayed: StoredTables, tmp_path: Path) -> StoredTables:
    """Three runs of `departures`, of the test's own."""
    return StoredTables(shutil.copytree(replayed.warehouse, tmp_path / "warehouse"), "departures")


def verify(stored: StoredTables, seq: int, *options: object) -> int:
    return here("verify", "departures", seq, "--warehouse", stored.warehouse, *options)


def versions(stored: StoredTables) -> dict[str, int]:
    return {
        folder.name: DeltaTable(str(folder)).version()
        for folder in (stored.warehouse / stored.pipeline).glob("[!_]*")
    }


def files_of(stored: StoredTables, seq: int, table: str) -> list[Path]:
    paths = dict(stored.ledger()[seq - 1]["files"])[table]
    assert paths
    return [Path(stored.uri(table)) / path for path in paths]


def drop(stored: StoredTables, seq: int, table: str) -> None:
    """Take the rows of a run out of a table's log, and delete the files, as upkeep does in time."""
    files = files_of(stored, seq, table)
    DeltaTable(stored.uri(table)).delete(f"run_id = '{stored.ledger()[seq - 1]['run_id']}'")
    for file in files:
        file.unlink()


@pytest.mark.parametrize("seq", [1, 3])
def test_a_run_repeats_to_the_same_hashes_and_counts_and_nothing_is_written(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str], seq: int
) -> None:
    before = versions(replayed)
    assert verify(replayed, seq, "--output", "json") == 0
    facts = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    row = replayed.ledger()[seq - 1]
    for name in ("state_hash", "output_hash", "rows_read", "rows_late", "windows_open", "windows_refired"):
        assert (facts[name]["recorded"], facts[name]["replayed"], facts[name]["equal"]) == (
            row[name],
            row[name],
            True,
        )
    assert all(fact["equal"] for fact in facts.values())
    assert versions(replayed) == before, "a table has a new version, or there is another folder"


def test_a_snapshot_that_somebody_has_changed_is_refused_by_the_run_after_it(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    [file] = files_of(stored, 2, "window_state")
    rows = pq.read_table(file, partitioning=None)
    more = pc.add(rows.column("flights__count"), pa.array([5] * rows.num_rows, pa.int64()))
    pq.write_table(
        rows.set_column(rows.schema.get_field_index("flights__count"), "flights__count", more), file
    )
    assert verify(stored, 3) == 1
    text = new_output()
    assert f"window_state of run 2 ({stored.ledger()[1]['run_id']})" in text and file.name in text
    assert (
        "`slackwater state restore departures 1`" in text
        and "`slackwater backfill departures --from 2013-01-02T" in text
    )
    assert verify(stored, 2) == 0, "the run before it is not concerned"


def test_a_snapshot_that_is_gone_is_told_with_the_nearest_one_kept(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    drop(stored, 2, "timers")
    assert verify(stored, 3) == 2
    assert (
        "the snapshot of run 2 is gone" in (text := new_output())
        and "the nearest one kept before it is that of run 1" in text
    )
    drop(stored, 1, "window_state")
    assert verify(stored, 3) == 2
    assert "none before it is kept either" in new_output()
    assert verify(stored, 1) == 0, "a run at the start of the lineage has no parent"


def test_a_file_of_a_snapshot_that_nobody_has_dropped_is_named(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    for file in files_of(stored, 2, "timers"):
        file.unlink()
    assert verify(stored, 3) == 1
    text = new_output()
    assert file.name in text and "it is not there any more, and the table's log names it" in text
    assert "`slackwater backfill departures --from 2013-01-02T" in text


def test_rows_of_the_source_that_are_gone_are_told(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    for file in (stored.warehouse / "sources" / "departures").rglob("*.parquet"):
        file.unlink()
    assert verify(stored, 2) == 2
    assert "files that it has read of version" in (text := new_output()) and "are gone (vacuumed)" in text


def test_a_run_of_other_declarations_is_refused_and_one_of_other_expectations_is_not(
    hourly: Hourly, without_spark: None, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-02")
    for settings, code in (("", 0), ("'allowed_lateness': __import__('datetime').timedelta(hours=9)", 2)):
        hourly.declare(expect="expect.between('flights', min=1)", settings=settings)
        new_output()
        assert here("verify", "hourly", 1, *hourly.where) == code
        text = new_output()
        assert ("allowed_lateness: 4 hours → 9 hours" in text) == bool(code)
        assert ("the code has changed since the run" in text) != bool(code)


def test_a_run_that_is_not_there_is_told(replayed: StoredTables, new_output: Callable[[], str]) -> None:
    assert verify(replayed, 99) == 2
    assert "no row 99" in new_output()


def test_a_small_run_is_repeated_without_spark(stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(app: str) -> Callable[[], InProcess]:
        def make() -> InProcess:
            raise AssertionError(f"Spark was started for {app}")

        return make

    monkeypatch.setattr(opened_pipeline, "spark_transport", refuse)
    assert verify(stored, 2) == 0
    assert here("state", "close", "departures", "--warehouse", stored.warehouse) == 0
    assert verify(stored, 4) == 0, "the close repeats as well"
