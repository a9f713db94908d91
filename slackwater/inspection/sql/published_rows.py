"""SQL for the rows of `published` as of an earlier ledger row, from `published` as it is and `corrections`.

A row that no later correction has touched is still there, with the seq of its last correction in `run_seq`. A
window whose rows were updated or withdrawn since is rebuilt from all of its corrections up to then. Two rules
say which of these count; the corrections themselves show which rule is the pipeline's:

- Where a trigger purges, each firing has rows of its own, and a correction replaces the one before it of the
same firing. So does a row of a process function: its corrections have one run_id.
- Otherwise a correction replaces the one before it of the same window, whichever firing that was of.

Under the first rule every firing begins with an insert, and only an insert follows a withdrawal. A window
that keeps to this has the same rows by either rule.
"""

from collections.abc import Sequence

from slackwater.tables.sql import quoted

# SQL for the day of a row of `published`: of its window's start, else of the window's last instant, else of
# its timestamp.
DAY_OF_ROW = "coalesce(window_start, window_end - INTERVAL 1 MILLISECOND, timestamp)::DATE"


def published_at(
    seq: int,
    published_seq: int,
    *,
    published_view: str,
    columns: Sequence[str],
    window: Sequence[str],
    results: Sequence[str],
) -> str:
    """SQL for the rows of `published` as of the ledger row `seq`.

    Args:
        published_seq: the seq up to which `published` was rolled forward.
        published_view, columns: SQL for the view of `published` as it is, and its columns.
        window: the columns of key and window.
        results: the result columns that corrections have.
    """
    identity = list(map(quoted, [*window, "timestamp", "ordinal"]))
    row = ", ".join(identity)
    is_same_row = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in identity)
    firing = f"{row}, firing, CASE WHEN timestamp IS NULL THEN '' ELSE run_id END"
    values = {name: f'"new".{quoted(name)}' for name in results}
    values |= {"run_seq": "seq", "window_date": DAY_OF_ROW}
    corrected_columns = ", ".join(f"{values.get(name, quoted(name))} AS {quoted(name)}" for name in columns)
    return f"""
        WITH touched AS (
            SELECT DISTINCT {row} FROM corrections
            WHERE seq > {seq} AND seq <= {published_seq} AND op <> 'insert'
        ),
        history AS (
            SELECT *, lag(op) OVER by_firing AS __op_before, lead(seq) OVER by_firing AS __next_of_firing,
                lead(seq) OVER by_row AS __next_of_row
            FROM corrections a SEMI JOIN touched b ON {is_same_row}
            WHERE seq <= {seq}
            WINDOW by_firing AS (PARTITION BY {firing} ORDER BY seq),
                by_row AS (PARTITION BY {row} ORDER BY seq)
        ),
        judged AS (
            SELECT *, bool_and((op = 'insert') = (coalesce(__op_before, 'withdraw') = 'withdraw'))
                OVER (PARTITION BY {row}) AS __is_by_firing
            FROM history
        )
        SELECT {", ".join(map(quoted, columns))}
        FROM {published_view} a ANTI JOIN touched b ON {is_same_row}
        WHERE run_seq <= {seq}
        UNION ALL
        SELECT {corrected_columns} FROM judged
        WHERE op <> 'withdraw'
            AND CASE WHEN __is_by_firing THEN __next_of_firing ELSE __next_of_row END IS NULL
    """
