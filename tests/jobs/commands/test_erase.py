"""`erase`: what is left is what would stand there if the rows had never been, the lineage goes on from it,
and nothing holds them any more.

The twin is a warehouse whose source never had the rows of the key. It has one row of another key wherever
they would have moved the watermark, so that both have the same one.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.jobs.tables.warehouse import Warehouse
from tests.jobs.commands.own_source import Own, every_hour, moment

pytestmark = pytest.mark.usefixtures("without_spark")

KEY, OTHER = "abel-4711", "bert"
REASON = "ticket 7"
DAYS = 3
# Runs and ledger rows say when and by whom they were made; these columns are theirs.
OF_RUN = ("run_id", "seq", "run_seq", "at", "source_file", "source_version")
COMPARED = ("panes", "late_events", "quarantine", "published", "corrections")


def rows_of(key: str) -> list[list[dict[str, object]]]:
    """What arrives on each day of one key: an element an hour, one that is late by a window, one that is too
    late, one without a time.
    """
    days = []
    for day in range(DAYS):
        first = 24 * day
        rows = every_hour(first, first + 24, key)
        rows.append({"e": moment(first + 19.5), "a": moment(first + 21.2), "k": key, "x": 1000})
        rows.append({"e": moment(first + 2), "a": moment(first + 23.1), "k": key, "x": 2000})
        rows.append({"e": None, "a": moment(first + 23.2), "k": key, "x": 3000})
        days.append(rows)
    return days


def made(root: Path, settings: str, *keys: str) -> Own:
    root.mkdir()
    own = Own(root)
    own.declare(settings)
    for rows in zip(*map(rows_of, keys), strict=True):
        own.append([row for of_key in rows for row in of_key])
    return own


def day(number: int) -> str:
    return f"2013-01-0{number}"


def plain(own: Own, table: str) -> list[str]:
    """Its rows without what says which run made them."""
    return sorted(
        str({name: value for name, value in row.items() if name not in OF_RUN}) for row in own.stored(table)
    )


def head(own: Own) -> dict[str, object]:
    return max(own.stored("runs"), key=lambda row: row["seq"])


def delete_in_source(own: Own) -> None:
    source = DeltaTable(own.source)
    source.delete(f"k = '{KEY}'")
    source.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def files_that_name(own: Own) -> list[str]:
    """Parquet files of any table, named by a log or not, and of the source, in which the key stands."""
    found = own.warehouse.rglob("*.parquet")
    data = (path for path in found if "_delta_log" not in path.parts)
    return [str(path) for path in data if KEY in str(pq.ParquetFile(path).read().to_pylist())]


SETTINGS = {
    "columnar": "",
    "operator": "",
    "sessions": "window=EventTimeSessionWindows.with_gap(timedelta(minutes=90))",
    "old snapshots": "keep_snapshots=1, keep_snapshot_every=timedelta(days=30)",
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind == "sessions" else ()) for kind in SETTINGS]
)
def test_what_is_left_is_what_would_be_there_without_them_and_the_lineage_goes_on(
    tmp_path: Path, kind: str
) -> None:
    engine = ("--engine", "operator") if kind == "operator" else ()
    own, twin = (
        made(tmp_path / "own", SETTINGS[kind], KEY, OTHER),
        made(tmp_path / "twin", SETTINGS[kind], OTHER),
    )
    for each in (own, twin):
        assert each("run", "own", "--to", day(3), *engine) == 0
    assert files_that_name(own)
    if kind == "old snapshots":
        assert own("maintain", "own") == 0
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert files_that_name(own) == []
    assert {table: plain(own, table) for table in COMPARED} == {
        table: plain(twin, table) for table in COMPARED
    }
    for name in ("state_hash", "windows_open", "timers_pending", "watermark_out"):
        assert head(own)[name] == head(twin)[name]
    assert own("verify", "own", "--tables") == 0
    for each in (own, twin):
        assert each("run", "own", "--to", day(4), *engine) == 0
        assert each("backfill", "own", "--from", day(3), "--to", day(4)) == 0
    assert {table: plain(own, table) for table in COMPARED} == {
        table: plain(twin, table) for table in COMPARED
    }
    assert (
        own("publish", "own", "--rebuild") == own("maintain", "own") == own("verify", "own", "--tables") == 0
    )
    assert plain(own, "published") == plain(twin, "published")


@pytest.fixture
def own(tmp_path: Path) -> Own:
    """Two days of two keys, replayed."""
    made_here = made(tmp_path / "own", "", KEY, OTHER)
    assert made_here("run", "own", "--to", day(3)) == 0
    return made_here


def test_it_waits_for_a_run_and_deletes_no_file_that_a_run_may_be_writing(
    own: Own, said: Callable[[], str]
) -> None:
    delete_in_source(own)
    attempts = AttemptsWriter(Warehouse(str(own.warehouse)).stored_tables("own")["attempts"])
    wanted = Attempt(
        run_id="other", parent_seq=2, slice_start=moment(48), slice_end=moment(72), at=moment(72)
    )
    before = {table: own.stored(table) for table in COMPARED}
    claimed = attempts.claim(wanted, lambda: datetime.now(UTC))
    assert claimed is not None
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 3
    assert "Nothing was changed" in said() and {table: own.stored(table) for table in COMPARED} == before
    attempts.record(claimed, datetime.now(UTC), outcome="failed")
    folder = own.warehouse / "own" / "panes"
    spared, dead = folder / "0-silent-1.parquet", folder / "0-other-1.parquet"
    for path in (spared, dead):
        path.write_bytes(b"written by a task")
        os.utime(path, (1, 1))
    # Of this one nobody knows whether it lives: its claim has expired, and it is of another place.
    attempts.record(claimed, datetime.now(UTC), run_id="silent", owner="elsewhere", expires_at=moment(0))
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert spared.exists() and not dead.exists()


def test_it_is_refused_while_the_source_has_such_rows_and_nothing_changes(
    own: Own, said: Callable[[], str]
) -> None:
    before = {table: own.stored(table) for table in (*COMPARED, "runs")}
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 2
    assert "still has" in (text := said()) and "DELETE FROM" in text
    assert {table: own.stored(table) for table in (*COMPARED, "runs")} == before


def test_a_run_without_it_is_refused_and_one_behind_it_is_not(own: Own, said: Callable[[], str]) -> None:
    delete_in_source(own)
    assert own("run", "own", "--to", day(4)) == 2
    assert "were changed or removed" in (text := said()) and "slackwater erase own" in text
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own("plan", "own") == 0
    assert "refused" not in said()
    assert own("run", "own", "--to", day(4)) == 0


def test_verify_says_what_was_erased_and_repeats_what_it_did_not_touch(
    own: Own, said: Callable[[], str]
) -> None:
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own("run", "own", "--to", day(4)) == own("run", "own", "--to", day(5)) == 0
    said()
    assert own("verify", "own", 2) == own("verify", "own", 4) == 2
    assert (
        "rows of it, or of the state before it, were erased: row 3 (" in (text := said()) and REASON in text
    )
    assert KEY not in text
    assert own("verify", "own", 5) == 0
    assert own("verify", "own", "--tables") == 0
    assert f"erased: {REASON}) took rows out: 23 of corrections, 2 of late_events, 25 of panes" in said()


def test_it_can_be_tried_first_and_done_twice(own: Own, capsys: pytest.CaptureFixture[str]) -> None:
    planned = {
        row["table"]: row["rows"] for row in own.json(capsys, "erase", "own", "--key", KEY, "--dry-run")
    }
    # Each day has 12 windows, of which one fires again; the last of the second day has not fired. One row a
    # day is too late, one has no time. What fires twice in one run is one correction. At the end of each day
    # two windows are parked, one with a timer for its cleanup, one with timers for its firing and its
    # cleanup.
    published = {"panes": 25, "published": 23, "corrections": 23}
    assert planned == {**published, "window_state": 4, "timers": 6, "late_events": 2, "quarantine": 2}
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    seq = head(own)["seq"]
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert head(own)["seq"] == seq


def test_one_that_dies_behind_its_commit_is_finished_by_the_next_command(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_in_source(own)

    def dies(self: RollForward, row: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(RollForward, "_erase", dies)
        own("erase", "own", "--key", KEY, "--reason", REASON)
    assert any(row["k"] == KEY for row in own.stored("published"))
    assert own("run", "own", "--to", day(4)) == own("verify", "own", "--tables") == 0
    assert not any(
        row["k"] == KEY
        for table in ("published", "panes", "window_state", "timers")
        for row in own.stored(table)
    )
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert files_that_name(own) == []


def test_what_was_staged_before_it_is_not_published_behind_it(own: Own, said: Callable[[], str]) -> None:
    assert own("run", "own", "--to", day(4), "--no-publish") == 0
    [staged] = [
        row["run_id"]
        for row in own.stored("attempts")
        if row["outcome"] == "staged" and row["slice_end"] == moment(72)
    ]
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own("publish", "own", staged) == 5
    assert own("run", "own", "--to", day(4)) == 0
    assert files_that_name(own) == []
    assert own("verify", "own", "--tables") == 0


def test_who_is_no_key_loses_late_and_unusable_rows(own: Own) -> None:
    DeltaTable(own.source).delete("x = 2000 OR x = 3000")
    assert own("erase", "own", "--column", "x=2000", "--column", "x=3000", "--reason", REASON) == 0
    assert own.stored("late_events") == [] and own.stored("quarantine") == []
    assert own("verify", "own", "--tables") == own("run", "own", "--to", day(4)) == 0
    assert own("erase", "own", "--column", "y=1", "--dry-run") == 2


def test_other_changes_of_the_source_stay_refused(own: Own) -> None:
    DeltaTable(own.source).update(updates={"x": "x + 1"}, predicate=f"k = '{OTHER}'")
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert own("run", "own", "--to", day(4)) == 2


def test_of_the_only_key_there_is_nothing_is_left_and_the_next_one_begins_with_no_state(
    tmp_path: Path,
) -> None:
    own = made(tmp_path / "own", "", KEY)
    assert own("run", "own", "--to", day(3)) == 0
    own.append(rows_of(OTHER)[2])
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == own("verify", "own", "--tables") == 0
    assert (
        own.stored("window_state")
        == own.stored("timers")
        == own.stored("panes")
        == own.stored("published")
        == []
    )
    assert (
        own("state", "restore", "own", 1)
        == own("run", "own", "--to", day(4))
        == own("verify", "own", "--tables")
        == 0
    )
    # Eleven windows of the last day fire, of which one was a late element's too; the twelfth is open.
    assert {row["k"] for row in own.stored("published")} == {OTHER} and len(own.stored("published")) == 11


def test_samples_and_errors_that_may_name_them_go(tmp_path: Path) -> None:
    own = made(tmp_path / "own", "expect=[expect.in_set('k', ['nobody'], severity='warn')]", KEY, OTHER)
    assert own("run", "own", "--to", day(3)) == 0
    samples = [row["sample_json"] for row in own.stored("validations") if row["sample_json"]]
    assert any(KEY in json.loads(sample) for sample in samples)
    delete_in_source(own)
    assert own("erase", "own", "--key", KEY, "--reason", REASON) == 0
    assert [row["sample_json"] for row in own.stored("validations")] == [None] * len(
        own.stored("validations")
    )
