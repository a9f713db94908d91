"""The events of real verbs, through the client's own transport into a file; and that nothing which becomes of
them changes what a verb does.

Versions and columns are compared with what delta-rs reads from the tables, column lineage with lists that are
written by hand.
"""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.args import read_manifest
from slackwater.engine.transport.in_process import InProcess
from slackwater.openlineage import reported_run
from slackwater.runs import opened_pipeline
from slackwater.runs.lineage.catch_up import CatchUp
from tests.cli.own_source import TIME, OwnPipeline, every_hour, moment

Event = dict[str, Any]
NewEvents = Callable[[], list[Event]]
TASK = "airflow-prod/orders.replay/01890a5d-ac96-774b-bcce-b302099a8057"
DAG = "airflow-prod/orders/01890a5d-ac96-7000-bcce-b302099a8057"
SETTINGS = """
    derive={"half": "x / 2"}, where="x >= 0",
    select={"n": agg.count(), "total": agg.sum("half"), "evening": agg.count("k", where="x > 17"),
            "newest": agg.last("x", by="arrival")},
"""
# Column of `published` → its dependencies: column of the source, type, subtype, masking.
FIELDS = {
    "k": [("k", "DIRECT", "IDENTITY", False)],
    "window_start": [("e", "DIRECT", "TRANSFORMATION", False)],
    "window_end": [("e", "DIRECT", "TRANSFORMATION", False)],
    "window_date": [("e", "DIRECT", "TRANSFORMATION", False)],
    "n": [],
    "total": [("x", "DIRECT", "AGGREGATION", False)],
    "evening": [("k", "DIRECT", "AGGREGATION", True), ("x", "INDIRECT", "CONDITIONAL", False)],
    "newest": [("x", "DIRECT", "AGGREGATION", False), ("a", "INDIRECT", "SORT", False)],
}
OF_ALL_ROWS = [
    ("k", "INDIRECT", "GROUP_BY", False),
    ("x", "INDIRECT", "FILTER", False),
    ("e", "INDIRECT", "WINDOW", False),
    ("a", "INDIRECT", "WINDOW", False),
]


@pytest.fixture
def own(tmp_path: Path) -> OwnPipeline:
    pipeline = OwnPipeline(tmp_path)
    pipeline.append(every_hour(0, 24))
    return pipeline


@pytest.fixture
def new_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewEvents:
    """Has events written to a file; gives those that have come since the last call."""
    file = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    lines: list[str] = []

    def read() -> list[Event]:
        before = len(lines)
        lines[:] = file.read_text().splitlines()
        return [json.loads(line) for line in lines[before:]]

    return read


def version_of(place: str) -> str:
    return str(DeltaTable(place).version())


def columns_of(place: str) -> list[tuple[str, str]]:
    schema = json.loads(DeltaTable(place).schema().to_json())
    return [(field["name"], field["type"]) for field in schema["fields"]]


def columns_in(dataset: Event) -> list[tuple[str, str]]:
    return [(field["name"], field["type"]) for field in dataset["facets"]["schema"]["fields"]]


def dependencies_in(input_fields: list[Event]) -> list[tuple[str, str, str, bool]]:
    return [
        (field["field"], way["type"], way["subtype"], way["masking"])
        for field in input_fields
        for way in field["transformations"]
    ]


def names_in(datasets: list[Event]) -> list[tuple[str, str]]:
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


def version_in(dataset: Event) -> str:
    return dataset["facets"]["version"]["datasetVersion"]


def test_a_run_tells_what_it_has_read_and_published(own: OwnPipeline, new_events: NewEvents) -> None:
    own.append(every_hour(24, 48))
    own.declare(SETTINGS)
    assert own("run", "own", "--to", "2013-01-03") == 0
    start, end = new_events()
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    place = str(own.warehouse / "own" / "published")
    for event in (start, end):
        assert (event["job"]["namespace"], event["job"]["name"]) == ("default", "slackwater.own.run")
        assert names_in(event["inputs"]) == [("file", own.source)]
        assert names_in(event["outputs"]) == [("file", place)]
    assert end["job"]["facets"]["jobType"]["jobType"] == "RUN"
    assert "parent" not in end["run"]["facets"]
    nominal_time = end["run"]["facets"]["nominalTime"]
    assert nominal_time["nominalStartTime"] == "2013-01-01T00:00:00+00:00"
    assert nominal_time["nominalEndTime"] == "2013-01-03T00:00:00+00:00"

    [source], [published] = end["inputs"], end["outputs"]
    assert version_in(source) == version_of(own.source) == "1"
    assert columns_in(source) == columns_of(own.source)
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 48
    assert version_in(published) == version_of(place)
    assert columns_in(published) == columns_of(place)
    assert published["outputFacets"]["outputStatistics"]["rowCount"] == len(own.rows("corrections")) == 23
    lineage = published["facets"]["columnLineage"]
    assert {
        name: dependencies_in(field["inputFields"]) for name, field in lineage["fields"].items()
    } == FIELDS
    assert dependencies_in(lineage["dataset"]) == OF_ALL_ROWS
    assert {*names_in(lineage["dataset"]), *names_in(lineage["fields"]["total"]["inputFields"])} == {
        ("file", own.source)
    }


def test_staged_runs_publish_nothing_and_their_publication_says_what_they_have_read(
    own: OwnPipeline, new_events: NewEvents
) -> None:
    assert own("run", "own", "--to", "2013-01-02", "--no-publish") == 0
    _, end = new_events()
    assert (end["job"]["name"], end["outputs"]) == ("slackwater.own.run", [])
    assert version_in(end["inputs"][0]) == "0"
    own.append(every_hour(24, 48))
    assert own("publish", "own") == 0
    _, end = new_events()
    assert (end["eventType"], end["job"]["name"]) == ("COMPLETE", "slackwater.own.publish")
    [source], [published] = end["inputs"], end["outputs"]
    assert (version_in(source), source["inputFacets"]["inputStatistics"]["rowCount"]) == ("0", 24)
    assert version_in(published) == version_of(published["name"])
    assert own("publish", "own") == 0
    _, end = new_events()
    assert "version" not in end["outputs"][0]["facets"], "there was nothing to publish"


def test_a_restatement_tells_the_version_that_it_has_read_again(
    own: OwnPipeline, new_events: NewEvents
) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 0
    own.append([{"e": moment(3), "a": moment(3), "k": "b", "x": 5}])
    new_events()
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    _, end = new_events()
    assert (end["eventType"], end["job"]["name"]) == ("COMPLETE", "slackwater.own.backfill")
    assert version_in(end["inputs"][0]) == version_of(own.source) == "1"
    assert version_in(end["outputs"][0]) == version_of(end["outputs"][0]["name"])
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1


def test_what_runs_on_a_branch_is_published_with_the_branch(own: OwnPipeline, new_events: NewEvents) -> None:
    assert own("run", "own", "--to", "2013-01-02") == 0
    own.append(every_hour(24, 48))
    assert own("state", "fork", "own", "trial") == 0
    new_events()
    assert own("run", "own", "--to", "2013-01-03", "--branch", "trial") == 0
    _, end = new_events()
    assert end["outputs"] == []
    assert own("publish", "own", "trial") == 0
    _, end = new_events()
    [source], [published] = end["inputs"], end["outputs"]
    assert (version_in(source), source["inputFacets"]["inputStatistics"]["rowCount"]) == ("1", 24)
    assert version_in(published) == version_of(published["name"])


def test_a_close_publishes_too(
    own: OwnPipeline, new_events: NewEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
    assert own("run", "own", "--to", "2013-01-02") == 0
    new_events()
    assert own("state", "close", "own") == 0
    _, end = new_events()
    assert (end["eventType"], end["job"]["name"]) == ("COMPLETE", "slackwater.own.close")
    [source], [published] = end["inputs"], end["outputs"]
    assert (version_in(source), source["inputFacets"]["inputStatistics"]["rowCount"]) == ("0", 0)
    assert version_in(published) == version_of(published["name"])


def test_columns_of_two_sources_are_told_under_their_own_names(
    own: OwnPipeline, new_events: NewEvents
) -> None:
    place = str(own.warehouse / "sources" / "shop")
    schema = pa.schema(
        [("sold", TIME), ("seen", TIME), ("till", pa.int64()), ("who", pa.string()), ("price", pa.int32())]
    )
    rows = [{"sold": moment(3), "seen": moment(4), "till": 1, "who": "a", "price": 9}]
    write_deltalake(place, pa.Table.from_pylist(rows, schema=schema))
    own.declare(
        """source=[
            DeltaSource("sources/own", event_time="e", arrival_time="a"),
            DeltaSource("sources/shop", event_time="sold", arrival_time="seen", source_partition="till",
                        rename={"who": "k", "price": "x"}),
        ]"""
    )
    assert own("run", "own", "--to", "2013-01-02") == 0
    _, end = new_events()
    assert names_in(end["inputs"]) == [("file", own.source), ("file", place)]
    assert [dataset["inputFacets"]["inputStatistics"]["rowCount"] for dataset in end["inputs"]] == [24, 1]
    assert columns_in(end["inputs"][1]) == columns_of(place)
    lineage = end["outputs"][0]["facets"]["columnLineage"]
    input_fields = {
        column: [(item["name"], item["field"]) for item in field["inputFields"]]
        for column, field in lineage["fields"].items()
    }
    assert input_fields["total"] == [(own.source, "x"), (place, "price")]
    assert input_fields["k"] == [(own.source, "k"), (place, "who")]
    assert input_fields["window_start"] == [(own.source, "e"), (place, "sold")]
    windows = [
        (item["name"], item["field"])
        for item in lineage["dataset"]
        if item["transformations"][0]["subtype"] == "WINDOW"
    ]
    assert sorted(windows) == [
        (own.source, "a"),
        (own.source, "e"),
        (place, "seen"),
        (place, "sold"),
        (place, "till"),
    ]


def test_a_folder_of_files_has_columns_and_no_version(own: OwnPipeline, new_events: NewEvents) -> None:
    folder = own.warehouse / "landing"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(every_hour(0, 24), schema=own.schema), folder / "first.parquet")
    own.declare('source=ParquetSource("landing", event_time="e", arrival_time="a")')
    own.file.write_text(f"from slackwater import ParquetSource\n{own.file.read_text()}")
    assert own("run", "own", "--to", "2013-01-02") == 0
    _, end = new_events()
    [source] = end["inputs"]
    assert names_in([source]) == [("file", str(folder))]
    assert [name for name, _ in columns_in(source)] == ["e", "a", "k", "x"]
    assert "version" not in source["facets"]


# --- what goes wrong


def test_a_run_that_is_refused_fails_with_its_message(
    own: OwnPipeline, new_events: NewEvents, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own("run", "own", "--to", "2013-06-01") == 2
    start, end = new_events()
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    message = end["run"]["facets"]["errorMessage"]["message"]
    assert "more than max_catch_up = 40" in message
    assert f"slackwater: {message}\n" in capsys.readouterr().err


def test_a_rejected_slice_fails_the_run_though_the_command_leaves_a_manifest(
    own: OwnPipeline, new_events: NewEvents
) -> None:
    own.declare("expect=[expect.rows(max=9), expect.late_share(0.5)]")
    manifest = own.root / "manifest.json"
    assert own("run", "own", "--to", "2013-01-02", "--no-publish", "--manifest", manifest) == 0
    _, end = new_events()
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"] == read_manifest(manifest).message
    assert "was rejected by validation" in read_manifest(manifest).message
    checks = {
        check["name"]: (check["status"], check["severity"]) for check in end["run"]["facets"]["test"]["tests"]
    }
    assert checks["rows <= 9"] == ("fail", "error")
    assert checks["late share <= 0.5"] == ("pass", "error")
    assert version_in(end["inputs"][0]) == "0"


def test_slices_before_the_one_that_fails_are_told(own: OwnPipeline, new_events: NewEvents) -> None:
    huge = {"e": moment(26), "a": moment(26), "k": "a", "x": 2**62}  # two of them overflow their sum
    own.append([*every_hour(24, 48), huge, {**huge, "e": moment(26.5), "a": moment(26.5)}])
    assert own("run", "own", "--to", "2013-01-03") == 1
    _, end = new_events()
    assert end["eventType"] == "FAIL"
    [published] = end["outputs"]
    assert version_in(published) == version_of(published["name"])
    assert "does not fit bigint" in end["run"]["facets"]["errorMessage"]["message"]
    assert end["run"]["facets"]["nominalTime"]["nominalEndTime"] == "2013-01-02T00:00:00+00:00"


def test_a_run_that_is_interrupted_is_aborted(
    own: OwnPipeline, new_events: NewEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(work: CatchUp) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CatchUp, "run", interrupt)
    assert own("run", "own", "--to", "2013-01-02") == 1
    assert [event["eventType"] for event in new_events()] == ["START", "ABORT"]


# --- the run that has started this one


def test_the_task_that_starts_a_run_is_its_parent(
    own: OwnPipeline, new_events: NewEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", TASK)
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", DAG)
    assert own("run", "own", "--to", "2013-01-02") == 0
    for event in new_events():
        parent = event["run"]["facets"]["parent"]
        for run, text in ((parent, TASK), (parent["root"], DAG)):
            assert "/".join([run["job"]["namespace"], run["job"]["name"], run["run"]["runId"]]) == text
        assert event["job"]["namespace"] == "airflow-prod"


def test_a_parent_that_cannot_be_read_is_left_out(
    own: OwnPipeline,
    new_events: NewEvents,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "orders.replay")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "team-a")
    assert own("run", "own", "--to", "2013-01-02") == 0
    _, end = new_events()
    assert "parent" not in end["run"]["facets"]
    assert end["job"]["namespace"] == "team-a"
    [line] = warnings_in(capsys)
    assert "OPENLINEAGE_PARENT_ID is 'orders.replay'" in line


# --- events that can't be sent


def warnings_in(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The URL of a server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def undisturbed_rows(tmp_path: Path) -> list[dict[str, Any]]:
    """What a run without events publishes."""
    (tmp_path / "undisturbed").mkdir()
    pipeline = OwnPipeline(tmp_path / "undisturbed")
    pipeline.append(every_hour(0, 24))
    assert pipeline("run", "own", "--to", "2013-01-02") == 0
    return pipeline.rows("published")


@pytest.mark.first_fast
@pytest.mark.parametrize(
    ("transport", "reason"),
    [
        ({"type": "http", "url": "http://127.0.0.1:9", "retry": {"total": 0}}, "Connection refused"),
        ({"type": "file", "log_file_path": "/no/such/folder/events", "append": True}, "No such file"),
        ({"type": "pigeon"}, "pigeon"),
        ({"type": "http"}, "url"),
    ],
    ids=["refused", "no folder", "no such transport", "no url"],
)
def test_a_transport_that_is_broken_is_a_warning_and_changes_nothing(
    own: OwnPipeline,
    undisturbed_rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    transport: dict[str, Any],
    reason: str,
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert own.rows("published") == undisturbed_rows
    [line] = warnings_in(capsys)
    assert line.startswith("warning: OpenLineage: ") and reason in line
    assert own("run", "own", "--to", "2013-06-01") == 2


def test_a_server_that_never_answers_is_not_waited_for(
    own: OwnPipeline,
    undisturbed_rows: list[dict[str, Any]],
    silent_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reported_run, "PATIENCE_S", 0.1)
    transport = {"type": "http", "url": silent_server, "timeout": 600, "retry": {"total": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert own.rows("published") == undisturbed_rows
    [line] = warnings_in(capsys)
    assert line == "warning: OpenLineage: not every event of this run was sent: no answer within 0.1 s"


def test_tables_that_cannot_be_read_again_leave_names_alone(
    own: OwnPipeline,
    new_events: NewEvents,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def unreachable(*arguments: object, **options: object) -> None:
        raise OSError("the storage is gone")

    monkeypatch.setattr("slackwater.openlineage.datasets.pin", unreachable)
    assert own("run", "own", "--to", "2013-01-02") == 0
    _, end = new_events()
    assert (end["eventType"], names_in(end["inputs"])) == ("COMPLETE", [("file", own.source)])
    [line] = warnings_in(capsys)
    assert line == "warning: OpenLineage: versions and columns are not reported: the storage is gone"


def test_a_client_that_is_not_installed_is_named_with_its_extra(
    own: OwnPipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.delitem(sys.modules, "slackwater.openlineage.reported_run", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client.event_v2", None)  # as if it could not be imported
    assert own("run", "own", "--to", "2013-01-02") == 0
    [line] = warnings_in(capsys)
    assert 'pip install "slackwater[openlineage]"' in line


def test_no_such_pipeline_is_what_the_verb_says_it_is(
    own: OwnPipeline, new_events: NewEvents, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own("run", "other", "--to", "2013-01-02") == 2
    assert not (own.root / "events.jsonl").exists()
    assert warnings_in(capsys) == []
