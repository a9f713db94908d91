"""`slackwater verify PIPELINE --tables` finds every change that somebody else made to the tables, and reports
no other.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.tables.delta import stored_files
from tests.integration.command import here
from tests.integration.stored import StoredTables


@pytest.fixture
def stored(replayed: StoredTables, tmp_path: Path) -> StoredTables:
    return StoredTables(shutil.copytree(replayed.warehouse, tmp_path / "warehouse"), "departures")


def verify(stored: StoredTables, *options: str) -> int:
    return here("verify", stored.pipeline, "--tables", *options, "--warehouse", stored.warehouse)


def test_tables_that_nobody_has_touched_are_as_recorded(
    replayed: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(replayed, "--output", "json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(fact["equal"] for fact in facts)
    ledger = {row["seq"]: row for row in replayed.ledger()}
    for table, what in (
        ("panes", "output_hash"),
        ("late_events", "rows_late"),
        ("quarantine", "rows_quarantined"),
    ):
        found = {
            fact["seq"]: fact["stored"] for fact in facts if (fact["table"], fact["what"]) == (table, what)
        }
        assert found == {seq: row[what] for seq, row in ledger.items()}
    assert {fact["stored"] for fact in facts if fact["what"] == "state_hash"} == {
        row["state_hash"] for row in ledger.values()
    }
    assert sum(row["rows_late"] for row in ledger.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "what", "step"),
    [
        (
            "panes",
            "panes of run 2: output_hash",
            "backfill departures --from 2013-01-02T00:00:00Z --to 2013-01-03T00:00:00Z",
        ),
        ("late_events", "late_events of run 2: rows_late", "backfill departures --from 2013-01-02"),
        ("published", "published: rows that its corrections make", "publish departures --rebuild"),
        ("corrections", "corrections: corrections that do not follow", "RESTORE"),
    ],
)
def test_a_row_that_somebody_has_deleted_is_missed(
    stored: StoredTables, new_output: Callable[[], str], table: str, what: str, step: str
) -> None:
    runs = {row["seq"]: row["run_id"] for row in stored.ledger()}
    own = {"panes": f"run_id = '{runs[2]}' AND origin = 'JFK'", "late_events": f"run_id = '{runs[2]}'"}
    changed = (
        "op = 'insert' AND seq = 1"
        if table == "corrections"
        else own.get(table, "origin = 'JFK' AND kind = 'late'")
    )
    assert DeltaTable(stored.uri(table)).delete(changed)["num_deleted_rows"] > 0
    assert verify(stored) == 1
    text = new_output()
    assert what in text and step in text, text


@pytest.mark.parametrize("table", ["published", "panes"])
def test_a_value_that_somebody_has_changed_is_noticed(
    stored: StoredTables, new_output: Callable[[], str], table: str
) -> None:
    assert (
        DeltaTable(stored.uri(table)).update(updates={"flights": "flights + 1"}, predicate="origin = 'EWR'")[
            "num_updated_rows"
        ]
        > 0
    )
    assert verify(stored) == 1
    assert f"{table}" in new_output()


def test_what_rebuild_mends_is_as_recorded_again(stored: StoredTables, new_output: Callable[[], str]) -> None:
    DeltaTable(stored.uri("published")).delete("origin = 'JFK'")
    assert verify(stored) == 1
    assert here("publish", "departures", "--rebuild", "--warehouse", stored.warehouse) == 0
    new_output()
    assert verify(stored) == 0, new_output()


def test_a_damaged_file_is_a_fact_beside_the_others(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    [file] = (
        path
        for path in (Path(stored.uri("timers")) / f"run_id={stored.ledger()[0]['run_id']}").glob("*.parquet")
    )
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(bytes(content))
    assert verify(stored) == 1
    text = new_output()
    assert file.name in text and "timers of run 1" in text and "1 of them differ" in text


def test_a_flipped_bit_in_the_head_of_a_page_is_named_though_it_changes_no_row(
    stored: StoredTables, new_output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_files, "FEW_BYTES", 0)  # pages of larger files are read one by one
    file = Path(DeltaTable(stored.uri("corrections")).file_uris()[0])
    content, footer = bytearray(file.read_bytes()), pq.read_metadata(file)
    rows, head = pq.read_table(file), footer.row_group(0).column(0).data_page_offset

    def reads_the_same(bit: int) -> bool:
        content[bit // 8] ^= 1 << bit % 8
        try:
            return (
                pq.ParquetFile(
                    pa.BufferReader(bytes(content)), metadata=footer, page_checksum_verification=True
                ).read()
                == rows
            )
        except (OSError, pa.ArrowException):
            return False
        finally:
            content[bit // 8] ^= 1 << bit % 8

    bit = next(bit for bit in range(8 * head, 8 * (head + 20)) if reads_the_same(bit))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(bytes(content))
    assert verify(stored) == 1
    text = new_output()
    assert file.name in text and "corrections: its files" in text and "1 of them differ" in text, text


def test_a_damaged_record_of_the_files_of_a_source_is_named_with_the_way_on(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    records = Path(stored.uri("_source_files"))
    [file] = records.glob("*/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    assert verify(stored) == 1
    text = new_output()
    assert file.name in text and "_source_files: its files" in text and "1 of them differ" in text
    assert f"the folder {file.parent} may be removed" in text, text
    commit = max((file.parent / "_delta_log").glob("*.json"))
    commit.write_bytes(b"")
    assert verify(stored) == 1
    text = new_output()
    assert commit.name in text and "1 of them differ" in text, text
    shutil.rmtree(file.parent)
    assert verify(stored) == 0


def test_a_run_or_the_tables_are_verified_and_not_both(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    assert here("verify", "departures", "1", "--tables", "--warehouse", stored.warehouse) == 2
    assert here("verify", "departures", "--warehouse", stored.warehouse) == 2
    assert "give the SEQ of a run" in new_output()
