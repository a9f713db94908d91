"""A warehouse that an earlier state of the product wrote is read, continued, restated and verified by this
one.

The expected tables are those of today's code after the same commands from the start.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.engine.transport.in_process import InProcess
from slackwater.tables.schemas import FORMAT_VERSION
from tests.integration.command import here
from tests.integration.conftest import great_expectations as great_expectations
from tests.integration.stored import Row, StoredTables
from tests.warehouses.earlier import FORMATS, PIPELINES, unpacked
from tests.warehouses.write import write

NAMES = ("readings", "peaks", "totals")
STAGED = ("panes", "late_events", "quarantine")
SNAPSHOT = ("window_state", "timers", "keyed_state", "source_progress")
SIDES = {"readings": (), "peaks": ("side_records",), "totals": ("side_large",)}
# What two runs of one slice need not have in common. Other code converges later, so its lineage has more
# rows.
ACCIDENTAL = {"run_id", "run_seq", "source_file"}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_spark")]


@pytest.fixture(scope="module")
def of_today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same commands, and those of `_go_on`, by today's code. Not to be written."""
    warehouse = tmp_path_factory.mktemp("today") / "warehouse"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.runs.opened_pipeline.spark_transport", lambda app: InProcess)
        write(warehouse)
        _go_on(warehouse)
    return warehouse


@pytest.fixture(scope="module", params=FORMATS)
def number(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def earlier(number: int, tmp_path: Path) -> Path:
    return unpacked(tmp_path, number)


@pytest.fixture(scope="module")
def continued(number: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of an earlier format after `_go_on`. Not to be written."""
    warehouse = unpacked(tmp_path_factory.mktemp("continued"), number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.runs.opened_pipeline.spark_transport", lambda app: InProcess)
        _go_on(warehouse)
    return warehouse


def _go_on(warehouse: Path) -> None:
    """The fourth day is run, a staged one published, a branch published, a range restated, a restore made and
    the days run again.
    """
    _done(warehouse, "run", "readings", "--to", "2024-03-05")
    _done(warehouse, "publish", "totals")
    _done(warehouse, "backfill", "peaks", "--from", "2024-03-02", "--to", "2024-03-03")
    _done(warehouse, "run", "peaks", "--to", "2024-03-05")
    _done(warehouse, "backfill", "readings", "--from", "2024-03-01", "--to", "2024-03-02")
    _done(warehouse, "state", "restore", "totals", 2)
    for pipeline in NAMES:
        _done(warehouse, "run", pipeline, "--to", "2024-03-06")


def _done(warehouse: Path, *arguments: object, code: int = 0) -> None:
    assert here(*arguments, "--warehouse", warehouse, "--pipelines", PIPELINES) == code, arguments


def _facts(stored: StoredTables) -> dict[str, Counter[str]]:
    """Rows that count, by table."""
    tables = {name: stored.live(name) for name in (*STAGED, *SIDES[stored.pipeline])}
    tables |= {name: stored.parked(name) for name in SNAPSHOT}
    tables |= {"published": stored.rows("published")}
    return {
        name: Counter(
            repr({column: value for column, value in row.items() if column not in ACCIDENTAL}) for row in rows
        )
        for name, rows in tables.items()
    }


def _versions(warehouse: Path) -> dict[str, int]:
    return {str(log.parent): DeltaTable(str(log.parent)).version() for log in warehouse.rglob("_delta_log")}


def test_inspection_reads_it_and_writes_nothing(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _versions(earlier)

    def rows(*arguments: object) -> list[dict]:
        capsys.readouterr()
        _done(earlier, *arguments, "--output", "json")
        return json.loads(capsys.readouterr().out)

    for pipeline in NAMES:
        stored = StoredTables(earlier, pipeline)
        head = [row for row in stored.ledger() if row["branch"] == "main"][-1]
        assert [row["seq"] for row in rows("runs", pipeline)] == [row["seq"] for row in stored.ledger()]
        [one] = rows("runs", pipeline, 2)
        assert one["rows_quarantined"] == 3 and one["checks"]
        live = [
            row
            for row in stored.ledger()
            if any(span["first_seq"] <= row["seq"] <= span["last_seq"] for span in head["live"])
        ]
        assert len(rows("late", "list", pipeline)) == sum(row["rows_late"] for row in live)
        assert (
            len(rows("state", "windows", pipeline))
            == len(stored.parked("window_state"))
            == head["windows_open"]
        )
        for table, verb in (
            ("timers", "timers"),
            ("keyed_state", "keyed"),
            ("source_progress", "watermarks"),
        ):
            assert len(rows("state", verb, pipeline)) == len(stored.parked(table))
        assert rows("state", "diff", pipeline, 1, 2) and rows("late", "report", pipeline) is not None
    assert [row["branch"] for row in rows("branches", "list", "readings")] == ["trial"]
    assert _versions(earlier) == before


def test_great_expectations_reports_on_its_runs(
    earlier: Path, tmp_path: Path, great_expectations: None
) -> None:
    _done(earlier, "runs", "readings", "--data-docs", tmp_path / "report")
    recorded: dict[str, list[bool]] = {}
    for row in StoredTables(earlier, "readings").rows("validations"):
        if row["column_name"]:
            recorded.setdefault(row["run_id"], []).append(row["passed"])
    results = {
        path.stem: json.loads(path.read_text()) for path in (tmp_path / "report" / "results").iterdir()
    }
    assert recorded
    assert {
        run_id: [item["success"] for item in result["results"]] for run_id, result in results.items()
    } == recorded


def test_going_on_comes_to_what_todays_code_comes_to_from_the_start(continued: Path, of_today: Path) -> None:
    for pipeline in NAMES:
        facts, wanted = _facts(StoredTables(continued, pipeline)), _facts(StoredTables(of_today, pipeline))
        assert sum(wanted["published"].values()) > 30
        for table, rows in wanted.items():
            assert facts[table] - rows == rows - facts[table] == Counter(), (pipeline, table)


def test_what_is_written_now_is_of_todays_format_so_that_earlier_states_refuse_it(
    continued: Path, number: int
) -> None:
    for pipeline in NAMES:
        formats = [row["format_version"] for row in StoredTables(continued, pipeline).ledger()]
        assert set(formats) == {number, FORMAT_VERSION} and formats == sorted(formats)


def _runs_that_repeat(warehouse: Path, seqs: set[int], new_output: Callable[[], str]) -> int:
    runs = [
        (pipeline, row["seq"])
        for pipeline in NAMES
        for row in StoredTables(warehouse, pipeline).ledger()
        if row["kind"] == "run"
    ]
    chosen = [(pipeline, seq) for pipeline, seq in runs if seq in seqs]
    for pipeline, seq in chosen:
        _done(warehouse, "verify", pipeline, seq)
        assert "repeats to the same hashes" in new_output()
    return len(chosen)


def test_its_runs_repeat_before_anything_is_written(earlier: Path, new_output: Callable[[], str]) -> None:
    assert _runs_that_repeat(earlier, {1, 3, 5}, new_output) == 8


def test_its_runs_repeat_after_it_is_gone_on_with(continued: Path, new_output: Callable[[], str]) -> None:
    assert _runs_that_repeat(continued, {1, 2, 6, 8, 10, 12}, new_output) > 8


def test_upkeep_puts_runs_together_that_stood_apart(earlier: Path) -> None:
    tables = ("panes", "late_events", "quarantine", "side_records")
    before = {table: Counter(map(repr, StoredTables(earlier, "peaks").rows(table))) for table in tables}
    _done(earlier, "maintain", "peaks")
    for table, rows in before.items():
        assert Counter(map(repr, StoredTables(earlier, "peaks").rows(table))) == rows
        assert len(DeltaTable(StoredTables(earlier, "peaks").uri(table)).file_uris()) == 1


def test_going_on_behind_upkeep_comes_to_the_same(earlier: Path, of_today: Path) -> None:
    _done(earlier, "maintain", "peaks")
    _go_on(earlier)
    assert _facts(StoredTables(earlier, "peaks")) == _facts(StoredTables(of_today, "peaks"))


def _known(rows: list[Row]) -> Counter[str]:
    """Rows without the columns that they have not: of an earlier format a row lacks some."""
    return Counter(repr({name: value for name, value in row.items() if value is not None}) for row in rows)


@pytest.mark.parametrize("pipeline", NAMES)
def test_a_key_is_erased_from_every_table_and_it_is_gone_on_with(earlier: Path, pipeline: str) -> None:
    source = DeltaTable(str(earlier / "sources" / "readings"))
    site = sorted(row["site"] for row in source.to_pyarrow_table().to_pylist() if row["site"])[0]
    source.delete(f"site = '{site}'")
    tables = (*STAGED, *SNAPSHOT, *SIDES[pipeline], "published", "corrections")
    before = {name: StoredTables(earlier, pipeline).rows(name) for name in tables}
    _done(earlier, "erase", pipeline, "--key", site, "--reason", "asked for")
    for name, rows in before.items():
        left = [
            row for row in rows if row.get("site") != site and f'"{site}"' not in (row.get("row_json") or "")
        ]
        assert _known(StoredTables(earlier, pipeline).rows(name)) == _known(left), (pipeline, name)
    states = [row["key_group"] for row in before["keyed_state"] if row["site"] == site]
    assert len(before["panes"]) > len(StoredTables(earlier, pipeline).rows("panes")) > 0 and (
        pipeline == "readings" or states
    )
    _done(earlier, "verify", pipeline, "--tables")
    _done(earlier, "run", pipeline, "--to", "2024-03-06")
    if pipeline == "peaks":  # the preview of this range was made before the erasure
        _done(earlier, "branches", "drop", pipeline, "preview-20240302t000000-20240303t000000")
    _done(earlier, "backfill", pipeline, "--from", "2024-03-02", "--to", "2024-03-03")
    _done(earlier, "verify", pipeline, "--tables")
