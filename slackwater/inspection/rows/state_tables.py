"""The tables of parked, late and unusable rows: which view, by which time, in which order and columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.inspection.rows.row_pages import PagedView
from slackwater.inspection.sql.views import LineageViews

# Columns that few readers want, or that are null for most pipelines: left out where all rows shown are null.
OPTIONAL_COLUMNS = frozenset(
    [
        "state_window_start",
        "state_window_end",
        "next_firing",
        "last_fired_at",
        "contents",
        "trigger_state",
        "user_state",
        "map_key",
        "namespace_start",
        "namespace_end",
        "value_json",
        "column_name",
        "source_file",
        "source_version",
    ]
)


@dataclass(frozen=True, kw_only=True)
class StateTable:
    """One of these tables, by its name in commands and URLs. Filters by time are about `time_column` (None:
    none); `last_columns` order rows after time and key; `first_columns` are looked at first, beside key and
    window.
    """

    name: str
    title: str
    meaning: str
    view: str
    time_column: str | None
    last_columns: tuple[str, ...] = ()
    is_newest_first: bool = False
    first_columns: tuple[str, ...] = ()

    def paged_view(self, views: LineageViews) -> PagedView:
        present = views.schema(self.view).names
        time = () if self.time_column is None else (self.time_column,)
        keys, window = views.inspection.key_columns(), views.inspection.window_columns()
        order = dict.fromkeys((*time, *keys, *window, *self.last_columns))
        columns = tuple(name for name in order if name in present)
        return PagedView(views, self.view, columns, self.is_newest_first)

    def columns(self, views: LineageViews) -> Sequence[str]:
        present = views.schema(self.view).names
        keys, window = views.inspection.key_columns(), views.inspection.window_columns()
        order = dict.fromkeys((*keys, *window, *self.first_columns, *present))
        order.pop("key_group", None)
        return [name for name in (*order, "key_group") if name in present]


STATE_TABLES = {
    table.name: table
    for table in (
        StateTable(
            name="windows",
            title="Open windows",
            meaning="Windows that may still take rows, with what they hold.",
            view="windows_now",
            time_column="window_start",
            first_columns=("elements", "firings", "next_firing", "cleanup_time", "last_arrival"),
        ),
        StateTable(
            name="timers",
            title="Timers",
            meaning="When windows and functions act next.",
            view="timers_now",
            time_column="time",
            last_columns=("service", "domain", "purpose"),
            first_columns=("time", "purpose"),
        ),
        StateTable(
            name="keyed",
            title="Keyed state",
            meaning="What functions keep for each key beside its windows.",
            view="keyed_now",
            time_column=None,
            last_columns=("state_name", "namespace_start", "namespace_end", "map_key"),
            first_columns=("state_name", "map_key"),
        ),
        StateTable(
            name="late",
            title="Late rows",
            meaning="Rows that came after all of their windows were cleaned up, newest arrivals first.",
            view="late_live",
            time_column="arrival_time",
            last_columns=("event_time", "run_seq"),
            is_newest_first=True,
            first_columns=("event_time", "arrival_time", "late_by_ms", "windows", "watermark", "run_seq"),
        ),
        StateTable(
            name="quarantine",
            title="Quarantine",
            meaning="Rows that can’t be used, and why, newest arrivals first.",
            view="quarantine_live",
            time_column="arrival_time",
            last_columns=("run_seq", "reason_code", "row_json"),
            is_newest_first=True,
            first_columns=("reason_code", "reason", "arrival_time", "run_seq", "column_name", "row_json"),
        ),
    )
}
