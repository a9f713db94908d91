"""The column `trigger_state` of `window_state`: the trigger's number for each window, and how many elements
of the window are in no firing yet.

Each distinct state is written and read once, as text, by the snapshot's codec.
"""

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.window_columns import NO_TIME, OpenWindows, TriggerStates
from slackwater.windowing.snapshot.json_values import JsonValues, dump_states, kind_and_value, load_states
from slackwater.windowing.snapshot.window_rows import UNFIRED_ELEMENTS
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import GLOBAL_WINDOW


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
