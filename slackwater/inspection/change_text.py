"""Writes rows and their changes as people read them: `flights 12 → 13, mean_dep_delay 3.20 → 3.31`. Pure
functions of values.
"""

from collections.abc import Mapping
from typing import Any

from slackwater.readable import (
    bytes_text,
    plain_text,
    range_text,
    time_text,
    value_text,
)


def change_text(correction: Mapping[str, Any]) -> str:
    """What a correction (its columns old, new, firing and kind) does to a row: results that differ as `old →
    new`, all of them where the row is new or withdrawn; or the firing that brought the same values again.
    """
    old, new = correction["old"], correction["new"]
    if old is None or new is None:
        values = ", ".join(
            f"{plain_text(name)} {value_text(value)}" for name, value in (new or old or {}).items()
        )
        return f"{'new' if old is None else 'withdrawn'}: {values}"
    changes = [
        f"{plain_text(name)} {pair_text(old.get(name), new[name])}"
        for name in new
        if not are_equal(old.get(name), new[name])
    ]
    kind = str(correction["kind"]).replace("_", " ")
    return ", ".join(changes) or f"same values, by firing {correction['firing']} ({kind})"


def cause_text(cause: str) -> str:
    """A stored cause of a correction, in the words that causes of firings have."""
    return {"first": "first firing", "late": "late row"}.get(cause, cause)


def pair_text(old: Any, new: Any) -> str:
    """`old → new`, with as many digits as tell two numbers apart; one text where they are equal."""
    before, after = value_text(old), value_text(new)
    if are_equal(old, new):
        return after
    if before == after:
        before, after = plain_text(repr(old)), plain_text(repr(new))
    return f"{before} → {after}"


def source_row_text(values: Mapping[str, Any]) -> str:
    """The values of a row of a source: `carrier EV, flight 4368`. Whole numbers have no separators, because
    many are names; bytes are shown as the text that they hold.
    """
    return ", ".join(
        f"{plain_text(name)} {_source_value_text(value)}"
        for name, value in values.items()
        if value is not None
    )


def _source_value_text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return value_text(bytes_text(value) if isinstance(value, bytes) else value)


def window_text(row: Mapping[str, Any]) -> str:
    """The window of a stored row: its range, its end where it has no start, else its timestamp."""
    start, end = row["window_start"], row["window_end"]
    if start is not None:
        return range_text(start, end)
    if end is not None:
        return f"until {time_text(end)}"
    return "all times" if row.get("timestamp") is None else f"at {time_text(row['timestamp'])}"


def are_equal(a: Any, b: Any) -> bool:
    """Whether two values are equal as `corrections` compares them: NaN is."""
    return bool(a == b or (a != a and b != b))
