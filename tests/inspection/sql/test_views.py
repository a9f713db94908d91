"""The views of a lineage: the rows that count, by the SQL of the guide and by Delta's own readers, in a
warehouse that an earlier format wrote, with a restatement, branches, a redrive and a staged run.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql import view_sources
from slackwater.inspection.sql.select_statements import NotAStatement
from slackwater.inspection.sql.view_sources import LIVE_VIEWS, SNAPSHOT_VIEWS, NotAView
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.delta.foreign_changes import TOKEN
from slackwater.tables.errors import DamagedFile, NoRuns
from tests.integration.stored import Row, StoredTables, plain
from tests.warehouses.earlier import unpacked

PIPELINES = ("readings", "peaks", "totals")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be written. The folder's name has characters that DuckDB takes for patterns."""
    return unpacked(tmp_path_factory.mktemp("it's [a] *"))


@pytest.fixture(scope="module", params=PIPELINES)
def views(request: pytest.FixtureRequest, warehouse: Path) -> Iterator[LineageViews]:
    with LineageViews.of(request.param, str(warehouse)) as views:
        yield views


@pytest.fixture(scope="module")
def readings(warehouse: Path) -> Iterator[LineageViews]:
    with LineageViews.of("readings", str(warehouse)) as views:
        yield views


@pytest.fixture(scope="module")
def stored(views: LineageViews, warehouse: Path) -> StoredTables:
    return StoredTables(warehouse, views.inspection.pipeline)


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def without_run_id(rows: list[Row]) -> list[Row]:
    return ordered([{name: value for name, value in row.items() if name != "run_id"} for row in rows])


@pytest.mark.first_fast
def test_every_table_stands_under_its_own_name(views: LineageViews, stored: StoredTables) -> None:
    for table in (*views.inspection.tables.folders, *(n for n in views.names if n.startswith("side_"))):
        if not table.endswith("_live"):
            assert ordered(plain(views.query(f"FROM {table}"))) == ordered(stored.rows(table)), table


@pytest.mark.first_fast
def test_live_views_have_the_rows_of_live_runs_with_their_seqs(
    views: LineageViews, stored: StoredTables
) -> None:
    seqs = {row["run_id"]: row["seq"] for row in stored.ledger()}
    for view, table in LIVE_VIEWS.items():
        wanted = [{"run_seq": seqs[row["run_id"]], **row} for row in stored.live(table)]
        assert ordered(plain(views.query(f"FROM {view}_live"))) == without_run_id(wanted), view
    assert len(stored.live("panes")) < len(stored.rows("panes"))


@pytest.mark.first_fast
def test_snapshot_views_have_what_is_parked_now(views: LineageViews, stored: StoredTables) -> None:
    for view, table in SNAPSHOT_VIEWS.items():
        assert ordered(plain(views.query(f"FROM {view}_now"))) == without_run_id(stored.parked(table)), view
    assert stored.parked("timers")


def test_schemas_are_those_of_the_rows(views: LineageViews) -> None:
    for view in views.names:
        assert views.query(f"FROM {view} LIMIT 1").schema.equals(views.schema(view)), view
    assert views.schema("late_at") == views.schema("late_live")
    assert views.schema("windows_at") == views.schema("windows_now")


def test_views_as_of_a_run_have_what_counted_after_it(readings: LineageViews, warehouse: Path) -> None:
    """Run 2 was restated later: by run 4 on a branch, which row 7 made live on main."""
    stored = StoredTables(warehouse, "readings")
    ledger = {row["seq"]: row for row in stored.ledger()}
    assert [span["first_seq"] for span in ledger[3]["live"]] == [1] and ledger[7]["live"] != ledger[3]["live"]
    for seq in (1, 2, 3):
        live = {ledger[before]["run_id"] for before in range(1, seq + 1)}
        for view, table in LIVE_VIEWS.items():
            wanted = without_run_id([row for row in stored.rows(table) if row["run_id"] in live])
            rows = plain(readings.query(f"SELECT * EXCLUDE run_seq FROM {view}_at({seq})"))
            assert ordered(rows) == wanted
        for view, table in SNAPSHOT_VIEWS.items():
            wanted = [row for row in stored.rows(table) if row["run_id"] == ledger[seq]["run_id"]]
            assert ordered(plain(readings.query(f"FROM {view}_at({seq})"))) == without_run_id(wanted)
    with LineageViews.of("readings", str(warehouse), at=3) as views_of_3:
        assert views_of_3.query("FROM windows_now") == readings.query("FROM windows_at(3)")
        assert views_of_3.query("SELECT count(*) FROM panes_live") == readings.query(
            "SELECT count(*) FROM panes_at(3)"
        )


def test_the_first_rows_of_one_partition_are_found(readings: LineageViews, warehouse: Path) -> None:
    rows = StoredTables(warehouse, "readings").rows("window_state")
    run_id = rows[0]["run_id"]
    sql = "SELECT window_start FROM window_state WHERE run_id = ? ORDER BY window_start LIMIT 2"
    wanted = sorted(row["window_start"] for row in rows if row["run_id"] == run_id)[:2]
    assert [row["window_start"] for row in plain(readings.query(sql, [run_id]))] == wanted
    day = readings.query("SELECT min(window_date) AS day FROM published").to_pylist()[0]["day"]
    sql = "SELECT * FROM published WHERE window_date = ? ORDER BY window_start LIMIT 3"
    assert {row["window_start"].date() for row in readings.query(sql, [day]).to_pylist()} == {day}


def test_one_statement_compares_two_runs(readings: LineageViews) -> None:
    counts = [
        readings.query(f"SELECT count(*) AS n FROM windows_at({seq})").column("n")[0].as_py()
        for seq in (1, 2)
    ]
    sql = "SELECT (SELECT count(*) FROM windows_at(1)) AS a, (SELECT count(*) FROM windows_at(2)) AS b"
    assert list(readings.query(sql).to_pylist()[0].values()) == counts


@pytest.mark.first_fast
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_published_at_a_seq_is_what_was_published_then(pipeline: str, warehouse: Path) -> None:
    """Delta keeps the versions of `published`, and each says up to which seq it was rolled forward."""
    uri = StoredTables(warehouse, pipeline).uri("published")
    tables = [DeltaTable(uri, version=version) for version in range(1, DeltaTable(uri).version() + 1)]
    assert len(tables) >= 3
    with LineageViews.of(pipeline, str(warehouse)) as views:
        for table in tables:
            seq = table.transaction_version("slackwater")
            wanted = plain(table.to_pyarrow_dataset().to_table())
            assert ordered(plain(views.query(f"FROM published_at({seq})"))) == ordered(wanted)


def test_the_elements_of_parked_windows_are_rows_by_the_sql_of_the_guide(warehouse: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/sql.md").read_text()
    sql = guide.split("## The elements of parked windows")[1].split("```sql\n")[1].split("```")[0]
    with LineageViews.of("peaks", str(warehouse)) as views:
        windows = plain(views.query("FROM windows_now"))
        rows = plain(views.query(sql))
    elements = [
        {
            "site": window["site"],
            "window_start": window["window_start"],
            **item["$timestamped"][0]["$record"][1],
        }
        for window in windows
        for item in json.loads(window["contents"] or "[]")
    ]
    assert len(elements) > 8 and ordered(rows) == ordered(elements)


def test_a_branch_has_views_and_publishes_nothing(readings: LineageViews, warehouse: Path) -> None:
    stored = StoredTables(warehouse, "readings")
    head = [row for row in stored.ledger() if row["branch"] == "trial"][-1]
    live = {seq for span in head["live"] for seq in range(span["first_seq"], span["last_seq"] + 1)}
    ids = {row["run_id"] for row in stored.ledger() if row["seq"] in live}
    wanted = sum(row["run_id"] in ids for row in stored.rows("panes"))
    with LineageViews.of("readings", str(warehouse), at="trial") as views:
        assert views.query("SELECT count(*) AS n FROM panes_live").to_pylist() == [{"n": wanted}]
        with pytest.raises(NotAView, match="only main publishes"):
            views.query("FROM published")
    assert readings.query("SELECT count(*) AS n FROM panes_at('trial')").to_pylist() == [{"n": wanted}]


def test_a_key_is_found_by_its_key_group(readings: LineageViews) -> None:
    condition, parameters = readings.condition_on_key("north")
    rows = readings.query(f"FROM panes_live WHERE {condition}", parameters)
    wanted = readings.query("FROM panes_live WHERE site = 'north'")
    assert rows.num_rows and ordered(rows.to_pylist()) == ordered(wanted.to_pylist())
    assert "key_group" in condition and len(parameters) == 2


def test_batches_come_one_after_another(readings: LineageViews) -> None:
    with readings.batches("FROM panes_live ORDER BY ALL") as stream:
        rows = pa.Table.from_batches(stream.batches, stream.schema)
    assert rows == readings.query("FROM panes_live ORDER BY ALL")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("selec 1", r"syntax error(?s:.*)\n  \^{5}"),
        ("", "one statement"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT nonsense FROM runs", "nonsense"),
        ("FROM windows_at((SELECT 1))", "as a constant"),
        ("FROM windows_at()", "as a constant"),
        ("COPY (SELECT 1) TO 'x'", "COPY is not possible"),
    ],
)
def test_what_is_no_statement_is_refused(readings: LineageViews, sql: str, words: str) -> None:
    with pytest.raises(NotAStatement, match=words):
        readings.query(sql)
    assert readings.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_rows_and_branches_that_are_not_there_are_refused(readings: LineageViews) -> None:
    with pytest.raises(NoRuns, match="no row 999"):
        readings.query("FROM windows_at(999)")
    with pytest.raises(UsageError, match="no branch nowhere"):
        readings.query("FROM windows_at('nowhere')")
    with pytest.raises(NotAView, match="windows_now"):
        readings.schema("windows_new")


def test_a_statement_that_needs_too_much_memory_is_stopped(readings: LineageViews) -> None:
    with pytest.raises(NotAStatement, match="more memory"):
        readings.query("SELECT list(range) FROM range(100000000)")


def test_files_of_object_stores_give_the_same_rows(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come as Arrow datasets; local files stand in for them."""
    inspection = Inspection.of("peaks", str(warehouse))
    with LineageViews.over(inspection, inspection.run(None)) as views:
        wanted = {name: ordered(plain(views.query(f"FROM {name}"))) for name in views.names}
    monkeypatch.setattr("slackwater.inspection.sql.views.is_local", lambda uri: False)
    with LineageViews.over(inspection, inspection.run(None)) as views:
        for name, rows in wanted.items():
            assert ordered(plain(views.query(f"FROM {name}"))) == rows, name


def test_only_files_of_the_runs_in_question_are_chosen(readings: LineageViews) -> None:
    sources = view_sources.ViewSources(readings.inspection)
    every, first = (sources.source("late_live", readings.inspection.at(at)) for at in ("main", "1"))
    stored_files = readings.inspection.tables["late_events"].files().actions.num_rows
    assert 0 < first.files.actions.num_rows < every.files.actions.num_rows < stored_files


@pytest.mark.parametrize("pipeline", ["readings", "totals"])
def test_of_a_file_that_runs_share_only_the_rows_of_live_runs_count(pipeline: str, tmp_path: Path) -> None:
    """Upkeep merges files. In such a file rows of runs that don't count stand among those of runs that do:
    that were restated, or only staged.
    """
    warehouse = unpacked(tmp_path)
    stored, folder = StoredTables(warehouse, pipeline), warehouse / pipeline / "panes"
    [first_run] = [row["run_id"] for row in stored.ledger() if row["seq"] == 1]
    of_first_run = [row for row in stored.rows("panes") if row["run_id"] == first_run]
    live_rows = stored.live("panes")
    assert len(of_first_run) < len(live_rows) < len(stored.rows("panes"))
    ours = CommitProperties(custom_metadata={TOKEN: "upkeep"})
    rows = DeltaTable(folder).to_pyarrow_table()
    write_deltalake(folder, rows, mode="overwrite", commit_properties=ours)
    assert len(DeltaTable(folder).file_uris()) == 1
    with LineageViews.of(pipeline, str(warehouse)) as views:
        for view, expected_rows in (("panes_live", live_rows), ("panes_at(1)", of_first_run)):
            rows_of_view = plain(views.query(f"SELECT * EXCLUDE run_seq FROM {view} WHERE ordinal = 0"))
            assert ordered(rows_of_view) == without_run_id(
                [row for row in expected_rows if row["ordinal"] == 0]
            )


def test_a_column_of_the_source_may_have_the_name_of_ours(readings: LineageViews) -> None:
    source = view_sources.ViewSource(
        readings.inspection.tables["late_events"].files(), pa.schema([("Run_Seq", pa.int64())]), {"run": 1}
    )
    assert source.schema.names == ["run_seq", "source_Run_Seq"]


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    warehouse = unpacked(tmp_path)
    [file, *_] = sorted((warehouse / "totals" / "panes").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-300] + bytes(300))
    with (
        LineageViews.of("totals", str(warehouse)) as views,
        pytest.raises(DamagedFile, match=file.name),
    ):
        views.query("FROM panes")
