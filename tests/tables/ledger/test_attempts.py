"""Attempts: an append-only log of how each try stands, and a lease that one live process holds at a time."""

from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.tables import schemas
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.ledger.attempts import LEASE, UPKEEP, Attempt, AttemptsWriter, is_dead, this_process
from tests.racing import race
from tests.tables.ledger.ledger_rows import clock, day

NOW = clock()
SECOND = timedelta(seconds=1)


def attempts_in(root: str | Path) -> AttemptsWriter:
    return AttemptsWriter(Folder(f"{root}/attempts", pa.schema(list(schemas.ATTEMPTS))))


@pytest.fixture
def attempts(tmp_path: Path) -> AttemptsWriter:
    return attempts_in(tmp_path)


def attempt_of(run_id: str, day_number: int = 0) -> Attempt:
    return Attempt(
        run_id=run_id, parent_seq=None, slice_start=day(day_number), slice_end=day(day_number + 1), at=NOW
    )


def claim(attempts: AttemptsWriter, run_id: str, now: datetime = NOW) -> Attempt | None:
    return attempts.claim(attempt_of(run_id), lambda: now)


def test_columns_are_fields_in_the_documented_order() -> None:
    assert [field.name for field in fields(Attempt)] == [name for name, _ in schemas.ATTEMPTS]


def test_the_newest_row_says_how_an_attempt_stands(attempts: AttemptsWriter) -> None:
    assert attempts.find("a") is None
    claimed_row = claim(attempts, "a")
    assert claimed_row is not None
    staged_row = attempts.record(
        claimed_row, NOW + SECOND, outcome="staged", verdict="passed", ledger_row="{}"
    )
    assert (
        attempts.find("a")
        == staged_row
        == replace(claimed_row, at=NOW + SECOND, outcome="staged", verdict="passed", ledger_row="{}")
    )
    assert attempts.folder.read().num_rows == 2


def test_rows_of_one_moment_are_in_the_order_of_a_runs_life(attempts: AttemptsWriter) -> None:
    """Files of a table have no order among themselves, so each order of writing must give the same."""
    for run_id, outcomes in {
        "a": ["claimed", "staged", "committed"],
        "b": ["committed", "claimed", "staged"],
        "c": ["staged", "claimed"],
    }.items():
        for outcome in outcomes:
            attempts.record(attempt_of(run_id), NOW, outcome=outcome)
    assert {row.run_id: row.outcome for row in attempts.newest_rows()} == {
        "a": "committed",
        "b": "committed",
        "c": "staged",
    }


def test_a_clock_that_went_back_takes_no_outcome_back(attempts: AttemptsWriter) -> None:
    claimed_row = claim(attempts, "a")
    assert claimed_row is not None
    staged_row = attempts.record(claimed_row, NOW - timedelta(hours=1), outcome="staged", ledger_row="{}")
    assert attempts.find("a") == staged_row and attempts.holders(NOW) == []


def test_upkeep_is_no_attempt_at_a_slice(attempts: AttemptsWriter) -> None:
    attempts.record(replace(attempt_of("u"), slice_end=day(0), step=UPKEEP), NOW, expires_at=NOW + LEASE)
    assert attempts.newest_rows() == [] and attempts.tries(day(0), day(1)) == 0
    assert [holder.is_upkeep for holder in attempts.holders(NOW)] == [True]


def test_attempts_stand_in_the_order_in_which_they_changed(attempts: AttemptsWriter) -> None:
    for run_id in ("a", "b", "c"):
        attempts.record(attempt_of(run_id), NOW, outcome="staged")
    attempts.record(attempt_of("b"), NOW + 2 * SECOND, outcome="committed")
    attempts.record(attempt_of("a"), NOW + SECOND, outcome="staged")
    assert [row.run_id for row in attempts.newest_rows()] == ["c", "a", "b"]


def test_tries_are_counted_per_slice(attempts: AttemptsWriter) -> None:
    for run_id in ("a", "b"):
        attempts.record(attempt_of(run_id), NOW)
    attempts.record(attempt_of("a"), NOW + SECOND, outcome="failed")
    attempts.record(attempt_of("c", day_number=1), NOW)
    assert [attempts.tries(day(n), day(n + 1)) for n in range(3)] == [2, 1, 0]


class TestTheLease:
    def test_a_claim_says_who_holds_it_and_until_when(self, attempts: AttemptsWriter) -> None:
        claimed_row = claim(attempts, "a")
        assert claimed_row is not None
        assert (claimed_row.outcome, claimed_row.owner, claimed_row.claimed_at, claimed_row.expires_at) == (
            "claimed",
            this_process(),
            NOW,
            NOW + LEASE,
        )
        assert attempts.holders(NOW) == [claimed_row]

    def test_while_its_holder_lives_nobody_else_gets_it(self, attempts: AttemptsWriter) -> None:
        assert claim(attempts, "a") is not None
        assert claim(attempts, "b", NOW + LEASE - SECOND) is None
        assert attempts.find("b") is None

    def test_it_ends_when_the_attempt_does(self, attempts: AttemptsWriter) -> None:
        for number, outcome in enumerate(("staged", "rejected", "failed", "lost", "committed")):
            now = NOW + number * SECOND
            held_claim = claim(attempts, outcome, now)
            assert held_claim is not None
            attempts.record(held_claim, now, outcome=outcome)
            assert attempts.holders(now) == []

    def test_it_expires(self, attempts: AttemptsWriter) -> None:
        claim(attempts, "a")
        assert attempts.holders(NOW + LEASE) == []
        assert claim(attempts, "b", NOW + LEASE) is not None

    def test_renewed_it_lasts_longer(self, attempts: AttemptsWriter) -> None:
        held_claim = claim(attempts, "a")
        assert held_claim is not None
        attempts.record(held_claim, NOW + 60 * SECOND, expires_at=NOW + 60 * SECOND + LEASE)
        assert claim(attempts, "b", NOW + LEASE) is None
        assert claim(attempts, "b", NOW + LEASE + 60 * SECOND) is not None

    def test_the_end_of_an_attempt_ends_its_renewals_too(self, attempts: AttemptsWriter) -> None:
        held_claim = claim(attempts, "a")
        assert held_claim is not None
        attempts.record(held_claim, NOW + 60 * SECOND, expires_at=NOW + 60 * SECOND + LEASE)
        attempts.record(held_claim, NOW + 61 * SECOND, outcome="committed")  # with the expiry of the claim
        assert attempts.holders(NOW + LEASE + SECOND) == [] and attempts.holders(NOW + 62 * SECOND) == []
        assert claim(attempts, "b", NOW + LEASE + SECOND) is not None

    def test_a_renewal_that_comes_after_the_end_revives_nothing(self, attempts: AttemptsWriter) -> None:
        held_claim = claim(attempts, "a")
        assert held_claim is not None
        attempts.record(held_claim, NOW + SECOND, outcome="failed")
        attempts.record(held_claim, NOW + SECOND, expires_at=NOW + SECOND + LEASE)
        assert claim(attempts, "b", NOW + SECOND) is not None

    def test_files_of_attempts_that_have_ended_are_not_read(
        self, attempts: AttemptsWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A chain of short slices ends many attempts within a lease's time, and each claim looks at the
        lease.
        """
        ends = ["staged", "rejected", "failed", "lost", "committed"]
        for number, outcome in enumerate(ends):
            held_claim = claim(attempts, f"{outcome} {number}")
            assert held_claim is not None
            attempts.record(held_claim, NOW, outcome=outcome)
        attempts.record(
            replace(attempt_of("elsewhere"), owner="elsewhere.example/1/1"), NOW, expires_at=NOW + LEASE
        )
        looked_at: list[int] = []
        read = StoredFiles.read

        def counting_read(files: StoredFiles, *question: Any) -> pa.Table:
            looked_at.append(files.actions.num_rows)
            return read(files, *question)

        monkeypatch.setattr(StoredFiles, "read", counting_read)
        assert [holder.run_id for holder in attempts.holders(NOW)] == ["elsewhere"]
        assert looked_at == [1, 1], "what may be held, and how that stands"

    def test_a_file_of_many_attempts_is_looked_into(self, attempts: AttemptsWriter) -> None:
        """Upkeep leaves such files. Here one attempt has ended, as another file says; one has not."""
        rows = [
            asdict(replace(attempt_of(run_id), owner="elsewhere.example/1/1", expires_at=NOW + LEASE))
            for run_id in ("a", "b")
        ]
        attempts.folder.append(pa.Table.from_pylist(rows, schema=attempts.folder.schema))
        attempts.record(attempt_of("a"), NOW + SECOND, outcome="failed")
        assert [holder.run_id for holder in attempts.holders(NOW + SECOND)] == ["b"]

    @pytest.mark.parametrize("searched_column", ["run_id", "outcome", "at"])
    def test_it_is_found_where_a_property_leaves_statistics_of_one_column_alone(
        self, tmp_path: Path, searched_column: str
    ) -> None:
        before = attempts_in(tmp_path)
        for run_id in ("a", "b"):
            before.record(attempt_of(run_id), NOW, outcome="failed")
        DeltaTable(before.folder.uri).alter.set_table_properties(
            {"delta.dataSkippingStatsColumns": searched_column}
        )
        attempts = attempts_in(tmp_path)
        assert claim(attempts, "c") is not None
        assert claim(attempts, "d") is None
        assert [holder.run_id for holder in attempts.holders(NOW)] == ["c"]

    def test_of_a_dead_process_it_is_taken_over_at_once(
        self, attempts: AttemptsWriter, tmp_path: Path
    ) -> None:
        [outcome] = race(tmp_path, claim_in_a_process, str(tmp_path), processes=1)
        assert outcome == "claimed"
        standing = attempts.find("contender")
        assert standing is not None and standing.owner is not None and is_dead(standing.owner)
        assert attempts.holders(NOW) == []
        assert claim(attempts, "b") is not None

    def test_of_two_claims_at_once_one_wins(self, attempts: AttemptsWriter, tmp_path: Path) -> None:
        attempts.folder.ensure()
        assert sorted(race(tmp_path, claim_in_a_process, str(tmp_path))) == ["claimed", "held by another"]
        assert attempts.folder.read().num_rows == 1

    def test_of_two_claims_on_a_table_that_is_not_there_one_wins(self, tmp_path: Path) -> None:
        assert sorted(race(tmp_path, claim_in_a_process, str(tmp_path))) == ["claimed", "held by another"]

    def test_another_row_in_between_only_makes_the_claim_try_again(self, attempts: AttemptsWriter) -> None:
        meddling_steps = iter([None])

        def meddling_clock() -> datetime:
            for _ in meddling_steps:
                attempts_in(Path(attempts.folder.uri).parent).record(
                    attempt_of("other", 1), NOW, outcome="failed"
                )
            return NOW

        assert attempts.claim(attempt_of("a"), meddling_clock) is not None


def claim_in_a_process(root: str) -> str:
    return "held by another" if claim(attempts_in(root), "contender") is None else "claimed"


def test_the_log_takes_as_many_bytes_for_each_of_many_runs_as_of_few(attempts: AttemptsWriter) -> None:
    log, quarter = Path(attempts.folder.uri, "_delta_log"), timedelta(minutes=15)
    bytes_per_run = []
    for number in range(1, 41):
        now = NOW + number * quarter
        attempt = replace(
            attempt_of(uuid4().hex), parent_seq=number, slice_start=now, slice_end=now + quarter
        )
        row = attempts.claim(attempt, lambda now=now: now)
        assert row is not None
        row = attempts.record(row, now + SECOND, outcome="staged", verdict="passed", ledger_row="{}" * 1500)
        attempts.record(row, now + 2 * SECOND, outcome="committed", exit_code=0)
        if number in {20, 40}:
            bytes_per_run.append(sum(file.stat().st_size for file in log.iterdir()) / number)
    bytes_of_short, bytes_of_long = bytes_per_run
    assert bytes_of_long < 1.1 * bytes_of_short
    assert bytes_of_long < 10_000
