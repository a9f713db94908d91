"""What inspection says of a ledger whose roll-forward is under way: rows are written by hand, table by table."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Transaction

from jobs.tables.inspection import ROLLED_FORWARD, Inspection
from jobs.tables.ledger import MAIN, LedgerWriter
from jobs.tables.schemas import Shape
from jobs.tables.warehouse import Tables, Warehouse
from tests.jobs.tables.ledger_rows import clock, day, run_row

SHAPE = Shape(keys=(("origin", pa.string()),), results=(("n", pa.int64()),), parts=(), source=())


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Two committed runs: the first changed windows of two days, the second of one."""
    tables = Warehouse(str(tmp_path)).tables("p", SHAPE)
    tables.ensure()
    LedgerWriter(tables["runs"]).commit(MAIN, None, [run_row("a"), run_row("b", day_number=1)], clock)
    for seq, number in [(1, 1), (1, 0), (1, 0), (2, 3)]:
        row = dict.fromkeys(tables["corrections"].schema.names) | {"seq": seq, "window_start": day(number)}
        tables["corrections"].append(pa.Table.from_pylist([row], schema=tables["corrections"].schema))
    return tables


def roll_forward(tables: Tables, seq: int) -> None:
    tables["published"].append(tables["published"].schema.empty_table(), transaction=Transaction(ROLLED_FORWARD, seq))


def touched(tables: Tables, since: int = 0) -> list[tuple[int, list[str]]]:
    return [(row.seq, days) for row, days in Inspection("p", tables).runs(since)]


def test_a_run_has_touched_no_day_until_published_shows_it(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    assert touched(tables) == [(1, []), (2, [])], "a reader of `published` sees nothing of either"
    roll_forward(tables, 1)
    assert touched(tables) == [(1, ["2013-01-01", "2013-01-02"]), (2, [])]
    Inspection("p", tables).say_if_unfinished()
    assert "`published` is as of run 1, the ledger at 2" in capsys.readouterr().err
    roll_forward(tables, 2)
    assert touched(tables) == [(1, ["2013-01-01", "2013-01-02"]), (2, ["2013-01-04"])]
    assert touched(tables, since=1) == [(2, ["2013-01-04"])]
    Inspection("p", tables).say_if_unfinished()
    assert capsys.readouterr().err == ""
