"""Statements of people: what they are answered, and that no statement reads another file, writes, or reaches
the network. Each way out is tried twice: as people ask, where our own check refuses it, and past that check,
where DuckDB itself has to.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.errors import SlackwaterError
from slackwater.inspection.sql.select_statements import NotAStatement
from slackwater.inspection.sql.sql_answers import answer, answer_in_batches, list_of_views
from slackwater.inspection.sql.views import LineageViews
from tests.warehouses.earlier import unpacked

SECRET = "what nobody may read"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse, and beside it files that no statement may read."""
    folder = tmp_path_factory.mktemp("sql")
    unpacked(folder)
    for name in ("secret.csv", "secret.json", "secret.txt"):
        (folder / name).write_text(f'"{SECRET}"\n')
    return folder


@pytest.fixture(scope="module")
def views(folder: Path) -> Iterator[LineageViews]:
    with LineageViews.of("readings", str(folder / "warehouse")) as views:
        yield views


def ways_out(folder: Path) -> list[str]:
    """Statements that would read, write or connect; `folder` is put for $F."""
    secret_variable = [SECRET]  # noqa: F841 - a replacement scan would find it
    statements = """
        FROM read_csv('$F/secret.csv')
        FROM read_csv_auto('$F/secret.csv', header = false)
        FROM '$F/secret.csv'
        FROM "$F/secret.json"
        FROM read_json('$F/secret.json')
        FROM read_ndjson_objects('$F/secret.json')
        FROM read_text('$F/secret.txt')
        FROM read_blob('$F/*')
        FROM glob('$F/*')
        FROM sniff_csv('$F/secret.csv')
        FROM read_parquet('$F/warehouse/sources/readings/*.parquet')
        FROM parquet_schema('$F/warehouse/sources/readings/*.parquet')
        FROM read_text('$F/warehouse/readings/../../secret.txt')
        FROM read_duckdb('$F/other.db', table_name = 'x')
        SELECT (SELECT content FROM read_text('$F/secret.txt'))
        WITH a AS (FROM read_text('$F/secret.txt')) FROM a
        SELECT * FROM runs WHERE run_id IN (SELECT content FROM read_text('$F/secret.txt'))
        SELECT list_transform([1], lambda x: (SELECT max(content) FROM read_text('$F/secret.txt')))
        FROM runs, LATERAL (FROM read_text('$F/secret.txt'))
        VALUES ((SELECT content FROM read_text('$F/secret.txt')))
        DESCRIBE FROM read_csv('$F/secret.csv')
        SUMMARIZE '$F/secret.csv'
        SHOW '$F/secret.csv'
        FROM query('FROM read_text(''$F/secret.txt'')')
        FROM query_table('$F/secret.csv')
        FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''$F/secret.txt'')'))
        SELECT json_serialize_plan('FROM read_csv(''$F/secret.csv'')')
        FROM secret_variable
        FROM python_map_function(0)
        FROM arrow_scan(0::POINTER, 0::POINTER, 0::POINTER)
        FROM pandas_scan(0::POINTER)
        SELECT getenv('PATH')
        FROM duckdb_secrets()
        FROM which_secret('$F', 's3')
        FROM read_csv('http://127.0.0.1:$P/x.csv')
        FROM 'https://127.0.0.1:$P/x.parquet'
        FROM 's3://bucket/x.parquet'
        COPY (SELECT 1) TO '$F/written.csv'
        COPY runs FROM '$F/secret.csv'
        EXPORT DATABASE '$F/written'
        ATTACH '$F/written.db'
        ATTACH 'http://127.0.0.1:$P/x.db'
        EXPLAIN ANALYZE COPY (SELECT 1) TO '$F/written.csv'
        PREPARE x AS COPY (SELECT 1) TO '$F/written.csv'
        INSTALL httpfs
        LOAD httpfs
        LOAD '$F/secret.txt'
        CREATE TABLE written AS SELECT 1
        CREATE SECRET s (TYPE s3)
        CREATE MACRO f() AS 1
        CREATE OR REPLACE VIEW published AS SELECT 1
        DROP VIEW published
        INSERT INTO runs VALUES (1)
        DELETE FROM runs
        SET enable_external_access = true
        SET allowed_directories = ['/']
        RESET lock_configuration
        PRAGMA enable_profiling
        PRAGMA database_list
        CALL enable_logging()
        CHECKPOINT
        SET VARIABLE x = 1
        USE memory
        BEGIN
        SELECT 1; COPY (SELECT 1) TO '$F/written.csv'
    """
    return [line.strip().replace("$F", str(folder)) for line in statements.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    """A port on which nobody may call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server


def files_below(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_no_statement_finds_a_way_out(
    views: LineageViews, folder: Path, server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files_below(folder)
    for statement in ways_out(folder):
        sql = statement.replace("$P", str(server.getsockname()[1]))
        with pytest.raises(NotAStatement) as refusal:
            answer(views, sql, 10)
        assert SECRET not in str(refusal.value), sql
    assert files_below(folder) == before and not any(tmp_path.iterdir())
    with pytest.raises(TimeoutError):
        server.accept()


def test_duckdb_refuses_as_well_what_our_check_would_let_through(
    views: LineageViews, folder: Path, server: socket.socket
) -> None:
    before = files_below(folder)
    answers = []
    for statement in ways_out(folder):
        sql = statement.replace("$P", str(server.getsockname()[1]))
        if "POINTER" in sql:
            continue
        try:
            answers.append(str(views.query(sql).to_pylist()))
        except SlackwaterError as error:
            answers.append(str(error))
    assert answers and not any(SECRET in one for one in answers)
    assert files_below(folder) == before
    with pytest.raises(TimeoutError):
        server.accept()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM runs",
        "FROM windows_now LIMIT 3;",
        "WITH a AS (SELECT 1 AS b), c AS (FROM a) SELECT * FROM c -- a comment",
        "VALUES (1), (2)",
        "DESCRIBE late_live",
        "SUMMARIZE (SELECT site FROM panes_live)",
        "SHOW TABLES",
        "SELECT u FROM (SELECT unnest([1, 2]) AS u)",
        "SELECT * FROM range(3), generate_series(1, 2)",
        "SELECT row_json ->> 'site' FROM quarantine_live",
        "SELECT site, count(*) FROM panes_live GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL",
        "SELECT a.n FROM published_at(1) a JOIN published b USING (site, window_start)",
    ],
)
def test_statements_that_read_are_answered(views: LineageViews, sql: str) -> None:
    first = answer(views, sql, 2)
    assert 0 < first.rows.num_rows <= 2
    with answer_in_batches(views, sql) as stream:
        assert sum(batch.num_rows for batch in stream.batches) == first.rows.num_rows + first.others


def test_rows_beyond_the_limit_are_counted(views: LineageViews) -> None:
    count = views.query("FROM panes_live").num_rows
    limited = answer(views, "SELECT run_seq FROM panes_live ORDER BY run_seq DESC", 5)
    assert limited.others == count - 5
    wanted = views.query("SELECT run_seq FROM panes_live ORDER BY run_seq DESC LIMIT 5")
    assert limited.rows.to_pylist() == wanted.to_pylist()
    assert answer(views, "FROM panes_live", count).others == 0


def test_a_mistyped_view_is_named_with_the_nearest(views: LineageViews) -> None:
    with pytest.raises(NotAStatement, match=r"no view windowz_now\. Did you mean windows_now\?"):
        answer(views, "FROM windowz_now", 1)
    with pytest.raises(
        NotAStatement, match=r"windows_et\(…\) is not possible here\. Did you mean windows_at\?"
    ):
        answer(views, "FROM windows_et(1)", 1)


def test_an_error_shows_its_place(views: LineageViews) -> None:
    with pytest.raises(NotAStatement) as error:
        answer(views, "SELECT 'ä',\n  sitte FROM runs", 1)
    lines = str(error.value).splitlines()
    assert lines[-2:] == ["    sitte FROM runs", "    ^^^^^"]


def test_a_failure_in_the_middle_of_a_stream_is_one_of_the_statement(views: LineageViews) -> None:
    sql = "SELECT CASE WHEN range = 90000 THEN error('the middle') ELSE 1 END FROM range(100000)"
    with pytest.raises(NotAStatement, match="the middle"), answer_in_batches(views, sql) as stream:
        list(stream.batches)


ENDLESS = "SELECT max(hash(a.range + b.range)) FROM range(1000000) a, range(1000000) b"


@pytest.fixture
def interruptions() -> Iterator[None]:
    """Ctrl-C as a process has it at its start, whatever other tests have made of it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def test_ctrl_c_stops_a_statement(views: LineageViews, interruptions: None) -> None:
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        answer(views, ENDLESS, 1)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        views.query(ENDLESS)
    assert answer(views, "SELECT 1", 1).rows.num_rows == 1


def test_every_view_is_listed_with_its_meaning(views: LineageViews) -> None:
    names = list_of_views(views).column("view").to_pylist()
    assert names[: len(views.names)] == views.names
    assert [name for name in names if name.endswith("(seq)")] == [f"{name}(seq)" for name in views.names_at]
