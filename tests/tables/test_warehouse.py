"""A warehouse finds a pipeline's tables, makes what is missing, and refuses what is not as declared."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Transaction

from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import (
    CredentialsInUri,
    LogDamaged,
    NewerFormat,
    NoRuns,
    PercentInPath,
    ShapeChanged,
    UnknownStore,
    WarehouseNotWritable,
)
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.staging import read_staged, write_staged
from slackwater.tables.schemas import Shape, table_columns
from slackwater.tables.stores import filesystem, refuse_unknown_store
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse
from tests.tables.ledger.ledger_rows import clock, run_row

SHAPE = Shape(
    keys=(("origin", pa.string()),),
    results=(("n", pa.int64()),),
    parts=(("n__count", pa.int64()),),
    source=(("origin", pa.string()),),
)


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("/data/w/", "/data/w"),
        ("s3://bucket/w/", "s3://bucket/w"),
        ("relative/w", "{here}/relative/w"),
        ("~/w", "{home}/w"),
        (None, "{here}/warehouse"),
    ],
)
def test_a_location_becomes_an_absolute_path_or_stays_a_uri(location: str | None, root: str) -> None:
    assert Warehouse.at(location).root == root.format(here=os.getcwd(), home=Path.home())


def test_the_variable_stands_in_for_a_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_WAREHOUSE", "/from/variable")
    assert Warehouse.at(None).root == "/from/variable"
    assert Warehouse.at("/asked").root == "/asked"


@pytest.mark.parametrize(
    ("table", "expected_location"),
    [
        ("sources/departures", "/w/sources/departures"),
        ("/other/t", "/other/t"),
        ("s3://b/t", "s3://b/t"),
        ("file:///x/t", "file:///x/t"),
    ],
)
def test_a_source_is_relative_to_the_warehouse_unless_it_is_absolute(
    table: str, expected_location: str
) -> None:
    assert Warehouse("/w").source(table) == expected_location


def test_tables_stand_below_the_pipelines_name(tmp_path: Path) -> None:
    tables = Warehouse(str(tmp_path)).tables("departures", SHAPE)
    tables.ensure()
    assert {path.name for path in (tmp_path / "departures").iterdir()} == set(table_columns(SHAPE))
    assert tables["panes"].uri == f"{tmp_path}/departures/panes"
    assert tables["timers"].open().partition_columns == ("run_id",)
    assert tables["panes"].open().partition_columns == ()
    assert tables["published"].open().partition_columns == ("window_date",)


def test_stored_tables_are_found_without_the_declaration(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    declared_tables = warehouse.tables("p", SHAPE)
    declared_tables.ensure()
    stored_tables = warehouse.stored_tables("p")
    assert stored_tables.folders == declared_tables.folders
    assert stored_tables.ledger.head() is None and stored_tables.attempts.newest_rows() == []


def test_a_pipeline_without_tables_has_never_run(tmp_path: Path) -> None:
    with pytest.raises(
        NoRuns,
        match=r"p has never run in the warehouse .*`slackwater run p --to TIME`, or name another warehouse "
        r"with --warehouse",
    ):
        Warehouse(str(tmp_path)).stored_tables("p")


@pytest.mark.parametrize(
    ("changed_shape", "table", "differing", "message", "way_back"),
    [
        (
            replace(SHAPE, keys=(("dest", pa.string()),)),
            "window_state",
            ["dest", "origin"],
            r"dest \(stored not, declared string\)",
            "Undo the change",
        ),
        (
            replace(SHAPE, keys=(("origin", pa.int32()),)),
            "window_state",
            ["origin"],
            r"origin \(stored string, declared int32\)",
            "A key keeps its type: write origin into the source as it was",
        ),
        (
            replace(SHAPE, results=(("n", pa.float64()),)),
            "panes",
            ["n"],
            r"n \(stored int64, declared double\)",
            "A result keeps its type: undo the change, or give the result another name",
        ),
    ],
)
def test_other_columns_than_the_stored_ones_are_refused(
    tmp_path: Path, changed_shape: Shape, table: str, differing: list[str], message: str, way_back: str
) -> None:
    warehouse = Warehouse(str(tmp_path))
    warehouse.tables("p", SHAPE).ensure()
    ways_on = f"{way_back}, or begin a new lineage: move the folder p out of"
    with pytest.raises(ShapeChanged, match=rf"/p/{table}: .*{message}.*{ways_on}") as raised_error:
        warehouse.tables("p", changed_shape).ensure()
    assert (raised_error.value.table, raised_error.value.differing) == (table, differing)  # type: ignore[attr-defined]


def test_a_column_that_the_source_gains_or_loses_stops_no_pipeline(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    origin, gate, delay = ("origin", pa.string()), ("gate", pa.string()), ("delay", pa.int64())

    def late_events(*source: tuple[str, pa.DataType]) -> list[str]:
        tables = warehouse.tables("p", replace(SHAPE, source=source))
        tables.ensure()
        names = [name for name, _ in source if name != "origin"]
        files = stage_late_event(tables, {name: 1 if name == "delay" else "x" for name in names})
        assert read_staged(tables, "late_events", files).select(names).num_rows == 1
        assert tables["late_events"].read(names).num_rows == len(names_of_events) + 1
        names_of_events.append(names)
        return list(tables["late_events"].open().schema.names)

    names_of_events: list[list[str]] = []
    assert late_events(origin, delay)[-2:] == ["late_by_ms", "watermark"]
    assert late_events(origin, gate, delay)[-2:] == ["watermark", "gate"]
    assert late_events(origin, delay)[-1] == "gate"


def test_a_column_that_late_events_has_in_another_type_or_case_is_null_there(tmp_path: Path) -> None:
    warehouse, fee = Warehouse(str(tmp_path)), ("fee", pa.struct([("a", pa.int64())]))
    warehouse.tables("p", replace(SHAPE, source=(fee, ("delay", pa.int64())))).ensure()
    changed_source = (("Fee", fee[1]), ("delay", pa.string()), ("gate", pa.string()))
    shape = replace(SHAPE, source=changed_source)
    tables = warehouse.tables("p", shape).ensure()
    assert tables.shape(shape).source == (("gate", pa.string()),)
    stage_late_event(tables, {"gate": "x"})
    [row] = Folder.existing_at(tables["late_events"].uri).read(["fee", "delay", "gate"]).to_pylist()
    assert row == {"fee": None, "delay": None, "gate": "x"}
    warehouse.tables("p", shape).check()
    with pytest.raises(ShapeChanged, match="late_events"):
        warehouse.tables("p", replace(shape, keys=(("origin", pa.int64()),))).check()


def stage_late_event(tables: Tables, values: dict[str, object]) -> tuple[str, ...]:
    """Write one late event as a run does; returns its file."""
    folder = tables["late_events"]
    rows = pa.Table.from_pylist([{**dict.fromkeys(folder.schema.names), **values}], schema=folder.schema)
    written = write_staged(folder.uri, "r1", "driver", rows.drop_columns(["run_id"]))
    folder.commit_files([written])
    return (written.path,)


def test_results_in_another_order_stay_where_they_are_stored(tmp_path: Path) -> None:
    two = replace(SHAPE, results=(("a", pa.int64()), ("b", pa.int64())))
    stored = Warehouse(str(tmp_path)).tables("p", two).ensure()
    reversed_tables = Warehouse(str(tmp_path)).tables("p", replace(two, results=two.results[::-1])).ensure()
    for name in ("panes", "published", "corrections"):
        assert reversed_tables[name].schema.equals(stored[name].schema)


def test_results_that_a_pipeline_gains_stand_behind_all_columns_and_those_that_it_loses_stay(
    tmp_path: Path,
) -> None:
    def ensured(*results: tuple[str, pa.DataType]) -> Tables:
        shape = replace(SHAPE, results=results, parts=tuple((f"{name}__sum", kind) for name, kind in results))
        tables = Warehouse(str(tmp_path)).tables("p", shape).ensure()
        for name in ("window_state", "panes", "published", "corrections"):
            assert tables[name].stored_schema().equals(tables[name].schema)
        return tables

    a, b, c = ("a", pa.int64()), ("b", pa.float64()), ("c", pa.string())
    first = ensured(a, b)["published"].schema.names
    assert first[3:6] == ["a", "b", "kind"]
    tables = ensured(c, b)
    assert tables["published"].schema.names == [*first, "c"]
    assert tables["window_state"].schema.names[-1] == "c__sum"
    for image in ("old", "new"):
        assert [field.name for field in tables["corrections"].schema.field(image).type] == ["a", "b", "c"]
    assert ensured(a)["published"].schema.names == [*first, "c"]
    for other in (("A", pa.int64()), ("c", pa.int64())):
        with pytest.raises(ShapeChanged):
            ensured(a, other)


def test_tables_of_a_newer_format_ask_for_the_newer_version_and_not_for_another_name(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    newer = warehouse.tables("p", replace(SHAPE, parts=(*SHAPE.parts, ("n__something", pa.int64()))))
    newer.ensure()
    LedgerWriter(newer["runs"]).commit("main", None, [run_row("r", format_version=99, version="9.9")], clock)
    with pytest.raises(NewerFormat, match=r"slackwater 9\.9"):
        warehouse.tables("p", SHAPE).ensure()


def test_a_warehouse_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseNotWritable, match="can't be written"):
        Warehouse(f"{tmp_path}/file").tables("p", SHAPE).ensure()


def commit_and_roll_forward(tables: Tables, run_id: str, parent_seq: int | None) -> None:
    [row] = tables.ledger_writer.commit("main", parent_seq, [run_row(run_id)], clock)
    for name in ("corrections", "published"):
        tables[name].commit_files(
            [], expected_table=tables[name].open(), transaction=Transaction(APPLICATION, row.seq)
        )


def test_a_run_that_is_published_while_logs_are_checked_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Warehouse(str(tmp_path)).tables("departures", SHAPE)
    tables.ensure()
    commit_and_roll_forward(tables, "a", None)
    newest, others = LedgerReader.newest, iter(["b"])

    def overtaken(self: LedgerReader) -> LedgerRow | None:
        row = newest(self)
        for run_id in others:
            commit_and_roll_forward(Warehouse(str(tmp_path)).tables("departures", SHAPE), run_id, 1)
        return row

    monkeypatch.setattr(LedgerReader, "newest", overtaken)
    tables.check_logs()
    assert (row := newest(tables.ledger)) is not None and row.seq == 2


def test_a_ledger_that_published_is_ahead_of_is_refused(tmp_path: Path) -> None:
    tables = Warehouse(str(tmp_path)).tables("departures", SHAPE)
    tables.ensure()
    commit_and_roll_forward(tables, "a", None)
    tables["published"].commit_files(
        [], expected_table=tables["published"].open(), transaction=Transaction(APPLICATION, 2)
    )
    with pytest.raises(LogDamaged, match="ends at row 1"):
        tables.check_logs()


@pytest.mark.parametrize(
    "uri", ["s3://user:geheim@lake/w", "https://a.blob.core.windows.net/c/w?sv=1&sig=geheim"]
)
def test_a_uri_that_holds_credentials_is_refused_and_not_shown(uri: str) -> None:
    for refuse in (Warehouse.at, Warehouse.at("s3://lake/w").source):
        with pytest.raises(CredentialsInUri, match=r"\*\*\*.*environment") as raised_error:
            refuse(uri)
        assert "geheim" not in f"{raised_error.value}{raised_error.value.facts}"


def test_a_folder_that_delta_rs_would_take_for_another_is_refused(tmp_path: Path) -> None:
    """It opens no table below it, also where there is one."""
    with pytest.raises(PercentInPath, match=r"per%20cent.*Rename the folder"):
        Warehouse.at(f"{tmp_path}/per%20cent")
    assert Warehouse.at(f"{tmp_path}/100%").root.endswith("/100%")
    assert Warehouse.at("s3://bucket/per%20cent").root == "s3://bucket/per%20cent"


@pytest.mark.parametrize(
    "uri",
    ["uc://main.sales.orders", "hdfs://name/orders", "dbfs:/mnt/orders", "gopher://host/orders", "s3:/b/k"],
)
def test_storage_that_nobody_can_read_is_refused_for_good(tmp_path: Path, uri: str) -> None:
    openers = [Warehouse(str(tmp_path)).source, Warehouse.at, *([filesystem] if "://" in uri else [])]
    for read in openers:
        with pytest.raises(UnknownStore, match=r"is no kind of storage .* s3://") as error:
            read(uri)
        assert error.value.exit_code == 2


@pytest.mark.parametrize("uri", ["file:///srv/orders", "s3://b/orders", "abfss://c@a/orders", "a:b/orders"])
def test_storage_that_can_be_read_is_not_refused(uri: str) -> None:
    refuse_unknown_store(uri)
