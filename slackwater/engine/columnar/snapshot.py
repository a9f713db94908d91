"""Open windows and timers as rows of `window_state` and `timers`, and back: the rows of the snapshot codec in
`slackwater.windowing.snapshot`, never one at a time.

The column `trigger_state` has the trigger's number for each window, and how many elements of the window are
in no firing yet. Each distinct state is written and read once, as text.
"""

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates import (
    ArrowAccumulators,
    parked_parts,
    read_accumulators,
    texts_of_unknown,
)
from slackwater.engine.columnar.arrow_columns import constant, times, times_in_ms, values_of_keys
from slackwater.engine.columnar.families import Part, Setting
from slackwater.engine.replaying.snapshot_rows import NO_CONTENTS as NO_CONTENTS_TEXT
from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.kernels import SliceResult, WindowState
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    OpenWindows,
    Timers,
    TriggerStates,
)
from slackwater.windowing.runtime.window_operator import TIMER_SERVICE
from slackwater.windowing.snapshot.json_values import JsonValues, dump_states, kind_and_value, load_states
from slackwater.windowing.snapshot.window_rows import UNFIRED_ELEMENTS
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import GLOBAL_WINDOW

A = TypeVar("A", bound=Accumulators)


def read_windows(
    parked_part: Part,
    setting: Setting,
    trigger_state: StateDescriptor | None,
    added_results: frozenset[str] = frozenset(),
) -> WindowState[ArrowAccumulators]:
    """The open windows in `window_state` order; `added_results` are unknown in all of them."""
    rows = parked_part.rows
    is_empty = pc.equal(rows.column("contents"), NO_CONTENTS_TEXT)
    has_contents = ~np.asarray(pc.fill_null(is_empty, False))
    windows = read_open_windows(parked_part, has_contents)
    triggers = None
    if trigger_state is not None:
        triggers = read_trigger_texts(trigger_state, rows.column("trigger_state"), windows)
    with_contents = rows.filter(pa.array(has_contents))
    accumulators = read_accumulators(with_contents, setting.aggregates_by_result, added_results)
    if not has_contents.all():
        places = np.maximum(np.cumsum(has_contents) - 1, 0)
        indices = pa.array(places, mask=~has_contents)
        columns = ([column.take(indices) for column in columns] for columns in accumulators.columns)
        accumulators = ArrowAccumulators.of(accumulators.aggregates, columns, rows.num_rows)
    return WindowState(windows=windows, triggers=triggers, accumulators=accumulators)


def read_open_windows(parked_part: Part, has_contents: Booleans) -> OpenWindows:
    rows = parked_part.rows
    return OpenWindows(
        keys=parked_part.keys,
        starts=times_in_ms(rows.column("window_start")),
        ends=times_in_ms(rows.column("window_end")),
        elements=rows.column("elements").to_numpy(),
        firings=rows.column("firings").to_numpy(),
        last_fired_at=times_in_ms(rows.column("last_fired_at")),
        first_arrivals=times_in_ms(rows.column("first_arrival")),
        last_arrivals=times_in_ms(rows.column("last_arrival")),
        contents=np.where(has_contents, np.arange(rows.num_rows), NO_CONTENTS),
    )


def window_table(
    slice_result: SliceResult[ArrowAccumulators],
    distinct: pa.Table,
    setting: Setting,
    trigger_state: StateDescriptor | None,
) -> pa.Table:
    """Rows of `window_state`, one for each window that is open at the slice's end."""
    windows = slice_result.windows
    rows, is_empty = len(windows.keys), windows.contents == NO_CONTENTS
    accumulators = slice_result.accumulators.take(windows.contents[~is_empty])
    parts = parked_parts(accumulators)
    contents = texts_of_unknown(accumulators, setting.aggregates_by_result)
    if is_empty.any():
        indices = pa.array(np.cumsum(~is_empty) - 1, mask=is_empty)
        parts, contents = [part.take(indices) for part in parts], contents.take(indices)
        contents = pc.if_else(pa.array(is_empty), NO_CONTENTS_TEXT, contents)
    texts = constant(None, rows, pa.string())
    if trigger_state is not None and slice_result.triggers is not None:
        texts = trigger_texts(trigger_state, slice_result.triggers, windows)
    return pa.table(
        {
            **columns_of_open_windows(slice_result, distinct, setting),
            **{name: part for (name, _), part in zip(setting.shape.parts, parts, strict=True)},
            "contents": contents,
            "trigger_state": texts,
        }
    )


def columns_of_open_windows(
    slice_result: SliceResult[A], distinct: pa.Table, setting: Setting
) -> dict[str, Any]:
    """The columns of `window_state` but contents and trigger state."""
    windows = slice_result.windows
    return {
        **values_of_keys(distinct, windows.keys),
        "window_start": times(windows.starts),
        "window_end": times(windows.ends),
        "elements": pa.array(windows.elements),
        "firings": pa.array(windows.firings),
        "last_fired_at": times(windows.last_fired_at),
        "next_firing": times(slice_result.next_firings),
        "cleanup_time": times(_cleanup_times(windows, setting)),
        "first_arrival": times(windows.first_arrivals),
        "last_arrival": times(windows.last_arrivals),
    }


def _cleanup_times(windows: OpenWindows, setting: Setting) -> Longs:
    cleanups = windows.ends - 1 + setting.lateness_ms
    return np.where(windows.ends == NO_TIME, NO_TIME, cleanups)


def timer_table(timers: Timers, distinct: pa.Table, setting: Setting) -> pa.Table:
    rows, domain = len(timers.keys), "processing" if setting.passes_with_clock else "event"
    return pa.table(
        {
            **values_of_keys(distinct, timers.keys),
            "window_start": times(timers.starts),
            "window_end": times(timers.ends),
            "service": constant(TIMER_SERVICE, rows, pa.string()),
            "domain": constant(domain, rows, pa.string()),
            "time": times(timers.times),
            "purpose": constant(timers.purpose, rows, pa.string()),
        }
    )


def trigger_texts(state: StateDescriptor, triggers: TriggerStates, windows: OpenWindows) -> pa.Array:
    """The text of each window: the value of `state` where there is one, and the unfired elements where they
    do not follow from the number of firings.
    """
    follows_from_firings = triggers.unfired_elements == _unfired_by_firings(windows)
    groups, values, counts = group_pairs(
        triggers.values, np.where(follows_from_firings, NO_TIME, triggers.unfired_elements)
    )
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    texts = [_text(state, value, unfired_elements) for value, unfired_elements in pairs]
    return pa.array(texts, pa.string()).take(pa.array(groups.codes))


def _text(state: StateDescriptor, value: int, unfired_elements: int) -> str | None:
    states = {} if value == NO_TIME else {state.name: {state.kind: value}}
    if unfired_elements != NO_TIME:
        states[UNFIRED_ELEMENTS] = {"elements": unfired_elements}
    return dump_states(JsonValues(), states, None, GLOBAL_WINDOW)


def read_trigger_texts(state: StateDescriptor, texts: pa.ChunkedArray, windows: OpenWindows) -> TriggerStates:
    encoded_texts = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    pairs = [_read(state, text) for text in encoded_texts.dictionary.to_pylist()]
    values, unfired_elements = np.array(pairs, np.int64).reshape(-1, 2).T[:, encoded_texts.indices.to_numpy()]
    return TriggerStates(
        values=values,
        unfired_elements=np.where(
            unfired_elements == NO_TIME, _unfired_by_firings(windows), unfired_elements
        ),
    )


def _unfired_by_firings(windows: OpenWindows) -> Longs:
    """int64[n]: the unfired elements of windows whose newest firing included all elements."""
    return np.where(windows.firings > 0, 0, windows.elements)


def _read(state: StateDescriptor, text: str | None) -> tuple[int, int]:
    states = load_states(JsonValues(), text)
    value = kind_and_value(states[state.name], state.name)[1] if state.name in states else NO_TIME
    return value, states.get(UNFIRED_ELEMENTS, {}).get("elements", NO_TIME)
