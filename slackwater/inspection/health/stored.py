"""What waits behind the ledger: the roll-forward of `published`, the sinks, and upkeep of the snapshots."""

import queue
import threading
from contextlib import suppress
from datetime import datetime, timedelta

from slackwater.errors import SlackwaterError
from slackwater.inspection.health.findings import (
    Colour,
    Finding,
    Subject,
    colour_of,
    needing_declaration,
    worst,
)
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.runs.run_series import snapshot_bytes
from slackwater.pipelines import Pipeline
from slackwater.readable import count_text, duration_text, plain_text, size_text
from slackwater.runs.publishing.delivery import Delivery, SinkState
from slackwater.tables.ledger.rows import MAIN, LedgerRow

# A sink that has not answered after so many seconds is not waited for.
SINK_SECONDS = 2.0


def judge_published(subject: Subject) -> Finding:
    if subject.head is None:
        return Finding(Colour.GREEN, "nothing is committed yet")
    published_seq = Inspection(subject.pipeline, subject.tables).published_seq()
    later_rows = subject.tables.ledger.rows(published_seq) if subject.head.seq > published_seq else ()
    waiting = [row for row in later_rows if row.branch == MAIN]
    if not waiting:
        return Finding(
            Colour.GREEN, f"`published` shows row {published_seq} of the ledger, the newest", value=0
        )
    age = _age(subject, waiting[0])
    return Finding(
        colour_of(age, subject.thresholds.backlog),
        f"`published` lags the ledger by {count_text(len(waiting), 'row')}, for {duration_text(age)}",
        f"slackwater publish {subject.pipeline}",
        len(waiting),
    )


def _age(subject: Subject, row: LedgerRow) -> timedelta:
    committed_at: datetime = row.committed_at or subject.now
    return max(subject.now - committed_at, timedelta(0))


@needing_declaration("the sinks are")
def judge_sinks(subject: Subject, declaration: Pipeline) -> Finding:
    if not declaration.sinks or subject.head is None:
        return Finding(Colour.GREEN, "it has no sinks" if subject.head else "nothing is committed yet")
    findings = [_judge_sink(subject, name, state) for name, state in _states(subject, declaration).items()]
    colour = worst(finding.colour for finding in findings)
    bad = [finding.text for finding in findings if finding.colour is not Colour.GREEN]
    waiting = sum(finding.value or 0 for finding in findings)
    if not bad:
        return Finding(colour, f"{count_text(len(findings), 'sink')}, nothing waits", value=waiting)
    return Finding(colour, "; ".join(bad), f"slackwater sinks deliver {subject.pipeline}", waiting)


def _states(subject: Subject, declaration: Pipeline) -> dict[str, SinkState | None]:
    """The state of each sink, by name; None for one that doesn't answer in time. All are asked at once."""
    delivery = Delivery(declaration, subject.tables, subject.warehouse.root)
    answers: queue.Queue[tuple[str, SinkState | None]] = queue.Queue()

    def ask(name: str) -> None:
        state = None
        with suppress(SlackwaterError):
            [state] = delivery.states(name)
        answers.put((name, state))

    names = [sink.name for sink in declaration.sinks]
    for name in names:
        threading.Thread(target=ask, args=(name,), name=f"sink {name}", daemon=True).start()
    states: dict[str, SinkState | None] = dict.fromkeys(names)
    with suppress(queue.Empty):
        for _ in names:
            name, state = answers.get(timeout=SINK_SECONDS)
            states[name] = state
    return states


def _judge_sink(subject: Subject, name: str, state: SinkState | None) -> Finding:
    if state is None:
        return Finding(Colour.YELLOW, f"sink {name} did not answer within {SINK_SECONDS:.0f} s")
    if state.position is None or state.backlog is None:
        reason = plain_text(state.problem.splitlines()[0]) if state.problem else "it says nothing"
        reason = reason.removeprefix(f"sink {name}: ")
        return Finding(Colour.YELLOW, f"sink {name} can't be reached: {reason}")
    if state.set_aside and not state.backlog:
        count = count_text(len(state.set_aside), "row")
        return Finding(Colour.YELLOW, f"sink {name} can't take {count}, which it has set aside", value=0)
    if not state.backlog:
        return Finding(Colour.GREEN, f"sink {name} has all corrections", value=0)
    ledger_rows = subject.tables.ledger.rows(max(0, state.position.seq - 1), state.newest_seq)
    rows = [row for row in ledger_rows if row.branch == MAIN]
    waiting_rows = [row for row in rows if row.seq > state.position.seq] or rows
    age = _age(subject, waiting_rows[0]) if waiting_rows else timedelta(0)
    return Finding(
        colour_of(age, subject.thresholds.backlog),
        f"{count_text(state.backlog, 'correction')} for the sink {name} have waited for {duration_text(age)}",
        value=state.backlog,
    )


@needing_declaration("how many are kept is")
def judge_snapshots(subject: Subject, declaration: Pipeline) -> Finding:
    sizes = snapshot_bytes(subject.tables)
    if not sizes or not subject.runs or subject.head is None:
        return Finding(Colour.GREEN, "no snapshots yet", value=0)
    kept = declaration.keep_snapshots + _periods(subject, declaration)
    due = max(0, len(sizes) - kept)
    yellow, red = subject.thresholds.snapshots_due
    colour = colour_of(due, (declaration.keep_snapshots if yellow is None else yellow, red))
    stored = f"{count_text(len(sizes), 'snapshot')} are stored ({size_text(sum(sizes.values()))})"
    if colour is Colour.GREEN:
        return Finding(colour, stored, value=due)
    text = f"{stored}, about {due:,} more than are kept: upkeep is due"
    return Finding(colour, text, f"slackwater maintain {subject.pipeline}", due)


def _periods(subject: Subject, declaration: Pipeline) -> int:
    """How many periods of `keep_snapshot_every` the lineage spans; one snapshot of each is kept."""
    assert subject.head is not None and subject.head_end is not None
    span = subject.head_end - subject.tables.ledger.start_of(subject.head)
    return span // declaration.keep_snapshot_every + 1
