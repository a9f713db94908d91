"""The columns of the tables that hold a pipeline's own columns, as texts: declarations refuse their names,
and `slackwater.tables.schemas` makes Arrow types of them. Standard library only.

In capitals stands what a pipeline adds: its KEYS, the columns that its class of WINDOWS declares, its
RESULTS, the other columns of its SOURCE, the columns of a SIDE output. `result` is a struct of all results,
`windows` a list of windows.
"""

from collections.abc import Iterator

PANES = """
    run_id string, key_group int, KEYS, window_start timestamp, window_end timestamp, WINDOWS, firing long,
    ordinal long, timestamp timestamp, kind string, RESULTS, elements long, watermark timestamp,
    tick_end timestamp, cause_arrival timestamp
"""
LATE_EVENTS = """
    run_id string, key_group int, KEYS, SOURCE, event_time timestamp, arrival_time timestamp, windows windows,
    late_by_ms long, watermark timestamp
"""
PUBLISHED = """
    KEYS, window_start timestamp, window_end timestamp, WINDOWS, RESULTS, kind string, firing long,
    ordinal long, timestamp timestamp, revision long, run_seq long, key_group int, window_date date
"""
CORRECTIONS = """
    seq long, run_id string, key_group int, KEYS, window_start timestamp, window_end timestamp, WINDOWS,
    ordinal long, timestamp timestamp, kind string, firing long, revision long, op string, cause string,
    old result, new result, at timestamp
"""
SIDE_OUTPUT = """
    run_id string, key_group int, KEYS, window_start timestamp, window_end timestamp, WINDOWS, firing long,
    ordinal long, timestamp timestamp, SIDE
"""
# The snapshot's tables beside keys, accumulators and declared states; their types are those of
# slackwater.windowing.snapshot.columns.
SNAPSHOT_NAMES = frozenset(
    [
        "run_id",
        "key_group",
        "window_start",
        "window_end",
        "state_window_start",
        "state_window_end",
        "elements",
        "firings",
        "last_fired_at",
        "next_firing",
        "cleanup_time",
        "first_arrival",
        "last_arrival",
        "contents",
        "trigger_state",
        "user_state",
        "state_name",
        "namespace_start",
        "namespace_end",
        "map_key",
        "value_json",
        "service",
        "domain",
        "time",
        "purpose",
    ]
)


def columns_of(table: str) -> Iterator[tuple[str, str]]:
    """(name, type) of each column of one of the texts above; what a pipeline adds has no type."""
    for column in table.split(","):
        name, _, kind = column.strip().partition(" ")
        yield name, kind


# No key or result can have one of these names.
RESERVED_NAMES = SNAPSHOT_NAMES | {
    name
    for table in (PANES, LATE_EVENTS, PUBLISHED, CORRECTIONS, SIDE_OUTPUT)
    for name, kind in columns_of(table)
    if kind
}
