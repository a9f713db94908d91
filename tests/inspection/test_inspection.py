"""Inspection answers from the stored tables alone: the head's snapshot, the rows of live runs, attempts and
roll-forwards that are not finished. Differences of snapshots (`snapshot_diff`) are tested with the verb.
"""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import Transaction

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse
from tests.tables.ledger.ledger_rows import clock, day, run_row

SHAPE = Shape(
    keys=(("origin", pa.string()), ("part", pa.int32())),
    results=(("n", pa.int64()),),
    parts=(),
    source=(("origin", pa.string()),),
)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Warehouse(str(tmp_path)).tables("flights", SHAPE)
    tables.ensure()
    return tables


@pytest.fixture
def inspection(tables: Tables, tmp_path: Path) -> Inspection:
    return Inspection.of("flights", str(tmp_path))


def stage(tables: Tables, run_id: str, **rows: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Write rows of tables as a run does; returns its files by table."""
    files: dict[str, tuple[str, ...]] = {}
    for name, values in rows.items():
        folder = tables[name]
        schema = pa.schema([field for field in folder.schema if field.name != "run_id"])
        part = pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in values], schema=schema)
        written = write_staged(folder.uri, run_id, "driver", part)
        folder.commit_files([written])
        files[name] = (written.path,)
    return files


def commit(
    tables: Tables, run_id: str, day_number: int, branch: str = "main", **rows: list[dict[str, Any]]
) -> LedgerRow:
    ledger = LedgerWriter(tables["runs"])
    head = ledger.head(branch)
    row = run_row(run_id, day_number=day_number, branch=branch, files=stage(tables, run_id, **rows))
    return ledger.commit(branch, None if head is None else head.seq, [row], clock)[0]


def correct(tables: Tables, seq: int, *starts: Any, is_published: bool = True) -> None:
    """What the roll-forward of a ledger row leaves, as far as inspection looks at it."""
    rows = [
        {**dict.fromkeys(tables["corrections"].schema.names), "seq": seq, "window_start": start}
        for start in starts
    ]
    tables["corrections"].append(pa.Table.from_pylist(rows, schema=tables["corrections"].schema))
    if is_published:
        empty = tables["published"].schema.empty_table()
        tables["published"].append(empty, tables["published"].open(), Transaction(APPLICATION, seq))


def test_a_pipeline_that_never_ran_says_how_to_run_it(tmp_path: Path) -> None:
    with pytest.raises(NoRuns, match="flights has never run"):
        Inspection.of("flights", str(tmp_path))


def test_tables_of_a_first_run_that_was_killed_while_it_made_them_are_none(
    tables: Tables, tmp_path: Path
) -> None:
    for path in sorted((tmp_path / "flights" / "published").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(NoRuns, match="flights has never run"):
        Inspection.of("flights", str(tmp_path))


def test_an_empty_ledger_has_nothing_to_show(
    inspection: Inspection, capsys: pytest.CaptureFixture[str]
) -> None:
    inspection.say_if_unfinished()
    assert capsys.readouterr().err == ""
    assert inspection.runs(0) == [] and inspection.open_attempts() == []
    with pytest.raises(
        UsageError, match="flights has no committed run yet; `slackwater runs flights` shows its attempts"
    ):
        inspection.snapshot("window_state", None)
    with pytest.raises(NoRuns, match="the ledger has no row 3"):
        inspection.run(3)


class TestSnapshots:
    def test_the_head_of_main_owns_the_current_one(self, tables: Tables, inspection: Inspection) -> None:
        commit(
            tables, "r1", 0, window_state=[{"origin": "EWR", "elements": 1}, {"origin": "JFK", "elements": 2}]
        )
        commit(tables, "r2", 1, window_state=[{"origin": "EWR", "elements": 5}])
        commit(tables, "f1", 1, branch="fix", window_state=[{"origin": "LGA", "elements": 9}])
        assert inspection.snapshot("window_state", None).select(["origin", "elements"]).to_pylist() == [
            {"origin": "EWR", "elements": 5}
        ]
        assert inspection.snapshot("window_state", 1).column("origin").to_pylist() == ["EWR", "JFK"]
        assert inspection.snapshot("window_state", 3).column("origin").to_pylist() == ["LGA"]
        assert "run_id" not in inspection.snapshot("window_state", None).column_names

    def test_a_run_that_left_nothing_open_has_an_empty_one(
        self, tables: Tables, inspection: Inspection
    ) -> None:
        commit(tables, "r1", 0, window_state=[{"origin": "EWR"}])
        commit(tables, "r2", 1)
        assert inspection.snapshot("window_state", None).num_rows == 0
        assert inspection.snapshot("timers", 1).num_rows == 0

    def test_rows_that_were_staged_and_never_committed_do_not_exist(
        self, tables: Tables, inspection: Inspection
    ) -> None:
        commit(tables, "r1", 0, window_state=[{"origin": "EWR"}], late_events=[{"origin": "EWR"}])
        stage(tables, "rejected", window_state=[{"origin": "JFK"}], late_events=[{"origin": "JFK"}])
        assert inspection.snapshot("window_state", None).column("origin").to_pylist() == ["EWR"]
        assert inspection.live("late_events").rows.column("origin").to_pylist() == ["EWR"]


def test_live_rows_are_those_of_mains_runs_each_with_its_seq(tables: Tables, inspection: Inspection) -> None:
    commit(tables, "r1", 0, late_events=[{"origin": "EWR"}])
    commit(tables, "f1", 0, branch="fix", late_events=[{"origin": "XXX"}])
    commit(tables, "r2", 1, late_events=[{"origin": "JFK"}, {"origin": "LGA"}])
    rows, seqs = inspection.live("late_events")
    pairs = zip(
        seqs.to_pylist(), rows.column("run_id").to_pylist(), rows.column("origin").to_pylist(), strict=True
    )
    assert list(pairs) == [(1, "r1", "EWR"), (3, "r2", "JFK"), (3, "r2", "LGA")]
    assert inspection.live("quarantine").rows.num_rows == 0


def test_of_one_run_only_its_files_are_opened_and_of_one_key_only_its_rows_are_given(
    tables: Tables, inspection: Inspection
) -> None:
    commit(tables, "r1", 0, late_events=[{"origin": "EWR"}])
    origins = ["JFK", "LGA", "JFK"]
    commit(tables, "r2", 1, late_events=[{"origin": origin, "part": 7} for origin in origins])
    assert inspection.late("JFK,7").rows.column("origin").to_pylist() == ["JFK", "JFK"]
    assert inspection.late("JFK,7", 1).rows.num_rows == inspection.late("JFK,8").rows.num_rows == 0
    folder = tables["late_events"]
    [path] = folder.files(Within.only("run_id", "r1")).paths
    Path(folder.uri, path).unlink()
    assert inspection.late(seq=2).rows.column("origin").to_pylist() == ["JFK", "LGA", "JFK"]
    assert inspection.late(seq=2).seqs.to_pylist() == [2, 2, 2]


class TestTheLog:
    def test_a_run_names_the_days_that_it_changed_once_they_are_published(
        self, tables: Tables, inspection: Inspection
    ) -> None:
        for number in range(3):
            commit(tables, f"r{number}", number)
        correct(tables, 1, day(0), day(1), day(0), None)
        correct(tables, 2)
        correct(tables, 3, day(2), is_published=False)
        assert inspection.touched_dates(inspection.runs(0)) == {
            1: ["", str(date(2013, 1, 1)), str(date(2013, 1, 2))], 2: [], 3: [],
        }  # fmt: skip
        assert [row.seq for row in inspection.runs(2)] == [3]
        assert inspection.touched_dates(inspection.runs(2)) == {3: []}

    def test_an_unfinished_roll_forward_is_said_and_left_alone(
        self, tables: Tables, inspection: Inspection, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for number in range(2):
            commit(tables, f"r{number}", number)
        correct(tables, 1)
        inspection.say_if_unfinished()
        assert (
            "`published` is as of run 1, the ledger at 2; the next writing command, for example `slackwater "
            "publish flights`, finishes" in (capsys.readouterr().err)
        )
        correct(tables, 2)
        inspection.say_if_unfinished()
        assert capsys.readouterr().err == ""

    def test_checks_are_those_of_the_run(self, tables: Tables, inspection: Inspection) -> None:
        commit(tables, "r1", 0)
        names = tables["validations"].schema.names
        rows = [{**dict.fromkeys(names), "run_id": run_id, "expectation": run_id} for run_id in ("r1", "r2")]
        tables["validations"].append(pa.Table.from_pylist(rows, schema=tables["validations"].schema))
        assert [check["expectation"] for check in inspection.checks(1)] == ["r1"]

    def test_attempts_that_the_ledger_has_are_not_open_whatever_they_say_of_themselves(
        self, tables: Tables, inspection: Inspection
    ) -> None:
        attempts = AttemptsWriter(tables["attempts"])
        for run_id, outcome in (("r1", "staged"), ("r2", "failed"), ("r3", "claimed")):
            attempt = Attempt(
                run_id=run_id, parent_seq=None, slice_start=day(0), slice_end=day(1), at=clock()
            )
            attempts.record(attempt, clock(), outcome=outcome)
        commit(tables, "r1", 0)
        assert {(row["run_id"], row["outcome"]) for row in inspection.open_attempts()} == {
            ("r2", "failed"),
            ("r3", "claimed"),
        }


def test_key_columns_are_read_off_the_stored_table(inspection: Inspection) -> None:
    assert inspection.key_columns() == ["origin", "part"]
