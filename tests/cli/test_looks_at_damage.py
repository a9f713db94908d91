"""Verbs that look name a file that is damaged, replaced or gone, with the next step."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.command import here
from tests.integration.stored import StoredTables

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture
def stored(replayed: StoredTables, tmp_path: Path) -> StoredTables:
    return StoredTables(shutil.copytree(replayed.warehouse, tmp_path / "warehouse"), "departures")


def newest_two(stored: StoredTables, table: str) -> tuple[Path, Path]:
    """The file of the newest run, and that of the run before it."""
    files = sorted(Path(stored.uri(table)).rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    return files[-1], files[-2]


@pytest.mark.parametrize(
    "words", [("state", "windows", "departures"), ("sql", "departures", "FROM windows_now")]
)
def test_parked_rows_of_another_run_are_not_shown(
    stored: StoredTables, new_output: Callable[[], str], words: tuple[str, ...]
) -> None:
    file, other = newest_two(stored, "window_state")
    shutil.copyfile(other, file)
    new_output()
    assert here(*words, "--warehouse", stored.warehouse) == 1
    text = new_output()
    assert file.name in text and "not the file that was written" in text and "`slackwater backfill" in text


def test_a_flipped_bit_in_a_page_is_noticed_by_sql(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    file, _ = newest_two(stored, "published")
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(bytes(content))
    new_output()
    assert (
        here("sql", "departures", "SELECT count(flights) FROM published", "--warehouse", stored.warehouse)
        == 1
    )
    assert file.name in (text := new_output()) and "--rebuild" in text


def test_a_published_file_that_another_has_replaced_is_noticed_by_its_size(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    file, other = newest_two(stored, "published")
    assert file.stat().st_size != other.stat().st_size
    shutil.copyfile(other, file)
    for words in (("sql", "departures", "FROM published"), ("verify", "departures", "--tables")):
        new_output()
        assert here(*words, "--warehouse", stored.warehouse) == 1, words
        text = new_output()
        assert file.name in text and "bytes, and the table's log says" in text and "--rebuild" in text


def test_a_file_that_is_gone_is_named_by_sql(stored: StoredTables, new_output: Callable[[], str]) -> None:
    file, _ = newest_two(stored, "published")
    file.unlink()
    new_output()
    assert here("sql", "departures", "FROM published", "--warehouse", stored.warehouse) == 1
    text = new_output()
    assert file.name in text and "it is not there any more" in text and "Put the file back" in text


def test_health_says_how_to_go_on(stored: StoredTables, new_output: Callable[[], str]) -> None:
    for file in newest_two(stored, "source_progress"):
        file.write_bytes(b"")
    new_output()
    assert here("health", "departures", "--output", "json", "--warehouse", stored.warehouse) == 1
    text = new_output()
    assert "source_progress" in text and "slackwater backfill departures" in text


def test_a_file_of_attempts_with_doubled_rows_is_noticed_by_its_size(
    stored: StoredTables, new_output: Callable[[], str]
) -> None:
    assert here("maintain", "departures", "--warehouse", stored.warehouse) == 0
    compacted = [file for file in Path(stored.uri("attempts")).glob("*.parquet") if "-seal" not in file.name]
    for file in compacted:
        rows = pq.read_table(file)
        pq.write_table(pa.concat_tables([rows, rows]), file)
    new_output()
    assert here("verify", "departures", "--tables", "--warehouse", stored.warehouse) == 1
    text = new_output()
    assert "bytes, and the table's log says" in text and "put the file back from a copy" in text
