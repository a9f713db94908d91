"""The log says what a ledger row has changed: no row of `corrections` is read for it. Where it does not say
so, the rows are counted, and the answer is the same.

The expected sums are counted here from all corrections, row by row.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.inspection.inspection import Inspection
from slackwater.pipelines.sinks import START
from slackwater.runs.publishing.change_summary import FACT, ChangeSummary, change_summaries
from slackwater.runs.publishing.committed_corrections import CommittedCorrections
from slackwater.runs.publishing.corrections import Identity
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.branches import changed_by
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.warehouse import Tables
from tests.runs.lineages import KEYS, LATE_EVENING, histories
from tests.runs.rolling import commit_run, pane, roll_forward, write


def summaries(tables: Tables) -> dict[int, ChangeSummary]:
    return change_summaries(tables, tables.ledger.rows())


def row_by_row_sums(tables: Tables) -> dict[int, ChangeSummary]:
    """By seq, from the rows of `corrections`, one after the other."""
    sums = {row.seq: ChangeSummary() for row in tables.ledger.rows()}
    for row in tables["corrections"].read().to_pylist():
        end = row["window_end"]
        last_instant = None if end is None else end - timedelta(milliseconds=1)
        moment = row["window_start"] or last_instant or row["timestamp"]
        sums[row["seq"]].rows[row["op"], row["cause"]] += 1
        sums[row["seq"]].days.add(None if moment is None else moment.date())
    return sums


def forget_sums(tables: Tables) -> int:
    """Take the sums out of the log, as if an earlier version had made the commits; returns how many."""
    count = 0
    for path in Path(tables["corrections"].uri, "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        count += sum(action.get("commitInfo", {}).pop(FACT, None) is not None for action in actions)
        path.write_text("\n".join(map(json.dumps, actions)))
    return count


def remove_rows(tables: Tables) -> int:
    """Delete the data files of `corrections`; returns how many."""
    paths = list(Path(tables["corrections"].uri).glob("*.parquet"))
    for path in paths:
        path.unlink()
    return len(paths)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.sampled_from(list(Identity)), st.data())
def test_the_sums_are_those_of_the_rows_whether_the_log_says_them_or_not(
    identity: Identity, data: st.DataObject
) -> None:
    past = data.draw(histories(identity, most=3))
    with TemporaryDirectory() as root:
        rolling = replace(roll_forward(root, identity), portion_rows=data.draw(st.sampled_from([1, 1 << 20])))
        for row in past.rows:
            write(rolling.tables, row)
        rolling.finish()
        expected = row_by_row_sums(rolling.tables)
        assert summaries(rolling.tables) == expected
        assert forget_sums(rolling.tables) == sum(
            row.branch == "main" for row in rolling.tables.ledger.rows()
        )
        if data.draw(st.booleans()):
            TableUpkeep(rolling.tables["corrections"]).compact()
        assert summaries(rolling.tables) == expected


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    """Three runs: the first inserts windows of two days, the second changes one and inserts another, the
    third does nothing.
    """
    forward = roll_forward(tmp_path)
    next_day = LATE_EVENING + timedelta(days=1)
    commit_run(forward.tables, [pane(1), pane(1, key="b", start=next_day)])
    commit_run(forward.tables, [pane(2, "late", n=2), pane(1, key="b")])
    commit_run(forward.tables, [])
    forward.finish()
    return forward


def test_days_and_counts_are_said_without_a_row_of_corrections(rolling: RollForward) -> None:
    tables, expected = rolling.tables, row_by_row_sums(rolling.tables)
    first_day, second_day = LATE_EVENING.date(), LATE_EVENING.date() + timedelta(days=1)
    assert {seq: one.days for seq, one in expected.items()} == {
        1: {first_day, second_day}, 2: {first_day}, 3: set(),
    }  # fmt: skip
    assert remove_rows(tables) == 2
    assert summaries(tables) == expected
    assert Inspection("p", tables).touched_dates(tables.ledger.rows()) == {
        1: [f"{first_day}", f"{second_day}"], 2: [f"{first_day}"], 3: [],
    }  # fmt: skip
    assert changed_by(tables, 2) == "1 row inserted, 1 row updated in `published`, on 1 day."
    corrections = CommittedCorrections(tables, tuple(name for name, _ in KEYS))
    assert [corrections.rows_of(seq) for seq in (1, 2, 3)] == [2, 2, 0]
    assert corrections.rows_after(START) == 4


def test_where_the_bounds_of_a_file_decide_it_is_not_opened(tmp_path: Path) -> None:
    forward = roll_forward(tmp_path)
    commit_run(forward.tables, [pane(1), pane(1, key="b")])
    forward.finish()
    expected = row_by_row_sums(forward.tables)
    assert expected[1].rows == Counter({("insert", "first"): 2})
    assert forget_sums(forward.tables) == 1 == remove_rows(forward.tables)
    assert summaries(forward.tables) == expected


def test_rows_are_counted_some_at_a_time_and_by_the_columns_that_bounds_leave_open(
    tmp_path: Path,
) -> None:
    forward = roll_forward(tmp_path)
    starts = [LATE_EVENING + timedelta(days=number) for number in range(40)]
    commit_run(forward.tables, [pane(1, start=start) for start in starts])
    forward.finish()
    expected = row_by_row_sums(forward.tables)
    assert forget_sums(forward.tables) == 1
    scans: list[tuple[list[str], int]] = []
    with patch.object(StoredFiles, "scan", autospec=True, side_effect=recording(scans, rows_at_once=8)):
        assert summaries(forward.tables) == expected
    assert {tuple(columns) for columns, _ in scans} == {("window_start",)}
    assert max(rows for _, rows in scans) <= 8 and sum(rows for _, rows in scans) == 40


def recording(scans: list[tuple[list[str], int]], rows_at_once: int) -> Any:
    """A `StoredFiles.scan` of small tables that notes the columns and rows of each."""
    scan = StoredFiles.scan

    def scan_and_note(files: StoredFiles, columns: list[str], where: Any, most: int) -> Iterator[pa.Table]:
        for part in scan(files, columns, where, min(most, rows_at_once)):
            scans.append((columns, part.num_rows))
            yield part

    return scan_and_note


def test_a_sum_is_read_as_it_was_written() -> None:
    summary = ChangeSummary(Counter({("insert", "first"): 3}), {date(2013, 1, 1), None})
    assert ChangeSummary.from_facts(summary.to_facts()) == summary
    assert ChangeSummary.from_facts({}) is None
