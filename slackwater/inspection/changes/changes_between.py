"""What has changed in `published` between two rows of the ledger: for each row the first old and the last new
values, where they differ. Computed from the corrections between the two alone.
"""

from collections import Counter

from slackwater.errors import UsageError
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.sql import quoted

_MOMENTS = ("window_start", "window_end")
_MOMENT = "coalesce(window_start, window_end, timestamp)"


class NotOnMain(UsageError):
    """A row of a branch beside main, which has published nothing. Facts: seq, branch."""


def changes_between(
    inspection: Inspection,
    earlier: LedgerRow,
    later: LedgerRow,
    *,
    purges: bool,
    limit: int | None,
    offset: int = 0,
) -> PublishedChanges:
    """The rows of `published` that differ as of two rows of main, in order of window and key: `limit` of them
    (None: all) after the first `offset`. `purges`: whether the trigger purges, so that firings of a window
    are published side by side. Raises NotOnMain: one of the rows is on another branch.
    """
    for row in (earlier, later):
        if row.branch != MAIN:
            raise NotOnMain(
                f"run {row.seq} is on the branch {row.branch} and has published nothing; compare main with "
                "that branch instead.",
                seq=row.seq,
                branch=row.branch,
            )
    keys, windows = inspection.key_columns(), inspection.window_columns()
    net = _net_changes([*keys, *windows], purges=purges, has_own_windows=len(windows) > len(_MOMENTS))
    seqs = [earlier.seq, later.seq]
    bound = "" if limit is None else f"LIMIT {limit} OFFSET {offset}"
    order = ", ".join(map(quoted, [*keys, *windows, "timestamp", "firing", "ordinal"]))
    with LineageViews.over(inspection, inspection.run(None)) as views:
        counts = views.query(
            f"SELECT op, CAST({_MOMENT} AS DATE) AS day, count(*) AS n FROM ({net}) GROUP BY ALL", seqs
        ).to_pylist()
        rows = python_rows(views.query(f"SELECT * FROM ({net}) ORDER BY {_MOMENT}, {order} {bound}", seqs))
    by_op = Counter[str]()
    for count in counts:
        by_op[count["op"]] += count["n"]
    new = inspection.tables["corrections"].schema.field("new").type
    return PublishedChanges(
        counts=by_op,
        days=len({count["day"] for count in counts}),
        keys=tuple(keys),
        windows=tuple(windows),
        results=tuple(field.name for field in new.fields),
        rows=rows,
    )


def _net_changes(window: list[str], *, purges: bool, has_own_windows: bool) -> str:
    """SQL for a row for each row of `published` that the corrections between two seqs changed in the end."""
    slot = (
        "firing" if purges else "0" if has_own_windows else "CASE WHEN window_start IS NULL THEN firing END"
    )
    names = ", ".join(map(quoted, window))
    return f"""
        SELECT * EXCLUDE (__slot),
            CASE WHEN old IS NULL THEN 'insert' WHEN new IS NULL THEN 'withdraw' ELSE 'update' END AS op
        FROM (
            SELECT {names}, timestamp, ordinal, {slot} AS __slot,
                arg_min(struct_pack(old := old), seq).old AS old,
                arg_max(struct_pack(new := new), seq).new AS new,
                arg_max(kind, seq) AS kind, arg_max(firing, seq) AS firing, arg_max(cause, seq) AS cause,
                count(*) AS changes
            FROM corrections WHERE seq > ? AND seq <= ? GROUP BY {names}, timestamp, ordinal, __slot
        )
        WHERE old IS DISTINCT FROM new
    """
