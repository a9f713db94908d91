"""A ledger that is written without its runs holds what the product would have committed, and every verb of
the benchmark answers on it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.tables.ledger.lineage_rows import drop_row, fork_row, publish_row
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.tables.ledger.spans import Spans
from slackwater.tables.ledger.writer import bind_rows
from tests.benchmarks.ledger_rows import REAL_RUNS, LongLedger
from tests.benchmarks.long_ledger import main, verbs
from tests.tables.ledger.ledger_rows import clock, run_row

ROWS, RESTATEMENTS = 80, 7

# seq, kind, branch, parent and live spans of a row.
Facts = tuple[int, str, str, int | None, Spans]


def facts_of(row: LedgerRow) -> Facts:
    return row.seq, row.kind, row.branch, row.parent_seq, row.live


def rows_of_the_product(ledger: LongLedger) -> Iterator[LedgerRow]:
    """The rows that runs and restatements of single slices commit, one after the other."""
    main_rows = bind_rows(MAIN, [run_row("base")] * ledger.base_runs, None, 0, clock())
    yield from main_rows
    head, runs = main_rows[-1], {row.seq: row for row in main_rows}
    newest = head.seq
    for number in range(RESTATEMENTS):
        seq = 2 + number * ((ledger.base_runs - 2) // RESTATEMENTS)
        name = f"restate-{seq}"
        owner = runs[seq - 1]
        [fork] = bind_rows(name, [fork_row(name, head, owner, clock())], None, newest, clock())
        [run] = bind_rows(name, [run_row("again")], fork, newest + 1, clock())
        branch = Branch(fork, run)
        publication = publish_row(head, branch, runs[ledger.base_runs], (clock(), clock()), seq + 1)
        [head] = bind_rows(MAIN, [publication], head, newest + 2, clock())
        [drop] = bind_rows(name, [drop_row(branch)], run, newest + 3, clock())
        newest = drop.seq
        yield from (fork, run, head, drop)
    yield from bind_rows(MAIN, [run_row("real")] * REAL_RUNS, head, newest, clock())


def test_the_rows_are_those_that_the_product_commits(tmp_path: Path) -> None:
    ledger = LongLedger(tmp_path, rows=ROWS, restatements=RESTATEMENTS, single_rows=10)
    tables = ledger.write()
    rows = tables.ledger.rows()
    assert list(map(facts_of, rows)) == list(map(facts_of, rows_of_the_product(ledger)))
    assert len(rows[-1].live) == ledger.live_spans == 2 * RESTATEMENTS + 2
    live = tables.ledger.live_runs(rows[-1])
    assert [row.slice_end for row in live[:-1]] == [row.slice_start for row in live[1:]]
    assert (live[0].slice_start, live[-1].slice_end) == (ledger.start, ledger.end)
    [next_row] = [ledger.run(1)]
    assert (next_row.seq, next_row.verdict, next_row.live[-1].last_seq) == (ROWS + 1, "passed", ROWS + 1)


@pytest.mark.slow
def test_every_verb_answers_and_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--warehouse", str(tmp_path), "--rows", str(ROWS), "--restatements", str(RESTATEMENTS))
    main([*where, "--output", "json"])
    costs = json.loads(capsys.readouterr().out)
    assert [cost["verb"] for cost in costs] == list(verbs(LongLedger(tmp_path, ROWS, RESTATEMENTS)))
    assert all(cost["cpu_seconds"] > 0 and cost["memory_mb"] > 0 for cost in costs)
