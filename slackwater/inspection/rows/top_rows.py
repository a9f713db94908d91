"""Reads the first rows of a view, and counts all. DuckDB keeps no more rows than are wanted, and reads only
the row groups of a key. Where rows are in the order of runs, only runs with the first rows are read.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from slackwater.inspection.sql.view_sources import RUN_SEQ
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.spans import seqs_of, spans_of
from slackwater.tables.sql import quoted


@dataclass(frozen=True)
class TopRows:
    rows: list[dict[str, Any]]
    total: int


def top_rows(
    views: LineageViews,
    view: str,
    order: Sequence[str],
    *,
    limit: int | None,
    run_seq: int | None = None,
) -> TopRows:
    """The first `limit` rows (None: all) of `view`, ordered by the columns `order`, nulls first: of the key
    of `views`, where these have one, and of one run with `run_seq`.
    """
    conditions: list[str] = []
    parameters: list[Any] = []
    if views.key is not None:
        condition, parameters = views.condition_on_key(views.key)
        conditions.append(condition)
    if run_seq is not None:
        conditions.append("run_seq = ?")
        parameters = [*parameters, run_seq]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = ", ".join(f"{quoted(name)} NULLS FIRST" for name in order)
    end = "" if limit is None else f"LIMIT {limit}"
    select = f"SELECT * FROM {quoted(view)} {where} ORDER BY {columns} {end}"
    if order[0] == RUN_SEQ and limit is not None:
        by_run = f"SELECT run_seq, count(*) AS n FROM {quoted(view)} {where} GROUP BY ALL ORDER BY ALL"
        seqs, counts = (column.to_pylist() for column in views.query(by_run, parameters).columns)
        first_seqs = seqs[: bisect_left(list(accumulate(counts)), limit) + 1]
        with _of_runs(views, first_seqs) as views_of_first_runs:
            rows = python_rows(views_of_first_runs.query(select, parameters))
        return TopRows(rows, sum(counts))
    rows = python_rows(views.query(select, parameters))
    if limit is None or len(rows) < limit:
        return TopRows(rows, len(rows))
    count = views.query(f"SELECT count(*) AS n FROM {quoted(view)} {where}", parameters)
    return TopRows(rows, count.column("n")[0].as_py())


def _of_runs(views: LineageViews, seqs: Sequence[int]) -> LineageViews:
    """The same views as if only `seqs` were live, so that no files of other runs are read."""
    live = [seq for seq in seqs_of(views.row.live) if seq in set(seqs)]
    return LineageViews.over(views.inspection, replace(views.row, live=spans_of(live)), views.key)
