"""Named states of one key and window as one JSON text, `{name: {kind: value}}`, in canonical order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slackwater.windowing.snapshot.errors import SnapshotFormatError, SnapshotValueError
from slackwater.windowing.snapshot.json_values import JsonValues
from slackwater.windowing.windows import Window

KINDS: Final = frozenset({"value", "list", "map", "reducing", "aggregating"})

KindAndValue = tuple[str, Any]


def with_kind(json: JsonValues, kind: str, value: Any) -> dict[str, Any]:
    """`{kind: value}`; a map as its [key, value] pairs in the order of the keys' texts."""
    if kind == "map":
        return {kind: [[key, value[key]] for key in sorted(value, key=json.dumps)]}
    return {kind: value}


def kind_and_value(tagged_value: Mapping[str, Any], name: str) -> KindAndValue:
    """The inverse of `with_kind`. Raises SnapshotFormatError for an unknown kind."""
    [(kind, value)] = tagged_value.items()
    if kind not in KINDS:
        raise SnapshotFormatError(
            f"State {name!r} is stored as {kind!r} state; there is {', '.join(sorted(KINDS))}."
        )
    return kind, dict(value) if kind == "map" else value


def dump_value(json: JsonValues, value: Any, state_name: str, key: Any, namespace: Window | None) -> str:
    """The text of a value. Raises SnapshotValueError with state, key and window."""
    try:
        return json.dumps(value)
    except SnapshotValueError as error:
        error.state_name = state_name
        error.locate(key, namespace, None)
        raise


def dump_states(
    json: JsonValues, states: Mapping[str, Mapping[str, Any]], key: Any, window: Window
) -> str | None:
    """The text of state name → tagged values; None for none."""
    return (
        dump_value(json, {name: states[name] for name in sorted(states)}, ", ".join(states), key, window)
        if states
        else None
    )


def load_states(json: JsonValues, text: str | None) -> dict[str, dict[str, Any]]:
    return {} if text is None else json.loads(text)
