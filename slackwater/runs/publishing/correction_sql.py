"""The SQL of corrections: two queries that compare live panes with the rows of `published`, and their
clauses.

Both read three tables: `log`, live panes with the column `RUN`; `touched_panes`, panes of the windows in
question; `published`, the rows as of the ledger row before. Knows columns by name only; `corrections` runs
the queries.
"""

from collections.abc import Sequence

SLOT = "__slot"
# Of a pane: the position of its run among the live ones. It decides which firing of a window is the newest,
# and the number of the firing only within a run: across runs numbers can't be compared, because a window may
# have begun again at 1.
RUN = "__run"
# Of a correction: seq of the correction that brought the row which is now withdrawn or updated; null for an
# insert.
BEFORE = "__before"
_COPY = "__copy"
# SQL for the kind of a firing, from which its cause follows. A firing that withdraws all rows of a window
# counts as late or on time if the window had elements; if it had none, the window was absorbed by a merge.
_FIRED_AS = """CASE WHEN coalesce(new.kind, old.__kind) = 'withdrawn' AND old.__has_elements
    THEN CASE WHEN old.__late THEN 'late' ELSE 'on_time' END ELSE coalesce(new.kind, old.__kind) END"""


def changes_of_windows(window: Sequence[str], results: Sequence[str], slot: str, cause: str | None) -> str:
    """SQL for the corrections of pipelines with windows: the newest live firing of each touched window and
    slot against the published rows.

    Rows of one slot (SQL for it is `slot`) replace each other. `cause` is that of every correction; None
    takes it from the kind of the firing.
    """
    compared_columns = [*results, "kind", "firing"]
    identifying = ", ".join(
        f"coalesce(new.{_quoted(name)}, old.{_quoted(name)}) AS {_quoted(name)}"
        for name in [*window, "ordinal", "timestamp"]
    )
    return f"""
        WITH touched AS (SELECT DISTINCT {column_list(window)}, {slot} AS {SLOT} FROM touched_panes),
        newest AS (
            SELECT panes.* FROM (SELECT *, {slot} AS {SLOT} FROM log) panes
            SEMI JOIN touched ON {is_same_row([*window, SLOT], "panes", "touched")}
            QUALIFY {is_newest([*window, SLOT])}
        ),
        new AS (SELECT * FROM newest WHERE kind <> 'withdrawn'),
        latest AS (SELECT {column_list([*window, SLOT])}, max(kind) AS __kind, max(firing) AS __firing,
            bool_or(cause_arrival IS NOT NULL
                AND watermark >= window_end - INTERVAL 1 MILLISECOND) AS __late,
            coalesce(max(elements) > 0, false) AS __has_elements
            FROM newest GROUP BY ALL),
        old AS (
            SELECT before.*, latest.* EXCLUDE ({column_list([*window, SLOT])})
                FROM (SELECT *, {slot} AS {SLOT} FROM published) before
            SEMI JOIN touched ON {is_same_row([*window, SLOT], "before", "touched")}
            LEFT JOIN latest ON {is_same_row([*window, SLOT], "before", "latest")}
        )
        SELECT coalesce(new.key_group, old.key_group) AS key_group, {identifying},
            coalesce(new.kind, old.__kind, old.kind) AS kind,
            coalesce(new.firing, old.__firing, old.firing) AS firing,
            coalesce(old.revision, 0) + 1 AS revision,
            CASE WHEN new.kind IS NULL THEN 'withdraw' WHEN old.kind IS NULL THEN 'insert' ELSE 'update'
                END AS op,
            {_cause(cause, _FIRED_AS)} AS cause,
            CASE WHEN old.kind IS NOT NULL THEN {_struct(results, "old")} END AS old,
            CASE WHEN new.kind IS NOT NULL THEN {_struct(results, "new")} END AS new,
            old.run_seq AS {BEFORE}
        FROM new FULL OUTER JOIN old ON {is_same_row([*window, "ordinal", SLOT], "new", "old")}
        WHERE new.kind IS NULL OR old.kind IS NULL OR NOT ({is_same_row(compared_columns, "new", "old")})
        ORDER BY {column_list([*window, "firing", "ordinal"])}
    """


def changes_of_runs(window: Sequence[str], results: Sequence[str], cause: str | None) -> str:
    """SQL for the corrections of process functions: the rows that live runs emitted for each touched key and
    timestamp against the rows that are published, as bags.

    Rows that are equal in all but `ordinal` are numbered as copies of each other, on both sides, so that a
    row stays as it is as often as both sides have it, whichever run emitted it. Where rows of several runs
    are inserted at once, their ordinals are counted through.
    """
    element = [*window, "timestamp"]
    # Not the kind: a row does not change by that.
    content = [*element, "firing", *results]
    return f"""
        WITH touched AS (SELECT DISTINCT {column_list(element)} FROM touched_panes),
        emitted AS (
            SELECT panes.*,
                row_number() OVER (PARTITION BY {column_list(content)} ORDER BY {RUN}, ordinal) AS {_COPY}
            FROM log panes SEMI JOIN touched ON {is_same_row(element, "panes", "touched")}
            WHERE panes.kind <> 'withdrawn'
        ),
        before AS (
            SELECT standing.*,
                row_number() OVER (PARTITION BY {column_list(content)} ORDER BY run_seq, ordinal) AS {_COPY}
            FROM published standing SEMI JOIN touched ON {is_same_row(element, "standing", "touched")}
        ),
        inserted AS (
            SELECT * FROM emitted ANTI JOIN before ON {is_same_row([*content, _COPY], "emitted", "before")}
        ),
        numbered AS (
            SELECT *, {RUN} <> min({RUN}) OVER (PARTITION BY {column_list(element)}) AS __of_several,
                row_number() OVER (PARTITION BY {column_list(element)} ORDER BY {RUN}, ordinal) - 1
                    AS __number
            FROM inserted
        ),
        withdrawn AS (
            SELECT * FROM before ANTI JOIN emitted ON {is_same_row([*content, _COPY], "before", "emitted")}
        )
        SELECT key_group, {column_list(window)},
            CASE WHEN bool_or(__of_several) OVER (PARTITION BY {column_list(element)}) THEN __number
                ELSE ordinal END AS ordinal,
            timestamp, kind, firing, 1 AS revision, 'insert' AS op, {_cause(cause, "kind")} AS cause,
            NULL AS old, {_struct(results, "numbered")} AS new, NULL AS {BEFORE}
        FROM numbered
        UNION ALL BY NAME
        SELECT key_group, {column_list([*window, "ordinal", "timestamp", "kind", "firing"])},
            revision + 1 AS revision, 'withdraw' AS op,
            {_cause(cause, "kind")} AS cause, {_struct(results, "withdrawn")} AS old, run_seq AS {BEFORE}
        FROM withdrawn
        ORDER BY {column_list([*element, "op", "ordinal"])}
    """


def is_newest(window: Sequence[str]) -> str:
    """SQL for whether a pane is of the newest firing among panes that are equal in `window`."""
    return f"(rank() OVER (PARTITION BY {column_list(window)} ORDER BY {RUN} DESC, firing DESC) = 1)"


def is_same_row(columns: Sequence[str], a: str, b: str) -> str:
    """SQL for whether the tables `a` and `b` are equal in `columns`; null equals null."""
    return " AND ".join(f"{a}.{_quoted(name)} IS NOT DISTINCT FROM {b}.{_quoted(name)}" for name in columns)


def column_list(columns: Sequence[str]) -> str:
    return ", ".join(map(_quoted, columns))


def _cause(cause: str | None, kind: str) -> str:
    if cause is not None:
        return f"'{cause}'"
    return f"CASE {kind} WHEN 'withdrawn' THEN 'merge' WHEN 'late' THEN 'late' ELSE 'first' END"


def _quoted(column: str) -> str:
    return f'"{column}"'


def _struct(columns: Sequence[str], table: str) -> str:
    fields = ", ".join(f"{_quoted(name)} := {table}.{_quoted(name)}" for name in columns)
    return f"struct_pack({fields})"
