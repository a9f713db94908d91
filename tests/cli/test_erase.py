"""`slackwater erase`: afterwards the tables are as if the source had never had the rows, the lineage goes on
from them, and no file holds the rows any more.

The twin is a warehouse whose source never had the rows of the key. It has one row of another key wherever
they would have moved the watermark, so that both have the same one.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Warehouse
from tests.cli.own_source import OwnPipeline, every_hour, moment
from tests.integration.conftest import great_expectations as great_expectations

pytestmark = pytest.mark.usefixtures("without_spark")

KEY, OTHER = "abel-4711", "bert"
REASON = "ticket 7"
DAYS = 3
# Columns that say which run made a row, and when; they differ between the two warehouses.
OF_RUN = ("run_id", "seq", "run_seq", "at", "source_file", "source_version")
COMPARED = ("panes", "late_events", "quarantine", "published", "corrections")


def rows_of(key: str) -> list[list[dict[str, object]]]:
    """What arrives on each day of one key: an element an hour, one that is late by a window, one that is too
    late, one without a time.
    """
    days = []
    for day in range(DAYS):
        first = 24 * day
        rows = every_hour(first, first + 24, key)
        rows.append({"e": moment(first + 19.5), "a": moment(first + 21.2), "k": key, "x": 1000})
        rows.append({"e": moment(first + 2), "a": moment(first + 23.1), "k": key, "x": 2000})
        rows.append({"e": None, "a": moment(first + 23.2), "k": key, "x": 3000})
        days.append(rows)
    return days


def made(root: Path, settings: str, *keys: str) -> OwnPipeline:
    root.mkdir()
    own_pipeline = OwnPipeline(root)
    own_pipeline.declare(settings)
    for rows in zip(*map(rows_of, keys), strict=True):
        own_pipeline.append([row for of_key in rows for row in of_key])
    return own_pipeline


def day(number: int) -> str:
    return f"2013-01-0{number}"


def plain(own_pipeline: OwnPipeline, table: str) -> list[str]:
    """The rows of a table as texts, without the columns that say which run made them."""
    return sorted(
        str({name: value for name, value in row.items() if name not in OF_RUN})
        for row in own_pipeline.rows(table)
    )


def head(own_pipeline: OwnPipeline) -> dict[str, object]:
    return max(own_pipeline.rows("runs"), key=lambda row: row["seq"])


def delete_in_source(own_pipeline: OwnPipeline) -> None:
    source = DeltaTable(own_pipeline.source)
    source.delete(f"k = '{KEY}'")
    source.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def files_that_name(own_pipeline: OwnPipeline) -> list[str]:
    """Parquet files of the tables and of the source that hold the key, whether a log names them or not."""
    paths = own_pipeline.warehouse.rglob("*.parquet")
    data = (path for path in paths if "_delta_log" not in path.parts)
    return [str(path) for path in data if KEY in str(pq.ParquetFile(path).read().to_pylist())]


SETTINGS = {
    "columnar": "",
    "operator": "",
    "sessions": "window=EventTimeSessionWindows.with_gap(timedelta(minutes=90))",
    "deduplicated": 'distinct_by="x"',
    "old snapshots": "keep_snapshots=1, keep_snapshot_every=timedelta(days=30)",
}


def engine_of(kind: str) -> tuple[str, ...]:
    return ("--engine", "operator") if kind == "operator" else ()


def assert_same_tables(own_pipeline: OwnPipeline, twin: OwnPipeline) -> None:
    assert {table: plain(own_pipeline, table) for table in COMPARED} == {
        table: plain(twin, table) for table in COMPARED
    }


def erased_and_twin(tmp_path: Path, kind: str) -> tuple[OwnPipeline, OwnPipeline]:
    """A pipeline over both keys, of which one was erased after two days, and one that never had its rows:
    their tables are the same.
    """
    own_pipeline, twin = (
        made(tmp_path / "own", SETTINGS[kind], KEY, OTHER),
        made(tmp_path / "twin", SETTINGS[kind], OTHER),
    )
    for each in (own_pipeline, twin):
        assert each("run", "own", "--to", day(3), *engine_of(kind)) == 0
    assert files_that_name(own_pipeline)
    if kind == "old snapshots":
        assert own_pipeline("maintain", "own") == 0
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert files_that_name(own_pipeline) == []
    assert_same_tables(own_pipeline, twin)
    for name in ("state_hash", "windows_open", "timers_pending", "watermark_out"):
        assert head(own_pipeline)[name] == head(twin)[name]
    assert own_pipeline("verify", "own", "--tables") == 0
    return own_pipeline, twin


def test_tables_after_an_erasure_are_those_of_a_source_that_never_had_the_rows(tmp_path: Path) -> None:
    own_pipeline, twin = erased_and_twin(tmp_path, "operator")
    for each in (own_pipeline, twin):
        assert each("run", "own", "--to", day(4), *engine_of("operator")) == 0
    assert_same_tables(own_pipeline, twin)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_lineage_goes_on_and_is_restated_after_an_erasure_as_if_the_source_never_had_the_rows(
    tmp_path: Path, kind: str
) -> None:
    own_pipeline, twin = erased_and_twin(tmp_path, kind)
    for each in (own_pipeline, twin):
        assert each("run", "own", "--to", day(4), *engine_of(kind)) == 0
        assert each("backfill", "own", "--from", day(3), "--to", day(4)) == 0
    assert_same_tables(own_pipeline, twin)
    assert (
        own_pipeline("publish", "own", "--rebuild")
        == own_pipeline("maintain", "own")
        == own_pipeline("verify", "own", "--tables")
        == 0
    )
    assert plain(own_pipeline, "published") == plain(twin, "published")


@pytest.fixture
def own_pipeline(tmp_path: Path) -> OwnPipeline:
    """Two days of two keys, replayed."""
    made_here = made(tmp_path / "own", "", KEY, OTHER)
    assert made_here("run", "own", "--to", day(3)) == 0
    return made_here


@pytest.mark.slow
def test_an_erasure_waits_for_a_run_and_deletes_no_file_that_a_run_may_be_writing(
    own_pipeline: OwnPipeline, new_output: Callable[[], str]
) -> None:
    delete_in_source(own_pipeline)
    attempts = AttemptsWriter(Warehouse(str(own_pipeline.warehouse)).stored_tables("own")["attempts"])
    wanted = Attempt(
        run_id="other", parent_seq=2, slice_start=moment(48), slice_end=moment(72), at=moment(72)
    )
    before = {table: own_pipeline.rows(table) for table in COMPARED}
    claimed = attempts.claim(wanted, lambda: datetime.now(UTC))
    assert claimed is not None
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 3
    assert (
        "Nothing was changed" in new_output()
        and {table: own_pipeline.rows(table) for table in COMPARED} == before
    )
    attempts.record(claimed, datetime.now(UTC), outcome="failed")
    folder = own_pipeline.warehouse / "own" / "panes"
    spared, dead = folder / "0-silent-1.parquet", folder / "0-other-1.parquet"
    for path in (spared, dead):
        path.write_bytes(b"written by a task")
        os.utime(path, (1, 1))
    # Of this one nobody knows whether it lives: its claim has expired, and it is of another place.
    attempts.record(claimed, datetime.now(UTC), run_id="silent", owner="elsewhere", expires_at=moment(0))
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert spared.exists() and not dead.exists()


def test_an_erasure_is_refused_while_the_source_has_such_rows_and_nothing_changes(
    own_pipeline: OwnPipeline, new_output: Callable[[], str]
) -> None:
    before = {table: own_pipeline.rows(table) for table in (*COMPARED, "runs")}
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 2
    assert "still has" in (text := new_output()) and "DELETE FROM" in text
    assert {table: own_pipeline.rows(table) for table in (*COMPARED, "runs")} == before


@pytest.mark.slow
def test_a_run_over_deleted_rows_is_refused_before_their_erasure_and_not_after_it(
    own_pipeline: OwnPipeline, new_output: Callable[[], str]
) -> None:
    delete_in_source(own_pipeline)
    assert own_pipeline("run", "own", "--to", day(4)) == 2
    assert "were changed or removed" in (text := new_output()) and "slackwater erase own" in text
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own_pipeline("plan", "own") == 0
    assert "refused" not in new_output()
    assert own_pipeline("run", "own", "--to", day(4)) == 0


@pytest.mark.slow
def test_verify_names_the_erasure_and_repeats_runs_that_it_did_not_touch(
    own_pipeline: OwnPipeline, new_output: Callable[[], str]
) -> None:
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own_pipeline("run", "own", "--to", day(4)) == own_pipeline("run", "own", "--to", day(5)) == 0
    new_output()
    assert own_pipeline("verify", "own", 2) == own_pipeline("verify", "own", 4) == 2
    assert (
        "rows of it, or of the state before it, were erased: row 3 (" in (text := new_output())
        and REASON in text
    )
    assert KEY not in text
    assert own_pipeline("verify", "own", 5) == 0
    assert own_pipeline("verify", "own", "--tables") == 0
    assert (
        f"erased: {REASON}) took rows out: 23 of corrections, 2 of late_events, 25 of panes" in new_output()
    )


@pytest.mark.slow
def test_an_erasure_can_be_tried_first_and_repeated(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_by_table = {
        row["table"]: row["rows"]
        for row in own_pipeline.json(capsys, "erase", "own", "--key", KEY, "--dry-run")
    }
    # Each day has 12 windows, of which one fires again; the last of the second day has not fired. One row a
    # day is too late, one has no time. What fires twice in one run is one correction. At the end of each day
    # two windows are parked, one with a timer for its cleanup, one with timers for its firing and its
    # cleanup.
    of_firings = {"panes": 25, "published": 23, "corrections": 23}
    assert rows_by_table == {**of_firings, "window_state": 4, "timers": 6, "late_events": 2, "quarantine": 2}
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    seq = head(own_pipeline)["seq"]
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert head(own_pipeline)["seq"] == seq


@pytest.mark.slow
def test_an_erasure_that_dies_after_its_commit_is_finished_by_the_next_command(
    own_pipeline: OwnPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_in_source(own_pipeline)

    finish = RollForward.finish

    def die_at_an_erasure(roll_forward: RollForward) -> list[LedgerRow]:
        if any(row.kind == "erase" for row in roll_forward.pending()):
            raise RuntimeError("killed")
        return finish(roll_forward)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        patch.setattr(RollForward, "finish", die_at_an_erasure)
        own_pipeline("erase", "own", "--key", KEY, "--reason", REASON)
    assert any(row["k"] == KEY for row in own_pipeline.rows("published"))
    assert own_pipeline("run", "own", "--to", day(4)) == own_pipeline("verify", "own", "--tables") == 0
    assert not any(
        row["k"] == KEY
        for table in ("published", "panes", "window_state", "timers")
        for row in own_pipeline.rows(table)
    )
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert files_that_name(own_pipeline) == []


@pytest.mark.slow
def test_a_run_that_was_staged_before_an_erasure_is_not_published_after_it(
    own_pipeline: OwnPipeline, new_output: Callable[[], str]
) -> None:
    assert own_pipeline("run", "own", "--to", day(4), "--no-publish") == 0
    [staged] = [
        row["run_id"]
        for row in own_pipeline.rows("attempts")
        if row["outcome"] == "staged" and row["slice_end"] == moment(72)
    ]
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own_pipeline("publish", "own", staged) == 5
    assert own_pipeline("run", "own", "--to", day(4)) == 0
    assert files_that_name(own_pipeline) == []
    assert own_pipeline("verify", "own", "--tables") == 0


def test_late_and_unusable_rows_of_a_person_who_is_no_key_are_erased(own_pipeline: OwnPipeline) -> None:
    DeltaTable(own_pipeline.source).delete("x = 2000 OR x = 3000")
    assert own_pipeline("erase", "own", "--column", "x=2000", "--column", "x=3000", "--reason", REASON) == 0
    assert own_pipeline.rows("late_events") == [] and own_pipeline.rows("quarantine") == []
    assert own_pipeline("verify", "own", "--tables") == own_pipeline("run", "own", "--to", day(4)) == 0
    assert own_pipeline("erase", "own", "--column", "y=1", "--dry-run") == 2


def test_other_changes_of_the_source_stay_refused(own_pipeline: OwnPipeline) -> None:
    DeltaTable(own_pipeline.source).update(updates={"x": "x + 1"}, predicate=f"k = '{OTHER}'")
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own_pipeline("run", "own", "--to", day(4)) == 2


@pytest.mark.slow
def test_after_the_erasure_of_the_only_key_the_next_key_begins_without_state(
    tmp_path: Path,
) -> None:
    own_pipeline = made(tmp_path / "own", "", KEY)
    assert own_pipeline("run", "own", "--to", day(3)) == 0
    own_pipeline.append(rows_of(OTHER)[2])
    delete_in_source(own_pipeline)
    assert (
        own_pipeline("erase", "own", "--key", KEY, "--reason", REASON)
        == own_pipeline("verify", "own", "--tables")
        == 0
    )
    assert (
        own_pipeline.rows("window_state")
        == own_pipeline.rows("timers")
        == own_pipeline.rows("panes")
        == own_pipeline.rows("published")
        == []
    )
    assert (
        own_pipeline("state", "restore", "own", 1)
        == own_pipeline("run", "own", "--to", day(4))
        == own_pipeline("verify", "own", "--tables")
        == 0
    )
    # Eleven windows of the last day fire, of which one was a late element's too; the twelfth is open.
    assert {row["k"] for row in own_pipeline.rows("published")} == {OTHER} and len(
        own_pipeline.rows("published")
    ) == 11


SUITE = {
    "name": "own",
    "expectations": [
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "k", "value_set": ["nobody"]}},
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["k", "kind"]}},
    ],
}


@pytest.mark.slow
def test_samples_and_results_of_a_suite_that_may_name_a_person_are_erased(
    great_expectations: None, tmp_path: Path
) -> None:
    suite = tmp_path / "suite.json"
    suite.write_text(json.dumps(SUITE))
    own_pipeline = made(tmp_path / "own", f"expect=[expect.suite('{suite}', severity='warn')]", KEY, OTHER)
    assert own_pipeline("run", "own", "--to", day(3)) == 0
    before = [row for row in own_pipeline.rows("validations") if row["result_json"]]
    assert {row["column_name"] for row in before} == {"k", None}
    assert all(f'"{KEY}"' in row["result_json"] and row["observed"] for row in before)
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    titles = {row["expectation"] for row in before}
    after = [row for row in own_pipeline.rows("validations") if row["expectation"] in titles]
    assert len(after) == len(before)
    assert {(row["observed"], row["sample_json"], row["result_json"]) for row in after} == {
        (None, None, None)
    }


def test_samples_and_errors_that_may_name_a_person_are_erased(tmp_path: Path) -> None:
    own_pipeline = made(
        tmp_path / "own", "expect=[expect.in_set('k', ['nobody'], severity='warn')]", KEY, OTHER
    )
    assert own_pipeline("run", "own", "--to", day(3)) == 0
    samples = [row["sample_json"] for row in own_pipeline.rows("validations") if row["sample_json"]]
    assert any(KEY in json.loads(sample) for sample in samples)
    delete_in_source(own_pipeline)
    assert own_pipeline("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert [row["sample_json"] for row in own_pipeline.rows("validations")] == [None] * len(
        own_pipeline.rows("validations")
    )
