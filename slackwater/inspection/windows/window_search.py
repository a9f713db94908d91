"""Finds the window that a person names by its key and its start, in the snapshot, among the firings and among
the windows that late rows missed; or says which windows are near.

Windows that merge are named by any instant within them: a session that was absorbed is found as the one that
holds it now.

    published     [10:00 ── 11:00)        [11:40 ── 12:40)
    a late row                [10:50 ── 11:50)
    open          [10:00 ──────────────────────── 12:40)      named by 10:00 as well as by 11:40

Of cumulative windows, several of which begin together, the end tells which one is meant.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import islice
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UsageError
from slackwater.inspection.windows.lineage_as_of import LineageAsOf, live_rows
from slackwater.pipelines.window_columns import all_columns, identifying_columns
from slackwater.readable import key_text, plain_text, time_text
from slackwater.tables.arrow_values import python_rows, python_values
from slackwater.tables.delta.stored_files import Within
from slackwater.windowing.assigners.assigner import MergingWindowAssigner
from slackwater.windowing.times import to_datetime

_NEAREST = 5
# Days of `published` that are searched for near windows, on both sides, one range after the other.
_RANGES_OF_DAYS = (1, 7, 60)
_NEAR_KEYS, _KEYS_COMPARED = 3, 100_000
_DAY = timedelta(days=1)
# So many snapshots are searched for a window that has left no other trace.
_SNAPSHOTS_LOOKED_AT = 12

WindowColumns = Mapping[str, Any]


class NoSuchWindow(UsageError):
    """The pipeline has never had the window. Facts: nearest, windows of the key by their columns."""

    nearest: Sequence[WindowColumns]


class SeveralWindows(UsageError):
    """A name that several windows have. Facts: windows, by their columns."""

    windows: Sequence[WindowColumns]


@dataclass(frozen=True)
class WindowName:
    """How a person names a window.

    Attributes:
        instant: its start; of windows that merge any instant in it; of windows without a start their end.
            None for the global window.
        columns: columns that a class of windows of their own declares, and `window_end`, which tells apart
            windows that begin together → value as text.
    """

    instant: datetime | None
    columns: Mapping[str, str]

    def __str__(self) -> str:
        texts = [] if self.instant is None else [time_text(self.instant)]
        return " ".join([*texts, *(f"{name}={plain_text(value)}" for name, value in self.columns.items())])


def merges(lineage: LineageAsOf) -> bool:
    return isinstance(lineage.pipeline.window, MergingWindowAssigner)


def condition_of(window: WindowColumns) -> tuple[pc.Expression, tuple[Within, ...]]:
    """The condition that a row is of exactly this window, and the bounds of such rows."""
    conditions = [
        pc.field(name).is_null() if value is None else pc.field(name) == pa.scalar(value)
        for name, value in window.items()
    ]
    bounds = [Within.only(name, value) for name, value in window.items() if isinstance(value, datetime)]
    return reduce(and_, conditions), tuple(bounds)


def condition_within(window: WindowColumns) -> tuple[pc.Expression, tuple[Within, ...]]:
    """The condition that a row is of this window or of one that it covers, and the bounds of such rows."""
    start, end = window["window_start"], window["window_end"]
    others = [pc.field(name) == pa.scalar(value) for name, value in window.items() if name not in BOUNDS]
    condition = (pc.field("window_start") >= start) & (pc.field("window_end") <= end)
    return reduce(and_, others, condition), (
        Within("window_start", start, end),
        Within("window_end", start, end),
    )


_END = "window_end"
BOUNDS = frozenset({"window_start", _END})


def find_window(lineage: LineageAsOf, name: WindowName) -> dict[str, Any]:
    """The columns of the window that `name` names. Raises NoSuchWindow, with the nearest of the key or near
    keys; UsageError: several windows have this name, or it does not suit the pipeline's windows.
    """
    _check_name(lineage, name)
    condition, bounds = _condition_of_name(lineage, name)
    columns = list(lineage.window_columns)
    open_windows = lineage.key_rows.parked_rows("window_state", lineage.owner, condition, columns)
    panes = lineage.key_rows.read("panes", condition, *bounds, columns=["run_id", *columns, "kind", "firing"])
    firings = live_rows(lineage, panes)
    searches: tuple[Iterator[dict[str, Any]], ...] = (
        _windows_in(python_rows(open_windows), columns),
        _windows_in([row for row in firings if row["kind"] != "withdrawn"], columns),
        _windows_in(firings, columns),
        _windows_in([row for row in python_rows(panes) if _was_committed(lineage, row)], columns),
        _missed_windows(lineage, name),
        _windows_of_earlier_snapshots(lineage, condition, name.instant),
    )
    for windows in searches:
        distinct_windows = list({tuple(window.values()): window for window in windows}.values())
        if distinct_windows:
            return _widest(distinct_windows) if merges(lineage) else _only(lineage, name, distinct_windows)
    raise _no_such_window(lineage, name)


def _was_committed(lineage: LineageAsOf, row: Mapping[str, Any]) -> bool:
    run = lineage.run_of(row["run_id"])
    return run is not None and run.seq <= lineage.last_seq


def _check_name(lineage: LineageAsOf, name: WindowName) -> None:
    pipeline = lineage.pipeline
    identifying = identifying_columns(pipeline)
    is_named_by_instant = bool(BOUNDS & set(identifying))
    if name.instant is None and is_named_by_instant:
        raise UsageError(
            f"{pipeline.name}: name the window with --window and its "
            f"{'start' if 'window_start' in identifying else 'end'}, for example --window 2013-01-02T06:00."
        )
    if name.instant is not None and not identifying:
        raise UsageError(
            f"{pipeline.name}: its windows have no bounds: a key has one window for all time. Leave --window "
            "out."
        )
    columns = [column for column in all_columns(pipeline) if column not in BOUNDS]
    if set(identifying) >= BOUNDS and not merges(lineage):
        columns.append(_END)
    unknown = [column for column in name.columns if column not in columns]
    if unknown:
        raise UsageError(
            f"{pipeline.name}: --column {unknown[0]}: its windows have "
            f"{', '.join(columns) if columns else 'no columns beside their bounds'}."
        )


def _condition_of_name(
    lineage: LineageAsOf, name: WindowName
) -> tuple[pc.Expression | None, tuple[Within, ...]]:
    instant = name.instant
    conditions = [pc.field(column) == value for column, value in _values_of_columns(lineage, name).items()]
    bounds: tuple[Within, ...] = ()
    if instant is not None:
        start, end = pc.field("window_start"), pc.field("window_end")
        has_start = "window_start" in identifying_columns(lineage.pipeline)
        if has_start and merges(lineage):
            conditions.append((start <= instant) & (end > instant))
            bounds = (Within("window_start", None, instant), Within("window_end", instant, None))
        else:
            conditions.append((start if has_start else end) == instant)
            bounds = (Within.only("window_start" if has_start else "window_end", instant),)
    return (reduce(and_, conditions) if conditions else None), bounds


def _values_of_columns(lineage: LineageAsOf, name: WindowName) -> dict[str, pa.Scalar]:
    schema = lineage.tables["panes"].schema
    values = {
        column: pa.scalar(text).cast(schema.field(column).type)
        for column, text in name.columns.items()
        if column != _END
    }
    if _END in name.columns:
        text = name.columns[_END]
        try:
            end = datetime.fromisoformat(text)
        except ValueError as error:
            raise UsageError(
                f"{lineage.pipeline.name}: --column {_END}: {text!r} is not an ISO 8601 time, e.g. "
                "2013-01-02T06:00Z."
            ) from error
        values[_END] = pa.scalar(end if end.tzinfo else end.replace(tzinfo=UTC), schema.field(_END).type)
    return values


def _windows_in(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {name: row[name] for name in columns}


def _missed_windows(lineage: LineageAsOf, name: WindowName) -> Iterator[dict[str, Any]]:
    reach = late_reach(lineage, name.instant, name.instant)
    rows = lineage.key_rows.read("late_events", *reach, columns=["run_id", "windows"])
    for row in live_rows(lineage, rows):
        for window in as_columns(row["windows"]):
            if _has_name(lineage, window, name):
                yield window


def late_reach(
    lineage: LineageAsOf, start: datetime | None, end: datetime | None
) -> tuple[pc.Expression | None, *tuple[Within, ...]]:
    """The condition and the bounds of late rows that may have missed a window between two instants."""
    window = lineage.pipeline.windows
    size_ms = window.session_gap_ms or getattr(window.grid, "size_ms", None)
    if start is None or end is None or size_ms is None:
        return (None,)
    size = timedelta(milliseconds=size_ms)
    event_time = pc.field("event_time")
    return (
        (event_time > start - size) & (event_time < end + size),
        Within("event_time", start - size, end + size),
    )


def as_columns(windows: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Windows of a late row, with the column names of other tables."""
    names = {"start": "window_start", "end": "window_end"}
    return [{names.get(name, name): value for name, value in window.items()} for window in windows or ()]


def _has_name(lineage: LineageAsOf, window: WindowColumns, name: WindowName) -> bool:
    start, end, instant = window["window_start"], window["window_end"], name.instant
    values = _values_of_columns(lineage, name)
    if any(window[column] != value.as_py() for column, value in values.items()):
        return False
    if instant is None:
        return True
    if start is None:
        return bool(end == instant)
    return bool(start <= instant < end) if merges(lineage) else bool(start == instant)


def _windows_of_earlier_snapshots(
    lineage: LineageAsOf, condition: pc.Expression | None, instant: datetime | None
) -> Iterator[dict[str, Any]]:
    """Windows that were open at the end of a live run and left neither a firing nor a late row."""
    window = lineage.pipeline.windows
    size_ms = getattr(window.grid, "size_ms", None)
    cleanup_time = None
    if instant is not None and size_ms is not None and window.is_event_time:
        cleanup_time = instant + timedelta(milliseconds=size_ms - 1) + lineage.pipeline.allowed_lateness
    runs = islice(lineage.runs_that_may_hold(instant, cleanup_time), _SNAPSHOTS_LOOKED_AT)
    for run in runs:
        if lineage.key_rows.is_in_log("window_state", run):
            rows = lineage.key_rows.parked_rows("window_state", run, condition)
            yield from _windows_in(python_rows(rows), lineage.window_columns)


def _widest(windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The longest, then newest, of windows that hold one instant: the others were merged into it."""
    return max(
        windows, key=lambda window: (window["window_end"] - window["window_start"], window["window_end"])
    )


def _only(lineage: LineageAsOf, name: WindowName, windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(windows) == 1:
        return windows[0]
    texts = ", ".join(window_texts(windows[:_NEAREST]))
    columns = [
        column for column in lineage.window_columns if column not in BOUNDS and column not in name.columns
    ]
    advice = f" Name one with --column {columns[0]}=VALUE." if columns else ""
    if not columns and name.instant is not None:
        end = windows[0][_END].isoformat().replace("+00:00", "Z")
        advice = f" Name one by its end, too: --column {_END}={end}."
    raise SeveralWindows(
        f"{lineage.pipeline.name}: {len(windows)} windows have the name {name}: {texts}.{advice}",
        windows=windows,
    )


def window_texts(windows: Sequence[WindowColumns]) -> list[str]:
    """Windows for people: the start of each, or its end where it has no start, and what its class declares;
    and the end where that is equal for several of them.
    """
    texts = [window_text(window) for window in windows]
    counts = Counter(texts)
    return [
        text if counts[text] == 1 else f"{text} until {time_text(window[_END])}"
        for text, window in zip(texts, windows, strict=True)
    ]


def window_text(window: WindowColumns) -> str:
    start, end = window["window_start"], window["window_end"]
    bounds = (
        time_text(start)
        if start is not None
        else "the global window"
        if end is None
        else f"until {time_text(end)}"
    )
    others = [plain_text(str(value)) for name, value in window.items() if name not in BOUNDS]
    return " ".join([bounds, *others])


def _no_such_window(lineage: LineageAsOf, name: WindowName) -> NoSuchWindow:
    pipeline, key = lineage.pipeline, key_text(list(lineage.key_rows.values.values()))
    newest = lineage.tables.ledger.newest()
    is_past = newest is not None and newest.seq != lineage.last_seq
    subject = (
        f"{pipeline.name}: there has never been a window{f' of {key}' if key else ''}"
        f"{f' at {name}' if str(name) else ''}{f' as of run {lineage.head.seq}' if is_past else ''}"
    )
    nearest = _nearest_windows(lineage, name)
    if nearest:
        texts = ", ".join(window_texts(nearest))
        return NoSuchWindow(f"{subject}. Nearest are {texts}.", nearest=nearest)
    near_keys = _near_keys(lineage, name) if key else []
    advice = (
        f"; keys like it are {', '.join(map(key_text, near_keys))}"
        if near_keys
        else f"; `slackwater state windows {pipeline.name}` lists what is open"
    )
    reason = f", nor any other of this key near it{advice}" if key else advice
    return NoSuchWindow(f"{subject}{reason}.", nearest=[])


def _nearest_windows(lineage: LineageAsOf, name: WindowName) -> list[dict[str, Any]]:
    columns = list(lineage.window_columns)
    windows = list(
        _windows_in(python_rows(lineage.key_rows.parked_rows("window_state", lineage.owner)), columns)
    )
    instant = name.instant
    if instant is None:
        return windows[:_NEAREST]
    for days in _RANGES_OF_DAYS:
        within = Within("window_date", (instant - days * _DAY).date(), (instant + days * _DAY).date())
        rows = lineage.key_rows.read("published", None, within, columns=columns)
        windows += _windows_in(python_rows(rows), columns)
        if windows:
            break
    distance = {
        tuple(window.values()): abs((window["window_start"] or window["window_end"] or instant) - instant)
        for window in windows
    }
    distinct_windows = {tuple(window.values()): window for window in windows}
    nearest = sorted(distinct_windows, key=distance.__getitem__)[:_NEAREST]
    by_time = sorted(nearest, key=lambda values: [str(value) for value in values])
    return [distinct_windows[values] for values in by_time]


def _near_keys(lineage: LineageAsOf, name: WindowName) -> list[tuple[Any, ...]]:
    keys = list(lineage.key_rows.values)
    newest = to_datetime(0) if lineage.head.slice_end is None else lineage.head.slice_end
    day = (name.instant or newest).date()
    files = lineage.tables["published"].files(Within("window_date", day - _DAY, day + _DAY))
    if not files.actions.num_rows:
        files = lineage.tables["published"].files(Within("window_date", (newest - 2 * _DAY).date(), None))
    rows = files.read(keys).group_by(keys).aggregate([]).slice(0, _KEYS_COMPARED)
    texts = {
        key_text(values): values
        for values in zip(*(python_values(rows.column(key)) for key in keys), strict=True)
    }
    text_of_key = key_text(list(lineage.key_rows.values.values()))
    by_case = {text.casefold(): text for text in texts}
    close = difflib.get_close_matches(text_of_key.casefold(), by_case, _NEAR_KEYS, cutoff=0.5)
    return [texts[by_case[text]] for text in close]
