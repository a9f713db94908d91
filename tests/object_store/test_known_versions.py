"""A process works behind the newest version that it knows of a table in an object store. Where another
process has committed meanwhile it looks again before it refuses anything.
"""

import pyarrow as pa
import pytest

from slackwater.errors import LostRaceError
from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.writer import LedgerWriter
from tests.object_store.conftest import Store
from tests.object_store.server import BUCKET
from tests.tables.ledger.ledger_rows import clock, day, run_row

NOW = clock()
ATTEMPTS = pa.schema(list(schemas.ATTEMPTS))
RUNS = pa.schema(list(schemas.RUNS))


def attempt(run_id: str) -> Attempt:
    return Attempt(run_id=run_id, parent_seq=None, slice_start=day(0), slice_end=day(1), at=NOW)


def two_attempts(store: Store, name: str) -> tuple[AttemptsWriter, AttemptsWriter]:
    """The writers of two processes, both of which know the table as it was made."""
    uri = f"s3://{BUCKET}/{name}"
    writers = AttemptsWriter(Folder(uri, ATTEMPTS)), AttemptsWriter(Folder(uri, ATTEMPTS))
    for writer in writers:
        writer.folder.ensure()
    store.proxy.forget()
    return writers


def test_a_claim_that_nobody_disputes_asks_for_no_newer_commit(in_store: Store) -> None:
    first, _ = two_attempts(in_store, "undisputed")
    assert first.claim(attempt("a"), clock) is not None
    assert in_store.proxy.counts() == {"PUT": len(["rows", "commit"])}


def test_a_claim_that_it_has_not_seen_is_respected(in_store: Store) -> None:
    first, second = two_attempts(in_store, "unseen")
    assert first.claim(attempt("a"), clock) is not None
    assert second.claim(attempt("b"), clock) is None
    assert [holder.run_id for holder in second.holders(NOW)] == ["a"]


def test_a_claim_whose_end_it_has_not_seen_does_not_hold_it_up(in_store: Store) -> None:
    first, second = two_attempts(in_store, "ended")
    claim = first.claim(attempt("a"), clock)
    assert claim is not None
    assert [holder.run_id for holder in second.holders(NOW)] == ["a"]
    first.record(claim, NOW, outcome="committed")
    assert second.claim(attempt("b"), clock) is not None


def test_a_row_behind_a_head_that_it_has_not_seen_is_committed(in_store: Store) -> None:
    uri = f"s3://{BUCKET}/heads"
    first, second = LedgerWriter(Folder(uri, RUNS)), LedgerWriter(Folder(uri, RUNS))
    [head] = first.commit("main", None, [run_row("a")], clock)
    assert second.head() == head
    [newer_head] = first.commit("main", head.seq, [run_row("b", day_number=1)], clock)
    [row] = second.commit("main", newer_head.seq, [run_row("c", day_number=2)], clock)
    assert row.seq == 3
    with pytest.raises(LostRaceError):
        first.commit("main", newer_head.seq, [run_row("d", day_number=2)], clock)
    assert [each.run_id for each in second.rows()] == ["a", "b", "c"]


def test_columns_that_another_process_has_added_are_added_once(in_store: Store) -> None:
    """As of the version that this process has opened they are missing."""
    uri, schema = f"s3://{BUCKET}/grown", pa.schema([("n", pa.int64())])
    more = pa.field("more", pa.string())
    Folder(uri, schema).ensure()
    folder = Folder(uri, schema)
    assert folder.version() == 0
    Folder(uri, schema).add_columns([more])
    assert folder.stored_schema().names == ["n"]
    folder.add_columns([more, pa.field("most", pa.string())])
    folder.append(pa.table({"n": [1]}))
    assert folder.open().schema.names == ["n", "more", "most"]
