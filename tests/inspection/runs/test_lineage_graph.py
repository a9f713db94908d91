"""The graph of a lineage: which runs count, which branch lies on which lane, what main took of it.

The ledgers are written by hand:

    main       ──1────2────3────4──         2 and 3 were restated by 6 and 7
    restate        ╰──6────7──╯  8 publishes it
    trial                  ╰──11            is open
"""

from datetime import UTC, datetime, timedelta

from slackwater.inspection.runs.lineage_graph import LineageGraph, Standing, lineage_graph
from slackwater.tables.ledger.rows import MAIN, LedgerRow, RowKind
from slackwater.tables.ledger.spans import spans_of

DAY = timedelta(days=1)
START = datetime(2013, 1, 1, tzinfo=UTC)


def row(seq: int, kind: RowKind, branch: str, live: list[int], days: tuple[int, int]) -> LedgerRow:
    return LedgerRow(
        seq=seq,
        run_id=f"r{seq}",
        kind=kind,
        branch=branch,
        parent_seq=None,
        live=spans_of(live),
        slice_start=START + days[0] * DAY,
        slice_end=START + days[1] * DAY,
    )


LEDGER = [
    row(1, RowKind.RUN, MAIN, [1], (0, 1)),
    row(2, RowKind.RUN, MAIN, [1, 2], (1, 2)),
    row(3, RowKind.RUN, MAIN, [1, 2, 3], (2, 3)),
    row(4, RowKind.RUN, MAIN, [1, 2, 3, 4], (3, 4)),
    row(5, RowKind.FORK, "restate", [1], (0, 1)),
    row(6, RowKind.RUN, "restate", [1, 6], (1, 2)),
    row(7, RowKind.RUN, "restate", [1, 6, 7], (2, 3)),
    row(8, RowKind.PUBLISH, MAIN, [1, 6, 7, 4], (1, 3)),
    row(9, RowKind.DROP, "restate", [], (0, 0)),
    row(10, RowKind.FORK, "trial", [1, 6, 7], (0, 3)),
    row(11, RowKind.RUN, "trial", [1, 6, 7, 11], (3, 4)),
]


def standings(graph: LineageGraph) -> dict[int, Standing]:
    return {run.row.seq: run.standing for run in graph.runs}


def test_runs_count_wait_or_are_obsolete() -> None:
    live, waiting, obsolete = Standing.LIVE, Standing.WAITING, Standing.OBSOLETE
    assert standings(lineage_graph(LEDGER)) == {
        1: live, 2: obsolete, 3: obsolete, 4: live, 6: live, 7: live, 11: waiting
    }  # fmt: skip


def test_branches_begin_and_end_where_their_runs_do() -> None:
    restate, trial = lineage_graph(LEDGER).branches
    assert (restate.name, restate.start, restate.end) == ("restate", START + DAY, START + 3 * DAY)
    assert restate.publications == (8,) and restate.is_dropped
    assert (trial.name, trial.start, trial.end) == ("trial", START + 3 * DAY, START + 4 * DAY)
    assert trial.publications == () and not trial.is_dropped


def test_branches_share_a_lane_unless_they_share_time() -> None:
    graph = lineage_graph(LEDGER)
    assert [branch.lane for branch in graph.branches] == [1, 1]
    early = row(12, RowKind.FORK, "early", [1, 6], (0, 2))
    run = row(13, RowKind.RUN, "early", [1, 6, 13], (2, 3))
    assert [branch.lane for branch in lineage_graph([*LEDGER, early, run]).branches] == [1, 1, 2]


def test_a_branch_whose_fork_is_not_among_the_rows_begins_with_its_first_run() -> None:
    restate, _ = lineage_graph(LEDGER[5:]).branches
    assert (restate.start, restate.end, restate.lane) == (START + DAY, START + 3 * DAY, 1)
