"""What triggers remember of windows, as the snapshot has it: a number of their own, and how many elements
have been in no firing.

One text for each distinct state, written and read by the snapshot's codec.
"""

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.window_columns import NO_TIME, OpenWindows, TriggerStates
from slackwater.windowing.snapshot.json_values import JsonValues
from slackwater.windowing.snapshot.named_values import dump_states, kind_and_value, load_states
from slackwater.windowing.snapshot.window_rows import UNFIRED_ELEMENTS
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import GLOBAL_WINDOW


def trigger_texts(state: StateDescriptor, triggers: TriggerStates, windows: OpenWindows) -> pa.Array:
    """The texts of windows: `state` where it has a value, and unfired elements where firings don't say how
    many there are.
    """
    follows = triggers.unfired == _unfired_by_firings(windows)
    groups, values, counts = group_pairs(triggers.values, np.where(follows, NO_TIME, triggers.unfired))
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    texts = [_text(state, value, unfired) for value, unfired in pairs]
    return pa.array(texts, pa.string()).take(pa.array(groups.codes))


def _text(state: StateDescriptor, value: int, unfired: int) -> str | None:
    states = {} if value == NO_TIME else {state.name: {state.kind: value}}
    if unfired != NO_TIME:
        states[UNFIRED_ELEMENTS] = {"elements": unfired}
    return dump_states(JsonValues(), states, None, GLOBAL_WINDOW)


def read_trigger_texts(state: StateDescriptor, texts: pa.ChunkedArray, windows: OpenWindows) -> TriggerStates:
    """The inverse of `trigger_texts`."""
    encoded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    pairs = [_read(state, text) for text in encoded.dictionary.to_pylist()]
    values, unfired = np.array(pairs, np.int64).reshape(-1, 2).T[:, encoded.indices.to_numpy()]
    return TriggerStates(
        values=values, unfired=np.where(unfired == NO_TIME, _unfired_by_firings(windows), unfired)
    )


def _unfired_by_firings(windows: OpenWindows) -> Longs:
    """Unfired elements of windows whose last firing took all of them in."""
    return np.where(windows.firings > 0, 0, windows.elements)


def _read(state: StateDescriptor, text: str | None) -> tuple[int, int]:
    states = load_states(JsonValues(), text)
    value = kind_and_value(states[state.name], state.name)[1] if state.name in states else NO_TIME
    return value, states.get(UNFIRED_ELEMENTS, {}).get("elements", NO_TIME)
