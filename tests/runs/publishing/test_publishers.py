"""Two publishers of one chain of staged slices: what one has made live stays so, and what it has left can
still be published.
"""

from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.errors import LostRaceError
from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.staging import pack
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import Tables, Warehouse
from tests.tables.ledger.ledger_rows import day, run_row

SHAPE = Shape((("k", pa.string()),), (("n", pa.int64()),), (), ())


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Three slices are staged, one on the other."""
    tables = Warehouse(str(tmp_path)).tables("p", SHAPE)
    tables.ensure()
    attempts, parent = AttemptsWriter(tables["attempts"]), None
    for number, run_id in enumerate("abc"):
        row: LedgerRow = run_row(run_id, day_number=number, verdict="passed")
        ledger_row = pack(row, parent, {})
        attempt = Attempt(
            run_id=run_id,
            parent_seq=None,
            slice_start=row.slice_start,
            slice_end=row.slice_end,
            at=day(9),
            ledger_row=ledger_row,
        )
        attempts.record(attempt, day(9), outcome="staged", verdict="passed")
        parent = row
    return tables


def publisher(tables: Tables) -> Publisher:
    return Publisher("p", tables, RollForward(tables, Publication(SHAPE, Identity.WINDOW)))


def test_one_that_loses_to_a_publisher_of_the_first_slices_leaves_the_others_staged(tables: Tables) -> None:
    late = publisher(tables)
    chain = late.chain("c")
    assert [row.run_id for row in publisher(tables).publish("b")] == ["a", "b"]
    with pytest.raises(LostRaceError):
        late.commit([attempt for attempt, _ in chain], [row for _, row in chain], None)
    assert {attempt.run_id: attempt.outcome for attempt in tables.attempts.newest_rows()} == {
        "a": "committed",
        "b": "committed",
        "c": "staged",
    }
    assert [row.run_id for row in publisher(tables).publish()] == ["c"]
    assert [row.run_id for row in tables.ledger.rows()] == ["a", "b", "c"]
