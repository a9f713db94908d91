"""Claims while their holder is at work: renewed whatever goes wrong once, and one upkeep of a pipeline's
tables at a time.
"""

import threading
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.runs.staging.lease import LeaseHeld, only_upkeep, renewing_lease
from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.errors import WarehouseNotWritable
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter, this_process
from tests.tables.ledger.ledger_rows import clock, day


@pytest.fixture
def attempts(tmp_path: Path) -> AttemptsWriter:
    return AttemptsWriter(Folder(f"{tmp_path}/attempts", pa.schema(list(schemas.ATTEMPTS))))


def wanted() -> Attempt:
    return Attempt(run_id="a", parent_seq=None, slice_start=day(0), slice_end=day(1), at=clock())


def test_a_renewal_that_fails_once_is_tried_again(
    attempts: AttemptsWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = attempts.claim(wanted(), clock)
    assert claimed is not None
    failures, is_renewed = iter([WarehouseNotWritable("503"), OSError("connection reset")]), threading.Event()

    def record(self: AttemptsWriter, row: Attempt, now: datetime, **changes: object) -> Attempt:
        for failure in failures:
            raise failure
        is_renewed.set()
        return row

    monkeypatch.setattr(AttemptsWriter, "record", record)
    with renewing_lease(attempts, claimed, clock, every=timedelta(milliseconds=1)):
        assert is_renewed.wait(30)


def test_a_second_upkeep_gives_up_and_says_who_is_at_work(attempts: AttemptsWriter) -> None:
    with only_upkeep("p", attempts, clock):
        with pytest.raises(LeaseHeld, match=this_process()), only_upkeep("p", attempts, clock):
            raise AssertionError
        assert attempts.claim(wanted(), clock, lambda holder: not holder.is_upkeep) is not None, (
            "a run is in nobody's way"
        )
    with only_upkeep("p", attempts, clock):
        pass


def test_an_upkeep_that_fails_leaves_no_claim(attempts: AttemptsWriter) -> None:
    with pytest.raises(OSError, match="gone"), only_upkeep("p", attempts, clock):
        raise OSError("gone")
    with only_upkeep("p", attempts, clock):
        pass
    outcomes = attempts.folder.read(["outcome", "error"]).to_pylist()
    assert sorted((row["outcome"], row["error"] or "") for row in outcomes) == [
        ("claimed", ""),
        ("claimed", ""),
        ("committed", ""),
        ("failed", "gone"),
    ]


@pytest.mark.parametrize("raised", [None, OSError("gone")])
def test_what_upkeep_has_done_counts_where_its_end_cannot_be_recorded(
    attempts: AttemptsWriter, raised: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: AttemptsWriter, row: Attempt, now: datetime, **changes: object) -> Attempt:
        raise WarehouseNotWritable("503")

    with pytest.raises(OSError, match="gone") if raised else nullcontext(), only_upkeep("p", attempts, clock):
        monkeypatch.setattr(AttemptsWriter, "record", refuse)
        if raised:
            raise raised
