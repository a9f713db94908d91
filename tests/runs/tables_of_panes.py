"""Panes of the model as the tables hold them, and rows of `published` and `corrections` as the model has
them. No assertions on rules.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa

from slackwater.runs.publishing.corrections import Identity
from tests.runs.published_model import Correction, PaneRow, Published


def pane_values(pane: PaneRow, names: Sequence[str]) -> dict[str, Any]:
    """A pane as columns, without run_id. `names`: the columns of its results."""
    return {
        "key_group": pane.key_group,
        **dict(zip(["k", "part", "window_start", "window_end"], pane.window, strict=True)),
        "firing": pane.firing,
        "ordinal": pane.ordinal,
        "timestamp": pane.timestamp,
        "kind": pane.kind,
        **dict(zip(names, pane.results, strict=True)),
    }


def window_of(row: dict[str, Any]) -> tuple[Any, ...]:
    start, end = (row[name] and row[name].astimezone(UTC) for name in ("window_start", "window_end"))
    return (row["k"], row["part"], start, end)


def results_of(row: dict[str, Any] | None) -> tuple[Any, ...] | None:
    """Results, with one NaN that equals itself."""
    if row is None:
        return None
    return tuple(
        math.nan if isinstance(value, float) and math.isnan(value) else value
        for value in (row["n"], row["mean"])
    )


def published_of(table: pa.Table) -> list[Published]:
    """Rows of `published`; each stands in the partition of its day."""
    found = []
    for row in table.to_pylist():
        moment = row["timestamp"] and row["timestamp"].astimezone(UTC)
        pane = PaneRow(
            row["key_group"],
            window_of(row),
            row["firing"],
            row["ordinal"],
            row["kind"],
            results_of(row) or (),
            moment,
        )
        found.append(Published(pane, row["revision"], row["run_seq"]))
        day_of = pane.start or moment
        assert row["window_date"] == (None if day_of is None else day_of.date())
    return found


def corrections_of(rows: Iterable[dict[str, Any]]) -> list[Correction]:
    """Rows of `corrections`."""
    names = ("ordinal", "firing", "kind", "op", "cause", "revision")
    return [
        Correction(
            row["seq"],
            window_of(row),
            *(row[name] for name in names),
            results_of(row["old"]),
            results_of(row["new"]),
        )
        for row in rows
    ]


def fold(rows: Iterable[dict[str, Any]], identity: Identity) -> list[Published]:
    """`published` from the rows of `corrections` alone, as a reader would: the newest of each identity,
    unless it is a withdrawal.
    """
    standing: dict[Any, Published] = {}
    for row in sorted(rows, key=lambda row: (row["seq"], row["op"] != "withdraw")):
        window = window_of(row)
        if identity is Identity.RUN:
            beside = (row["timestamp"], row["run_id"])
        else:
            beside = (row["firing"],) if identity is Identity.FIRING or window[-1] is None else ()
        name = (window, row["ordinal"], *beside)
        if row["new"] is None:
            del standing[name]
        else:
            moment = row["timestamp"] and row["timestamp"].astimezone(UTC)
            pane = PaneRow(
                row["key_group"],
                window,
                row["firing"],
                row["ordinal"],
                row["kind"],
                results_of(row["new"]) or (),
                moment,
            )
            standing[name] = Published(pane, row["revision"], row["seq"])
    return list(standing.values())


def in_any_order(items: Iterable[Any]) -> list[str]:
    return sorted(map(repr, items))
