"""Ledger rows and their panes as publishing leaves them, for tests of what rolls them forward. No assertions
on what becomes of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.tables.delta.clustering import Clustering
from slackwater.tables.ledger.lineage_rows import fork_row, publish_row, restore_row
from slackwater.tables.ledger.rows import MAIN
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import Tables, Warehouse
from tests.runs.lineages import GROUPS, HOUR, KEYS, LATE_EVENING, RESULTS, Row
from tests.runs.published_model import PaneRow
from tests.runs.tables_of_panes import pane_values
from tests.tables.ledger.ledger_rows import clock, day, run_row

SHAPE = Shape(keys=KEYS, results=RESULTS, parts=(), source=())


def roll_forward(root: str | Path, identity: Identity = Identity.WINDOW, shape: Shape = SHAPE) -> RollForward:
    return RollForward(Warehouse(str(root)).tables("p", shape), Publication(shape, identity))


def with_file_rows(rolling: RollForward, file_rows: int) -> RollForward:
    """`rolling`, with `published` in files of about so many rows."""
    folders = dict(rolling.tables.folders)
    folders["published"] = replace(folders["published"], clustering=Clustering("key_group", file_rows))
    return replace(rolling, tables=Tables(folders))


def commit_run(tables: Tables, panes: Sequence[PaneRow], branch: str = "main") -> None:
    """Stage the panes of one run and bind it to the next seq, as publishing does."""
    ledger = LedgerWriter(tables["runs"])
    head = ledger.head(branch)
    run_id = f"r{len(ledger.rows()) + 1}"
    empty = {**dict.fromkeys(tables["panes"].schema.names), "run_id": run_id}
    rows = [{**empty, **pane_values(pane, SHAPE.result_names)} for pane in panes]
    if rows:
        tables["panes"].append(pa.Table.from_pylist(rows, schema=tables["panes"].schema))
    ledger.commit(branch, None if head is None else head.seq, [run_row(run_id, branch=branch)], clock)


def pane(
    firing: int,
    kind: str = "on_time",
    n: int = 1,
    *,
    key: str = "a",
    ordinal: int = 0,
    start: datetime | None = LATE_EVENING,
) -> PaneRow:
    results = (None, None) if kind == "withdrawn" else (n, 0.5)
    return PaneRow(
        GROUPS[key], (key, 1, start, None if start is None else start + HOUR), firing, ordinal, kind, results
    )


def write(tables: Tables, row: Row) -> None:
    """A row of a history as the ledger has it, with its panes; its seq and its live runs are those of the
    history.
    """
    ledger = LedgerWriter(tables["runs"])
    main = ledger.head()
    if row.kind == "run":
        commit_run(tables, row.panes, row.branch)
    elif main is not None and row.kind == "fork":
        owner = ledger.row(row.live[-1]) if row.live else None
        ledger.commit(row.branch, None, [fork_row(row.branch, main, owner, ledger.start_of(main))], clock)
    elif main is not None and row.kind == "publish":
        branch = ledger.branches()[-1]
        ledger.commit(
            MAIN,
            main.seq,
            [publish_row(main, branch, ledger.row(row.live[-1]), (day(0), day(1)), row.resume_from)],
            clock,
        )
    elif main is not None and row.to is not None:
        to = ledger.row(row.to)
        ledger.commit(
            MAIN, main.seq, [restore_row(main, to, ledger.snapshot_owner(to), ledger.start_of(to))], clock
        )
    written = ledger.row(row.seq)
    assert (written.kind, written.branch, seqs_of(written.live)) == (row.kind, row.branch, row.live)
