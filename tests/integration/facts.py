"""The same facts twice: as the model says and as the tables say, for pipelines with the rules of
`departures`.

Both sides come as counted tuples, so that order and run ids can't matter and a duplicate always does.
"""

import json
from collections import Counter
from datetime import timedelta
from functools import cache

from tests.integration.stored import EPOCH, Row, StoredTables
from tests.model import brute_force
from tests.model.flights import departures_rules, flights
from tests.model.records import Outcome, Pane

START = "2013-01-01"
RESULTS = ("flights", "mean_dep_delay", "max_dep_delay")
COUNTS = (
    ("rows_read", "read"),
    ("rows_accepted", "accepted"),
    ("rows_late", "late"),
    ("rows_unassigned", "unassigned"),
    ("rows_quarantined", "quarantined"),
    ("assignments_missed", "assignments_missed"),
    ("windows_fired", "on_time_firings"),
    ("windows_refired", "late_firings"),
    ("windows_opened", "windows_opened"),
    ("windows_merged", "windows_merged"),
    ("windows_cleaned", "windows_cleaned"),
)

Facts = dict[str, Counter]


@cache
def outcome(to: str, start: str = START) -> Outcome:
    """What the model leaves of one run over [start, to)."""
    return brute_force.replay(flights(start, to), departures_rules(start, to))


def assert_as_model(stored: StoredTables, to: str, start: str = START) -> None:
    """All that the tables hold is what the model leaves at `to`."""
    assert_equal(facts_of_tables(stored), facts_of_model(outcome(to, start)))


def assert_equal(found: Facts, wanted: Facts) -> None:
    """Say which facts differ, and a few of them."""
    differing = []
    for name in wanted:
        missing, surplus = wanted[name] - found[name], found[name] - wanted[name]
        if missing or surplus:
            counts = f"{missing.total()} missing, {surplus.total()} too much"
            differing.append(f"{name}: {counts}\n  missing {_few(missing)}\n  too much {_few(surplus)}")
    if differing or found.keys() != wanted.keys():
        raise AssertionError("\n".join(differing) or f"{found.keys()} against {wanted.keys()}")


def _few(facts: Counter) -> str:
    return "; ".join(map(repr, list(facts.elements())[:3]))


def facts_of_model(model: Outcome) -> Facts:
    unfinished = model.unfinished_tick
    return {
        "panes": Counter(_of_pane(pane) for pane in model.panes),
        "published": Counter(
            (pane.key, *pane.window, pane.kind, pane.firing, *(pane.results[name] for name in RESULTS))
            for pane in model.published
        ),
        "late": Counter(
            (
                late.event.order,
                late.event.key,
                late.event.event_time,
                late.event.arrival,
                late.windows,
                late.late_by_ms,
                late.watermark,
            )
            for late in model.late
        ),
        "quarantine": Counter((row.reason, row.event.order, row.event.arrival) for row in model.quarantined),
        "windows": Counter(
            (
                *(
                    window.key,
                    *window.window,
                    window.elements,
                    window.firings,
                    window.last_fired_at,
                    window.next_firing,
                    window.cleanup_time,
                ),
                *(
                    window.first_arrival,
                    window.last_arrival,
                    window.results["flights"],
                    window.results["max_dep_delay"],
                ),
            )
            for window in model.open_windows
        ),
        "timers": Counter((timer.key, *timer.window, timer.time, timer.purpose) for timer in model.timers),
        "progress": Counter(
            (row.source, row.max_event_time, row.last_arrival, row.idle, unfinished) for row in model.progress
        ),
        "watermark": Counter([_known(model.watermark)]),
        "counts": Counter(
            {name: getattr(model.counts, theirs) for name, theirs in COUNTS if getattr(model.counts, theirs)}
        ),
    }


def _known(watermark: int) -> int | None:
    return None if watermark == brute_force.LONG_MIN else watermark


def _of_pane(pane: Pane) -> tuple:
    results = tuple(pane.results[name] for name in RESULTS)
    return (
        *(pane.key, *pane.window, pane.kind, pane.firing, pane.elements),
        *results,
        pane.watermark,
        pane.tick_end,
        pane.cause_arrival,
    )


def facts_of_tables(stored: StoredTables) -> Facts:
    head = next(row for row in reversed(stored.ledger()) if row["branch"] == "main")
    live = {seq for span in head["live"] for seq in range(span["first_seq"], span["last_seq"] + 1)}
    runs = [row for row in stored.ledger() if row["seq"] in live]
    whole, parts = _progress(stored)
    return {
        "panes": panes(stored),
        "published": published(stored),
        "late": Counter(
            (
                *(row["row"], row["origin"], row["event_time"], row["arrival_time"]),
                *(
                    tuple((window["start"], window["end"]) for window in row["windows"]),
                    row["late_by_ms"],
                    row["watermark"],
                ),
            )
            for row in stored.live("late_events")
        ),
        "quarantine": Counter(
            (row["reason_code"], json.loads(row["row_json"])["row"], row["arrival_time"])
            for row in stored.live("quarantine")
        ),
        "windows": Counter(
            (
                *(row["origin"], row["window_start"], row["window_end"], row["elements"], row["firings"]),
                *(
                    row["last_fired_at"],
                    row["next_firing"],
                    row["cleanup_time"],
                    row["first_arrival"],
                    row["last_arrival"],
                ),
                *(row["flights__count"], row["max_dep_delay__max"]),
            )
            for row in stored.parked("window_state")
        ),
        "timers": Counter(
            (row["origin"], row["window_start"], row["window_end"], row["time"], row["purpose"])
            for row in stored.parked("timers")
        ),
        "progress": Counter(
            (
                row["source_partition"],
                row["max_event_time"],
                row["last_arrival"],
                row["idle"],
                row["unfinished_tick_start"],
            )
            for row in parts
        ),
        "watermark": Counter([whole["watermark"]]),
        "counts": Counter({name: total for name, _ in COUNTS if (total := sum(row[name] for row in runs))}),
    }


def _progress(stored: StoredTables) -> tuple[Row, list[Row]]:
    """The pipeline's own row of `source_progress`, and those of its source partitions."""
    rows = stored.parked("source_progress")
    [whole] = [row for row in rows if row["source_partition"] is None]
    return whole, [row for row in rows if row["source_partition"] is not None]


def panes(stored: StoredTables) -> Counter:
    """The panes as they stand."""
    return Counter(
        (
            *(
                row["origin"],
                row["window_start"],
                row["window_end"],
                row["kind"],
                row["firing"],
                row["elements"],
            ),
            *(row[name] for name in RESULTS),
            *(row["watermark"], row["tick_end"], row["cause_arrival"]),
        )
        for row in stored.live("panes")
    )


def published(stored: StoredTables) -> Counter:
    """What `published` holds, without what depends on the cuts."""
    return Counter(
        (
            row["origin"],
            row["window_start"],
            row["window_end"],
            row["kind"],
            row["firing"],
            *(row[name] for name in RESULTS),
        )
        for row in stored.rows("published")
    )


def assert_corrections_make_published(stored: StoredTables) -> None:
    """`corrections`, applied one by one to an empty table, give `published` with its revisions; each old
    value was there before.
    """
    standing: dict[tuple, tuple] = {}
    for row in sorted(stored.rows("corrections"), key=lambda row: row["seq"]):
        window = (row["origin"], row["window_start"], row["window_end"])
        before = standing.get(window)
        assert (before is None) == (row["op"] == "insert"), (before, row)
        assert before is None or (before[0], before[1] + 1) == (row["old"], row["revision"]), (before, row)
        if row["op"] == "withdraw":
            del standing[window]
        else:
            standing[window] = (row["new"], row["revision"], row["kind"], row["firing"], row["seq"])
    there = {
        (row["origin"], row["window_start"], row["window_end"]): (
            {name: row[name] for name in RESULTS},
            *(row["revision"], row["kind"], row["firing"], row["run_seq"]),
        )
        for row in stored.rows("published")
    }
    assert there == standing


def assert_whole(stored: StoredTables) -> None:
    """Readers see whole runs only: staged tables as of the ledger's head, `published` as of the run up to
    which it was rolled forward.
    """
    ends = {row["seq"]: iso(row["slice_end"]) for row in stored.ledger()}
    seq = stored.rolled_forward()
    wanted = facts_of_model(outcome(ends[seq]))["published"] if seq else Counter()
    assert_equal({"published": published(stored)}, {"published": wanted})
    if not ends:
        assert panes(stored) == Counter()
        return
    found, model = facts_of_tables(stored), facts_of_model(outcome(ends[max(ends)]))
    unseen = {"published"}
    assert_equal(
        *({name: facts for name, facts in side.items() if name not in unseen} for side in (found, model))
    )


def iso(ms: int) -> str:
    """Milliseconds as ISO 8601 without a zone, as the model takes it."""
    return (EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None).isoformat()
