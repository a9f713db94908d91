"""A ledger of many rows and many live spans: what readers read of it, and how many files they open."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.views import LineageViews
from slackwater.runs.staging.stragglers import newer_reads_since, read_ranges
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.ledger.ledger_files import ledger_files
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.warehouse import Tables
from tests.benchmarks.ledger_rows import NAME, LongLedger
from tests.tables.ledger.ledger_rows import clock, ledger_folder, run_row

MANY_ROWS, MANY_RESTATEMENTS = 100_000, 5_000


@pytest.fixture(scope="module")
def long_ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[LongLedger, Tables]:
    ledger = LongLedger(
        tmp_path_factory.mktemp("long"), rows=MANY_ROWS, restatements=MANY_RESTATEMENTS, single_rows=20
    )
    return ledger, ledger.write()


@pytest.mark.slow
def test_every_way_to_read_works_at_ten_thousand_spans_and_a_hundred_thousand_rows(
    long_ledger: tuple[LongLedger, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, tables = long_ledger
    names_read: list[str] = []
    read = StoredFiles.read

    def recorded(self: StoredFiles, columns: Any, *arguments: Any) -> pa.Table:
        if self.uri == tables["runs"].uri:
            names_read.extend(columns)
        return read(self, columns, *arguments)

    monkeypatch.setattr(StoredFiles, "read", recorded)
    reader, head = tables.ledger, tables.ledger.head()
    assert head is not None and head.seq == MANY_ROWS and len(head.live) == 2 * MANY_RESTATEMENTS + 2
    seqs = seqs_of(head.live)
    assert len(seqs) == len(set(seqs)) == ledger.base_runs + 4

    live = reader.live_runs(head)
    assert [row.seq for row in live] == list(seqs)
    assert all(a.slice_end == b.slice_start for a, b in pairwise(live))
    assert reader.start_of(head) == ledger.start == live[0].slice_start
    assert reader.snapshot_owner(head) == head
    assert reader.last_runs(head, 3, ledger.end) == live[-3:]
    assert [row.seq for row in reader.live_runs(head, live[-3].slice_end)] == list(seqs[-2:])
    assert reader.live_values(head, "seq", "run_id") == [(row.seq, row.run_id) for row in live]

    assert reader.seqs_by_run_id()[live[77].run_id] == live[77].seq
    row_of_run_id = reader.by_run_id(live[77].run_id)
    assert row_of_run_id is not None and row_of_run_id.seq == live[77].seq
    assert [row.seq for row in reader.rows(MANY_ROWS - 50)] == list(range(MANY_ROWS - 49, MANY_ROWS + 1))
    assert len(reader.rows()) == MANY_ROWS
    assert reader.branches() == [] and reader.branch("restate-2") is None
    reads = reader.live_reads(head, f"sources/{NAME}")
    assert len(read_ranges(reads)) == len(seqs) and reads.column("to_ms").to_numpy()[-1] == int(
        ledger.end.timestamp() * 1000
    )
    assert newer_reads_since(reader, head, head, f"sources/{NAME}") == ()

    inspection = Inspection(NAME, tables)
    assert inspection.lineage_of(live[-2:]) == {row.seq: "main" for row in live[-2:]}
    assert inspection.branch_runs() == []
    with LineageViews.over(inspection, head) as views:
        counts = views.query("SELECT run_seq, count(*) AS n FROM panes_live GROUP BY ALL ORDER BY ALL")
        assert counts.column("run_seq").to_pylist() == list(range(MANY_ROWS - 3, MANY_ROWS + 1))
    # Of the large files nobody has read the spans, of which they have 75 million.
    assert "seq" in names_read and not {"live", "files", "phase_seconds"} & set(names_read)
    newest_rows = reader.newest_rows("main", 40, MANY_ROWS - 1)
    assert [row.last_live_seq for row in newest_rows] == [row.live[-1].last_seq for row in newest_rows]
    assert newest_rows[-1].seq == MANY_ROWS - 1 and len(newest_rows) == 40


@pytest.mark.slow
def test_the_writer_leaves_few_files_and_every_row(tmp_path: Path) -> None:
    writer = LedgerWriter(ledger_folder(tmp_path))
    committed, parent = [], None
    for number in range(140):
        [row] = writer.commit("main", parent, [run_row(f"r{number}", day_number=number)], clock)
        committed.append(row)
        parent = row.seq
    files = writer.folder.files()
    assert files.actions.num_rows < 20 and sum(map(len, ledger_files(files))) == 140
    assert writer.rows() == committed
    assert writer.live_runs(committed[-1]) == committed
    in_a_new_process = LedgerWriter(ledger_folder(tmp_path))
    assert in_a_new_process.rows() == committed


def test_a_row_reads_its_columns_when_they_are_asked_for(tmp_path: Path) -> None:
    """Rows equal those that were committed, column by column, and none has another column."""
    writer = LedgerWriter(ledger_folder(tmp_path))
    [row] = writer.commit("main", None, [run_row("r", files={"panes": ("a", "b")}, rows_late=3)], clock)
    [stored] = writer.rows()
    assert (stored.rows_late, stored.files, stored.live) == (3, {"panes": ("a", "b")}, row.live)
    assert stored.last_live_seq == row.last_live_seq == 1
    assert stored.values() == row.values() and stored == row
    with pytest.raises(AttributeError, match="no attribute 'rows_lost'"):
        _ = stored.rows_lost  # type: ignore[attr-defined]
    assert np.array(seqs_of(stored.live)).tolist() == [1]
