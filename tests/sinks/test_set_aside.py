"""Rows that a SQL table can never take are set aside by name, the others stand, and whatever comes later for
them counts.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from slackwater import SinkContext, SinkPosition, SinkTarget, SqlSink
from slackwater.sinks.errors import SinkUnsuitable
from slackwater.sinks.targets import sql_rows
from tests.sinks.histories import EPOCH, SCHEMA, History, Identity, context
from tests.sinks.servers import postgres_binaries, postgres_server

START = SinkPosition(0, 0)
TRIGGER = """
CREATE TRIGGER refuses BEFORE INSERT ON visits WHEN NEW.label = 'x'
BEGIN SELECT RAISE(ABORT, 'no label x here'); END
"""
TIME = pa.timestamp("us", tz="UTC")


def run_sql(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def standing(path: Path) -> set[Identity]:
    rows = run_sql(path, "SELECT page, window_start FROM visits")
    return {(page, datetime.fromisoformat(start).replace(tzinfo=UTC)) for page, start in rows}


def names_of(target: SinkTarget) -> set[Identity]:
    keys = [json.loads(row.key) for row in target.set_aside()]
    return {(key["page"], datetime.fromisoformat(key["window_start"])) for key in keys}


@pytest.mark.parametrize("seed", range(4))
def test_the_table_holds_all_but_the_rows_that_are_set_aside_after_any_corrections(
    tmp_path: Path, seed: int
) -> None:
    """Then it takes them, and the same corrections once more bring them."""
    chance, path = random.Random(seed), tmp_path / "t.db"
    target = SqlSink("report", url=f"sqlite:///{path}", table="visits").open(context(str(tmp_path)))
    run_sql(path, TRIGGER)
    history, delivered = History.drawn(chance, seqs=8, most=9), 0
    position = START
    while delivered < len(history.changes):
        last = min(delivered + chance.randint(1, 9), len(history.changes))
        end = SinkPosition(*history.position(last))
        assert target.deliver(history.table(delivered, last), position, end)
        delivered, position = last, end
        rows = history.standing[delivered]
        refused = {identity for identity, row in rows.items() if row["label"] == "x"}
        assert standing(path) == set(rows) - refused
        assert names_of(target) == refused
        assert {(row.column, row.reason) for row in target.set_aside()} <= {("label", "no label x here")}
    run_sql(path, "DROP TRIGGER refuses")
    seqs = {row.seq for row in target.set_aside()}
    again = [
        change
        for change in history.changes
        if change["seq"] in seqs and (change["page"], change["window_start"]) in names_of(target)
    ]
    assert target.deliver(pa.Table.from_pylist(again, SCHEMA), position, position)
    assert (standing(path), target.set_aside()) == (set(history.standing[-1]), [])
    target.close()


@pytest.mark.parametrize(
    ("kind", "message", "is_refused"),
    [
        (sa.exc.OperationalError, "database or disk is full", False),
        (sa.exc.OperationalError, "server closed the connection unexpectedly", False),
        (sa.exc.ProgrammingError, "no such column: visits", False),
        (sa.exc.DataError, "string or blob too big", True),
        (sa.exc.IntegrityError, "CHECK constraint failed", True),
    ],
)
def test_only_what_is_wrong_with_a_value_is_of_a_row(
    kind: type[sa.exc.DBAPIError], message: str, is_refused: bool
) -> None:
    error = kind("INSERT", {}, sqlite3.DatabaseError(message))
    assert sql_rows.is_of_row(error) == is_refused


@pytest.mark.parametrize(
    ("state", "is_refused"),
    [("22021", True), ("23514", True), ("54000", True), ("53100", False), ("57P01", False), ("40P01", False)],
)
def test_the_class_of_the_sql_state_decides_where_there_is_one(state: str, is_refused: bool) -> None:
    """54000 is an index row that is too large, which PostgreSQL's drivers call an operational error."""
    cause = sqlite3.OperationalError("said by a server")
    vars(cause)["sqlstate"] = state
    assert sql_rows.is_of_row(sa.exc.OperationalError("INSERT", {}, cause)) == is_refused


def test_a_table_that_refuses_more_than_some_rows_does_not_suit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_rows, "MOST_REFUSED", 2)
    path = tmp_path / "t.db"
    target = SqlSink("report", url=f"sqlite:///{path}", table="visits").open(context(str(tmp_path)))
    run_sql(path, TRIGGER.replace("NEW.label = 'x'", "true"))
    history = History.drawn(random.Random(0), seqs=1, most=9)
    count = len(history.changes)
    assert count > 2
    with pytest.raises(SinkUnsuitable, match=r"refuses more than 2 rows of one batch.*no label x here"):
        target.deliver(history.table(0, count), START, SinkPosition(*history.position(count)))
    assert (target.position(), target.set_aside(), standing(path)) == (START, [], set())
    target.close()


def with_until(told: SinkContext) -> SinkContext:
    return replace(told, results=(*told.results, ("until", TIME)))


def inserts(changes: dict[int, dict[str, Any]]) -> pa.Table:
    """Twelve inserts, of which some have other values."""
    kind = pa.struct([*SCHEMA.field("new").type, pa.field("until", TIME)])
    schema = SCHEMA.set(13, pa.field("old", kind)).set(14, pa.field("new", kind))
    rows = []
    for number in range(12):
        new = {"visits": number, "mean": 0.5, "label": "y", "until": 0, **changes.get(number, {})}
        rows.append(
            {
                "seq": 1,
                "run_id": "r",
                "key_group": number,
                "page": new.pop("page", f"/p{number}"),
                "window_start": EPOCH,
                "window_end": EPOCH,
                "op": "insert",
                "new": new,
            }
        )
    return pa.Table.from_pylist(rows, schema)


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine")
    with postgres_server(binaries) as url:
        yield url


CASES: dict[str, tuple[dict[int, dict[str, Any]], dict[str, str]]] = {
    "far time": ({3: {"until": 9223371331199999999}}, {"/p3": "until"}),
    "NUL in a result": ({0: {"label": "a\0b"}, 11: {"label": "\0"}}, {"/p0": "label", "/p11": "label"}),
    "NUL in a key": ({5: {"page": "/a\0b"}}, {"/a\0b": "page"}),
    "all at once": (
        {1: {"page": "\0"}, 2: {"label": "\0"}, 7: {"until": 9223371331199999999}},
        {"\0": "page", "/p2": "label", "/p7": "until"},
    ),
}


def check_case(sink: SqlSink, told: SinkContext, rows: Callable[[], set[str]], case: str) -> None:
    values, expected = CASES[case]
    target = sink.open(with_until(told))
    changes = inserts(values)
    assert target.deliver(changes, START, SinkPosition(1, 12))
    assert {json.loads(row.key)["page"]: row.column for row in target.set_aside()} == expected
    pages = set(changes.column("page").to_pylist())
    assert rows() == pages - set(expected)
    # A later correction replaces them.
    withdrawn = changes.set_column(11, "op", pa.array(["withdraw"] * 12)).set_column(
        0, "seq", pa.array([2] * 12)
    )
    assert target.deliver(withdrawn, SinkPosition(1, 12), SinkPosition(2, 12))
    assert (rows(), target.set_aside()) == (set(), [])
    target.close()


def test_a_time_that_python_does_not_have_is_set_aside_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    sink = SqlSink("report", url=f"sqlite:///{path}", table="visits")
    pages = lambda: {page for (page,) in run_sql(path, "SELECT page FROM visits")}  # noqa: E731
    check_case(sink, context(str(tmp_path)), pages, "far time")


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
@pytest.mark.parametrize("case", [*CASES, "a key that no index takes"])
def test_what_postgresql_can_never_take_is_set_aside(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, case: str, driver: str
) -> None:
    pytest.importorskip(driver)
    url = postgres_url.replace("psycopg2", driver)
    monkeypatch.setenv("TARGET", url)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS visits, slackwater_positions, slackwater_set_aside"))
    long_key = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9_000))
    monkeypatch.setitem(CASES, "a key that no index takes", ({4: {"page": long_key}}, {long_key: "page"}))
    monkeypatch.setattr(sql_rows, "KEY_CHARACTERS", 10_000)

    def pages() -> set[str]:
        with engine.connect() as connection:
            return set(connection.execute(sa.text("SELECT page FROM visits")).scalars())

    check_case(SqlSink("report", url="env:TARGET", table="visits"), context(str(tmp_path)), pages, case)
    engine.dispose()
