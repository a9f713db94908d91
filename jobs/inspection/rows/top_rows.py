"""Reads the first rows of a view, and counts all: what a verb or a page shows of a table that may be large.

DuckDB keeps no more rows than are wanted, and reads only the row groups of a key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.jobs.inspection.sql.views import LineageViews
from slackwater.jobs.tables.file_relations import quoted


@dataclass(frozen=True)
class TopRows:
    """The first rows of a table, and how many it has."""

    rows: list[dict[str, Any]]
    total: int


def top_rows(
    views: LineageViews,
    view: str,
    order: Sequence[str],
    *,
    limit: int | None,
    key: str | None = None,
    run_seq: int | None = None,
) -> TopRows:
    """The first `limit` rows (None: all) of `view`, ordered by the columns `order`, nulls first; with `key`
    or `run_seq` only those of one key or run.

    Raises:
        NotAKey: `key` names none.
        SnapshotGone, DamagedFile: the files of the view can't be read.
    """
    conditions: list[str] = []
    parameters: list[Any] = []
    if key is not None:
        condition, parameters = views.condition_on_key(key)
        conditions.append(condition)
    if run_seq is not None:
        conditions.append("run_seq = ?")
        parameters = [*parameters, run_seq]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = ", ".join(f"{quoted(name)} NULLS FIRST" for name in order)
    end = "" if limit is None else f"LIMIT {limit}"
    rows = views.query(
        f"SELECT * FROM {quoted(view)} {where} ORDER BY {columns} {end}", parameters
    ).to_pylist()
    if limit is None or len(rows) < limit:
        return TopRows(rows, len(rows))
    count = views.query(f"SELECT count(*) AS n FROM {quoted(view)} {where}", parameters)
    return TopRows(rows, count.column("n")[0].as_py())
