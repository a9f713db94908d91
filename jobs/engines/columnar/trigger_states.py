"""What triggers remember of windows, as the snapshot has it: a number of their own, and how many elements
have been in no firing.

One text for each distinct state, written and read by the snapshot's codec.
"""

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.families import NONE
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import group_pairs
from slackwater.windowing.snapshot.json_values import JsonValues
from slackwater.windowing.snapshot.named_values import dump_states, load_states, untagged
from slackwater.windowing.snapshot.window_rows import UNFIRED
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import GLOBAL_WINDOW


def trigger_texts(
    state: StateDescriptor, values: Longs, elements: Longs, firings: Longs, unfired: Longs
) -> pa.Array:
    """The texts of windows: `state` where its value is not NONE, and unfired elements where firings don't say
    how many there are.
    """
    follows = unfired == np.where(firings > 0, 0, elements)
    groups, of_values, of_unfired = group_pairs(values, np.where(follows, NONE, unfired))
    texts = [
        _text(state, value, left) for value, left in zip(of_values.tolist(), of_unfired.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string()).take(pa.array(groups.codes))


def _text(state: StateDescriptor, value: int, unfired: int) -> str | None:
    states = {} if value == NONE else {state.name: {state.kind: value}}
    if unfired != NONE:
        states[UNFIRED] = {"elements": unfired}
    return dump_states(JsonValues(), states, None, GLOBAL_WINDOW)


def read_trigger_texts(
    state: StateDescriptor, texts: pa.ChunkedArray, elements: Longs, firings: Longs
) -> tuple[Longs, Longs]:
    """The inverse of `trigger_texts`: (values, unfired)."""
    encoded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    found = [_read(state, text) for text in encoded.dictionary.to_pylist()]
    values, unfired = np.array(found, np.int64).reshape(-1, 2).T[:, encoded.indices.to_numpy()]
    return values, np.where(unfired == NONE, np.where(firings > 0, 0, elements), unfired)


def _read(state: StateDescriptor, text: str | None) -> tuple[int, int]:
    states = load_states(JsonValues(), text)
    value = untagged(states[state.name], state.name)[1] if state.name in states else NONE
    return value, states.get(UNFIRED, {}).get("elements", NONE)
