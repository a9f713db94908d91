"""`slackwater run` replays a range, and refuses ranges, sources and warehouses that it can not use.

Refusals are command lines in this process, which end before any Spark; replays are drivers without Spark, in
processes of their own.
"""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from slackwater import args
from slackwater.tables.delta.foreign_changes import TOKEN
from tests.cli.conftest import REPLAYED_TO, Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model
from tests.integration.stored import StoredTables

TIME = pa.timestamp("us", tz="UTC")
SOURCE = """
from dataclasses import replace

from slackwater.examples.departures import departures

source = replace(departures.source, **{{{source}}})
mine = replace(departures, name="mine", expect=[], **{{{settings}}}, source=source)
"""


def declared(folder: Path, *, settings: str = "", source: str = "") -> Path:
    """A pipelines file with `departures` under the name `mine`, changed."""
    file = folder / "mine.py"
    file.write_text(SOURCE.format(settings=settings, source=source))
    return file


# --- ranges


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            ("--from", "2013-01-03", "--to", "2013-01-02"),
            ["--from 2013-01-03T00:00:00Z is not before --to 2013-01-02T00:00:00Z"],
        ),
        (("--from", "2013-01-03", "--to", "2013-01-03"), ["is not before"]),
        (
            ("--from", "2013-01-05", "--to", "2013-01-06"),
            ["would leave a gap", "slackwater run departures --to 2013-01-06T00:00:00Z"],
        ),
        (
            ("--from", "2013-01-03", "--to", "2013-01-05"),
            ["overlaps", "slackwater run departures --from 2013-01-04T00:00:00Z --to 2013-01-05T00:00:00Z"],
        ),
        (("--from", "2012-12-31", "--to", "2013-01-02"), ["the lineage begins at 2013-01-01T00:00:00Z"]),
        (
            ("--to", "2013-12-01"),
            ["331 slices", "max_catch_up = 40", "slackwater run departures --to 2013-12-01T00:00:00Z --all"],
        ),
        (("--to", "2013-01-05", "--start", "2013-01-01"), ["--start is for an empty lineage"]),
        (("--to", "yesterday"), ["'yesterday' is not an ISO 8601 date or time, e.g. 2013-01-02"]),
        (("--to", "2013-01-05T00:00:00.0005"), ["whole milliseconds"]),
        ((), ["Missing option '--to'"]),
        (("--to", "2013-01-05", "--partitions", "0"), ["0 is not in the range x>=1"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_range_that_cannot_be_run_is_refused_with_the_command_that_can(
    replayed: StoredTables, new_output: Callable[[], str], options: tuple[str, ...], wanted: list[str]
) -> None:
    before = len(replayed.rows("attempts"))
    assert here("run", "departures", *options, "--warehouse", replayed.warehouse) == 2
    text = new_output()
    assert [part for part in wanted if part not in text] == [], text
    assert len(replayed.rows("attempts")) == before and len(replayed.ledger()) == 3


@pytest.mark.parametrize(
    "options", [("--to", REPLAYED_TO), ("--to", "2013-01-02"), ("--from", "2013-01-01", "--to", "2013-01-03")]
)
def test_a_range_that_is_covered_is_a_no_op(
    replayed: StoredTables, new_output: Callable[[], str], options: tuple[str, ...]
) -> None:
    assert here("run", "departures", *options, "--warehouse", replayed.warehouse) == 0
    assert "nothing to do" in new_output()
    assert len(replayed.ledger()) == 3


def test_a_first_slice_that_begins_elsewhere_is_told_where_the_lineage_begins(
    warehouse: Path, new_output: Callable[[], str]
) -> None:
    assert (
        here("run", "departures", "--from", "2013-01-02", "--to", "2013-01-03", "--warehouse", warehouse) == 2
    )
    text = new_output()
    assert "its lineage begins at 2013-01-01T00:00:00Z" in text and "--start" in text


def test_a_slice_that_has_not_settled_is_to_be_tried_again(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    now = datetime.now(UTC)
    hourly.declare(settings=f"'start': {now.replace(minute=0, second=0, microsecond=0).isoformat()!r}")
    assert here("run", "hourly", "--to", now.isoformat(timespec="milliseconds"), *hourly.where) == 3
    text = new_output()
    assert "settles at" in text and "Try again" in text
    assert hourly.stored.rows("attempts") == []


@pytest.mark.slow
def test_a_lineage_may_start_elsewhere(hourly: Hourly) -> None:
    process = hourly.run("--start", "2013-01-02", "--to", "2013-01-04")
    assert process.returncode == 0, process.stderr
    assert_as_model(hourly.stored, "2013-01-04", start="2013-01-02")
    again = hourly.run("--from", "2013-01-01", "--to", "2013-01-03")
    assert again.returncode == 2 and "the lineage begins at 2013-01-02T00:00:00Z" in again.stderr


@pytest.mark.slow
def test_a_catch_up_is_cut_by_the_pipelines_slice_and_the_last_one_ends_where_asked(hourly: Hourly) -> None:
    hourly.declare(settings="'slice': __import__('datetime').timedelta(hours=16)")
    process = hourly.run("--to", "2013-01-02T20:00", "--partitions", "3", "--engine", "operator")
    assert process.returncode == 0, process.stderr
    assert [line.split("  ")[0] for line in process.stdout.splitlines()] == [
        "2013-01-01 00:00–16:00",
        "2013-01-01 16:00 + 16 hours",
        "2013-01-02 08:00–20:00",
    ]
    assert_as_model(hourly.stored, "2013-01-02T20:00")


def test_more_slices_than_allowed_run_when_all_are_asked_for(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.declare(settings="'max_catch_up': 1")
    assert here("run", "hourly", "--to", "2013-01-03", *hourly.where) == 2
    assert "2 slices, more than max_catch_up = 1" in new_output()
    assert hourly.run("--to", "2013-01-03", "--all").returncode == 0
    assert [row["seq"] for row in hourly.stored.ledger()] == [1, 2]


def test_steps_are_logged_one_line_each_as_text_or_json(hourly: Hourly) -> None:
    process = hourly.run("--to", "2013-01-02", "--log-format", "json")
    assert process.returncode == 0, process.stderr
    lines = [json.loads(line) for line in process.stderr.splitlines()]
    [row] = hourly.stored.ledger()
    steps = [line["step"] for line in lines]
    assert [
        step
        for step in ("claim", "pin", "timeline", "replay", "stage", "validate", "publish", "roll forward")
        if step not in steps
    ] == []
    assert {line["run_id"] for line in lines} == {row["run_id"]} and {line["pipeline"] for line in lines} == {
        "hourly"
    }
    text = hourly.run("--to", "2013-01-03").stderr
    assert f"publish pipeline=hourly seq=2 run_id={hourly.stored.ledger()[1]['run_id']}" in text


# --- sources


def test_an_unknown_pipeline_is_told_what_there_is(flights: Path, new_output: Callable[[], str]) -> None:
    assert here("run", "arrivals", "--to", "2013-01-02", "--warehouse", flights) == 2
    text = new_output()
    assert "no pipeline is called 'arrivals'" in text and "departures" in text and "--pipelines" in text


def test_a_missing_pipelines_file_is_told(
    flights: Path, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    missing = tmp_path / "nowhere.py"
    assert here("run", "mine", "--to", "2013-01-02", "--warehouse", flights, "--pipelines", missing) == 2
    assert f"{missing}: there is no such file" in new_output()


@pytest.mark.parametrize(
    ("settings", "source", "wanted"),
    [
        ("", "'order_by': 'position'", ["no column 'position'", "it has event_time, arrival_time, carrier"]),
        ("'key_by': 'airport'", "", ["no column 'airport'"]),
        (
            "'select': {'n': __import__('slackwater').agg.max('speed')}",
            "",
            ["no column 'speed'"],
        ),
        (
            "",
            "'event_time': 'dep_delay'",
            ["event_time is column 'dep_delay' of type int32; it must be a timestamp"],
        ),
        (
            "",
            "'arrival_time': 'arrival_date'",
            ["arrival_time is column 'arrival_date'", "must be a timestamp"],
        ),
        (
            "'select': {'n': __import__('slackwater').agg.mean('dest')}",
            "",
            ["'dest'", "string"],
        ),
        (
            "",
            "'table': 'sources/arrivals'",
            ["sources/arrivals", "no Delta table", "slackwater examples load"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_source_that_does_not_suit_is_refused_with_the_column(
    flights: Path,
    tmp_path: Path,
    new_output: Callable[[], str],
    settings: str,
    source: str,
    wanted: list[str],
) -> None:
    file = declared(tmp_path, settings=settings, source=source)
    assert here("run", "mine", "--to", "2013-01-02", "--warehouse", flights, "--pipelines", file) == 2
    text = new_output()
    assert [part for part in wanted if part not in text] == [], text
    assert not (flights / "mine").exists(), "nothing was made"


def test_a_key_that_cannot_be_hashed_alike_everywhere_is_refused(
    flights: Path, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    row = DeltaTable(str(flights / "sources" / "departures")).to_pyarrow_dataset().head(1)
    write_deltalake(str(tmp_path / "sources" / "departures"), row.append_column("weight", pa.array([1.5])))
    file = declared(tmp_path, settings="'key_by': 'weight'")
    assert here("run", "mine", "--to", "2013-01-02", "--warehouse", tmp_path, "--pipelines", file) == 2
    assert "key column 'weight' is double; keys are integers, strings, booleans and dates" in new_output()


def test_a_path_that_holds_no_delta_table_is_told(tmp_path: Path, new_output: Callable[[], str]) -> None:
    (tmp_path / "sources" / "departures").mkdir(parents=True)
    (tmp_path / "sources" / "departures" / "flights.csv").write_text("a,b\n1,2\n")
    assert here("run", "departures", "--to", "2013-01-02", "--warehouse", tmp_path) == 2
    assert f"no Delta table at {tmp_path}/sources/departures" in new_output()


def test_an_empty_source_is_run_and_leaves_nothing(
    flights: Path, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    schema = pa.schema(DeltaTable(str(flights / "sources" / "departures")).schema())
    write_deltalake(str(tmp_path / "sources" / "departures"), schema.empty_table())
    assert here("plan", "departures", "--to", "2013-01-02", "--warehouse", tmp_path) == 0
    assert here("run", "departures", "--to", "2013-01-02", "--warehouse", tmp_path) == 0
    for table in ("published", "window_state", "quarantine", "late_events"):
        assert DeltaTable(str(tmp_path / "departures" / table)).to_pyarrow_table().num_rows == 0
    new_output()
    assert here("runs", "departures", "--warehouse", tmp_path, "--output", "json") == 0
    [run] = json.loads(new_output())
    assert (run["kind"], run["rows_read"], run["windows_open"]) == ("run", 0, 0)


# --- the warehouse


def test_a_warehouse_that_cannot_be_written_is_told(
    flights: Path, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    (tmp_path / "file").write_text("")
    source = declared(tmp_path, source=f"'table': {str(flights / 'sources' / 'departures')!r}")
    where = tmp_path / "file" / "warehouse"
    assert here("run", "mine", "--to", "2013-01-02", "--warehouse", where, "--pipelines", source) == 2
    text = new_output()
    assert (
        str(where) in text
        and "can't be written" in text
        and "Check the warehouse's path and permissions" in text
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_warehouse_without_permission_is_told(
    flights: Path, tmp_path: Path, new_output: Callable[[], str]
) -> None:
    source = declared(tmp_path, source=f"'table': {str(flights / 'sources' / 'departures')!r}")
    where = tmp_path / "warehouse"
    where.mkdir(mode=0o500)
    assert here("run", "mine", "--to", "2013-01-02", "--warehouse", where, "--pipelines", source) == 2
    assert "can't be written" in new_output()


@pytest.mark.parametrize(
    "command",
    [
        ("run", "departures", "--to", "2013-01-05"),
        ("publish", "departures"),
        ("runs", "departures"),
        ("state", "windows", "departures"),
        ("late", "list", "departures"),
    ],
    ids=lambda command: command[0],
)
def test_a_ledger_of_a_newer_format_is_refused(
    replayed: StoredTables, tmp_path: Path, new_output: Callable[[], str], command: tuple[str, ...]
) -> None:
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    uri = str(warehouse / "departures" / "runs")
    rows = DeltaTable(uri).to_pyarrow_dataset().to_table().sort_by("seq")
    newest = rows.slice(rows.num_rows - 1)
    for name, value in {
        "seq": rows.num_rows + 1,
        "run_id": "later",
        "format_version": 99,
        "version": "9.9",
    }.items():
        position = newest.schema.get_field_index(name)
        newest = newest.set_column(
            position, newest.schema.field(name), pa.array([value], newest.schema.field(name).type)
        )
    ours = CommitProperties(custom_metadata={TOKEN: "a later release"})
    write_deltalake(uri, newest, mode="append", commit_properties=ours)
    assert here(*command, "--warehouse", warehouse) == 2
    text = new_output()
    assert "format 99 by slackwater 9.9" in text and "Install that version or a newer one" in text


# --- validation


@pytest.mark.usefixtures("without_spark")
def test_a_failing_expectation_moves_nothing_and_shows_the_values(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-02")
    hourly.declare('expect.between("flights", max=20), expect.in_set("origin", ["JFK", "LGA"])')
    new_output()
    assert hourly.run_here("--to", "2013-01-04") == 4
    text = new_output()
    [rejected] = [row for row in hourly.attempts().values() if row["outcome"] == "rejected"]
    assert "the slice of 2013-01-02 was rejected by validation; nothing was moved" in text
    assert (
        "flights <= 20: " in text
        and "origin in ['JFK', 'LGA']: " in text
        and "e.g. origin EWR, 2013-01-0" in text
    )
    assert f"slackwater publish hourly {rejected['run_id']} --accept REASON" in text
    assert (rejected["exit_code"], rejected["verdict"]) == (4, "failed")
    assert_as_model(hourly.stored, "2013-01-02")
    assert [row["outcome"] for row in hourly.attempts().values()] == ["committed", "rejected"], (
        "the slice after it was not tried"
    )
    broken = [
        row
        for row in hourly.stored.rows("validations")
        if row["run_id"] == rejected["run_id"] and not row["passed"]
    ]
    panes = [row for row in hourly.stored.rows("panes") if row["run_id"] == rejected["run_id"]]
    assert {row["expectation"]: (row["unexpected"], row["checked"]) for row in broken} == {
        "flights <= 20": (sum(row["flights"] > 20 for row in panes), len(panes)),
        "origin in ['JFK', 'LGA']": (sum(row["origin"] == "EWR" for row in panes), len(panes)),
    }


@pytest.mark.usefixtures("without_spark")
def test_a_rejected_run_that_is_accepted_is_published_and_says_why(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.declare('expect.between("flights", max=3)')
    assert hourly.run_here("--to", "2013-01-02") == 4
    [run_id] = hourly.attempts()
    assert hourly.publish() == 0 and "nothing to publish" in new_output()
    assert hourly.publish(run_id) == 4 and "was rejected by validation" in new_output()
    assert hourly.stored.ledger() == [] and hourly.stored.rows("published") == []
    assert hourly.publish(run_id, "--accept", "a holiday: fewer flights are right") == 0
    [row] = hourly.stored.ledger()
    assert row["verdict"] == "accepted: a holiday: fewer flights are right"
    assert hourly.attempts()[run_id]["outcome"] == "committed"
    assert_as_model(hourly.stored, "2013-01-02")


@pytest.mark.usefixtures("without_spark")
def test_a_warning_is_published_with_its_verdict(hourly: Hourly) -> None:
    hourly.declare('expect.between("flights", max=3, severity="warn")')
    assert hourly.run_here("--to", "2013-01-02") == 0
    [row] = hourly.stored.ledger()
    assert row["verdict"] == "warned"
    broken = [
        (check["expectation"], check["severity"])
        for check in hourly.stored.rows("validations")
        if not check["passed"]
    ]
    assert broken == [("flights <= 3", "warn")]
    assert_as_model(hourly.stored, "2013-01-02")


@pytest.mark.usefixtures("without_spark")
def test_expectations_of_the_input_reject_warn_and_are_listed(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.declare(
        "expect.rows(min=10_000), expect.quarantine_share(0, severity='warn'), "
        "expect.freshness(timedelta(minutes=1), severity='warn')"
    )
    assert hourly.run_here("--to", "2013-01-02") == 4
    text, run_id = new_output(), next(iter(hourly.attempts()))
    [read] = [
        row["observed"] for row in hourly.stored.rows("validations") if row["expectation"] == "10000 <= rows"
    ]
    assert f"nothing was moved.\n  10000 <= rows: {read}\n" in text
    assert "warning: newest event at most 0:01:00 before the slice's end: the newest event is of 2013" in text
    assert hourly.publish(run_id, "--accept", "a holiday") == 0
    new_output()
    assert here("runs", "hourly", "1", *hourly.where) == 0
    assert "10000 <= rows" in (text := new_output()) and read in text and "quarantine share <= 0" in text


# --- staged only


def test_no_publish_stages_slice_on_slice_and_moves_nothing(hourly: Hourly) -> None:
    for _ in range(2):
        process = hourly.run("--to", "2013-01-03", "--no-publish")
        assert process.returncode == 0, process.stderr
    assert hourly.stored.ledger() == [] and hourly.stored.rows("published") == []
    found = [(row["slice_start"], row["outcome"], row["attempt"]) for row in hourly.attempts().values()]
    first, second = found[0][0], found[1][0]
    assert found == [(first, "staged", 1), (second, "staged", 1), (first, "staged", 2), (second, "staged", 2)]


@pytest.mark.usefixtures("without_spark")
def test_a_manifest_tells_how_it_ended_and_the_process_exits_0(hourly: Hourly, tmp_path: Path) -> None:
    manifest = tmp_path / "outcome" / "manifest.json"
    hourly.declare('expect.between("flights", max=24)')
    assert hourly.run_here("--to", "2013-01-03", "--no-publish", "--manifest", str(manifest)) == 0
    found = args.read_manifest(manifest)
    tried = list(hourly.attempts())
    assert (found.outcome, found.exit_code, found.verdict, list(found.run_ids)) == (
        "rejected",
        4,
        "failed",
        tried,
    )
    assert [(failure.expectation, failure.run_id) for failure in found.failures] == [
        ("flights <= 24", tried[-1])
    ]
    hourly.declare()
    assert hourly.run_here("--to", "2013-01-02", "--no-publish", "--manifest", str(manifest)) == 0
    found = args.read_manifest(manifest)
    assert (found.outcome, found.exit_code, found.run_id) == ("staged", 0, list(hourly.attempts())[-1])


def test_a_driver_that_meets_a_fault_of_ours_exits_1_and_shows_it(hourly: Hourly) -> None:
    hourly.file.write_text(
        hourly.file.read_text() + "\nimport slackwater.engine.columnar as c\nc.ColumnarEngine.replay = None\n"
    )
    process = hourly.run("--to", "2013-01-02")
    assert process.returncode == 1
    assert "TypeError" in process.stderr and "Traceback" in process.stderr
    [attempt] = hourly.attempts().values()
    assert (attempt["outcome"], attempt["exit_code"], attempt["step"]) == ("failed", 1, "replay")
    assert "TypeError" in attempt["error"]
