"""The answer to "what about this window?" in a sentence or two: what it waits for and what holds it back, or
what became of it.
"""

from collections.abc import Iterator
from datetime import datetime

from slackwater.inspection.windows.window_life import WindowExplanation, WindowStatus
from slackwater.inspection.windows.window_search import window_text
from slackwater.inspection.windows.window_waiting import NextEvent, SlowPartition
from slackwater.readable import (
    NOTHING,
    Precision,
    count_text,
    duration_text,
    key_text,
    plain_text,
    precision_of,
    time_text,
)

# Source partitions that are named in a sentence; the table has all of them.
_NAMED_PARTITIONS = 3


def answer(life: WindowExplanation) -> str:
    """The state of the window, what it waits for, and what holds that back, on one line."""
    status: str = life.window.status
    if life.window.status is WindowStatus.HAS_FIRED:
        status = f"fired {_times(life)} and still open"
    return f"{status}: {'; '.join(_clauses(life))}"


def further_sentences(life: WindowExplanation) -> list[str]:
    return [*_sentences_of_lineage(life), *_sentences_of_waiting(life), *_sentences_of_window(life)]


def _clauses(life: WindowExplanation) -> Iterator[str]:
    status = life.window.status
    if status is WindowStatus.LATE_ROWS_ONLY:
        yield f"it has never been open; {count_text(life.elements.late, 'row')} came too late for it"
    elif status is WindowStatus.ON_BRANCH:
        branches = sorted({firing.standing for firing in life.replaced_firings})
        yield f"it has fired on {', '.join(branches)} alone, and not on {life.branch}"
    elif status is WindowStatus.IS_REPLACED:
        yield "it has fired in runs that no longer count, and in none that does"
    elif status is WindowStatus.NEVER_FIRED:
        count = life.elements.accepted_count or 0
        yield f"it was collected{_by_run(life)} with {count_text(count, 'element')} that no firing has held"
    elif status is WindowStatus.IS_COLLECTED:
        yield f"it has fired {_times(life)} and takes no rows any more{_since(life)}"
    else:
        yield from _clauses_of_waiting(life)


def _clauses_of_waiting(life: WindowExplanation) -> Iterator[str]:
    waiting = life.waits_for
    if waiting.awaits is NextEvent.ELEMENTS:
        count = waiting.elements_needed
        yield "waits for elements" if count is None else f"waits for {count_text(count, 'more element')}"
        yield from _end_of_waiting_for_elements(life)
    elif waiting.awaits is NextEvent.NOTHING:
        yield f"no timer is pending, and none will be: its trigger is {life.window.trigger}"
    elif waiting.needed_time is None:
        yield "waits for the end of time: it fires when the lineage is closed"
    else:
        yield from _clauses_of_time(life, waiting.needed_time)


def _clauses_of_time(life: WindowExplanation, goal_time: datetime) -> Iterator[str]:
    waiting = life.waits_for
    goal = "waits for"
    if waiting.awaits is NextEvent.CLEANUP:
        goal = "takes rows until"
        if life.window.status is WindowStatus.OPEN:
            yield f"no timer will make it fire, its trigger is {life.window.trigger}"
    if waiting.domain == "processing":
        clock = short_time_text(waiting.clock)
        yield f"{goal} {short_time_text(goal_time)} on the clock, which is at {clock}"
        return
    yield f"{goal} watermark {_goal_and_progress(goal_time, waiting.present)}"
    yield from _holders(life)


def _goal_and_progress(goal_time: datetime, present: datetime | None) -> str:
    """The watermark that is needed and the present one; to the millisecond where they are that near."""
    if present is None:
        return f"{short_time_text(goal_time)}, there is none yet"
    texts = short_time_text(goal_time), short_time_text(present)
    if texts[0] == texts[1] and goal_time != present:
        texts = time_text(goal_time, Precision.MILLISECOND), time_text(present, Precision.MILLISECOND)
    return f"{texts[0]}, it is at {texts[1][11:] if texts[1][:10] == texts[0][:10] else texts[1]}"


def _end_of_waiting_for_elements(life: WindowExplanation) -> Iterator[str]:
    cleanup_time = life.window.cleanup_time
    if cleanup_time is not None:
        yield f"is collected at watermark {_goal_and_progress(cleanup_time, life.waits_for.present)}"


def _holders(life: WindowExplanation) -> Iterator[str]:
    waiting = life.waits_for
    holders = waiting.held_back_by
    if waiting.is_idle:
        yield "every source partition is idle, so it does not move until a row arrives"
    elif not holders:
        yield "no source partition holds it back: the next end of a tick reaches it"
    elif holders[0].source_partition == "" and len(holders) == 1:
        yield f"the source has brought nothing newer than {_event_time(holders[0], life)}"
    else:
        first = holders[0]
        others = f" and {count_text(len(holders) - 1, 'other')}" if len(holders) > 1 else ""
        yield f"held back by {_name(first)} since {_beside(first.since, waiting.needed_time)}{others}"


def _sentences_of_waiting(life: WindowExplanation) -> Iterator[str]:
    waiting = life.waits_for
    if waiting.domain != "event" or not waiting.held_back_by:
        return
    if waiting.needed_event_time is not None:
        names = [_name(one) for one in waiting.held_back_by[:_NAMED_PARTITIONS]]
        others = len(waiting.held_back_by) - len(names)
        names_text = ", ".join(names) + (f" and {count_text(others, 'other')}" if others else "")
        senders = (
            ""
            if names == ["the source"]
            else f" from {'each of ' if len(waiting.held_back_by) > 1 else ''}{names_text}"
        )
        yield f"A row of event time {short_time_text(waiting.needed_event_time)} or later{senders} would do."
    idle_times = [one.idle_from for one in waiting.held_back_by]
    if None not in idle_times:
        last = max(time for time in idle_times if time is not None)
        yield (
            "If nothing more arrives, "
            f"{'it is' if len(idle_times) == 1 else 'all of them are'} idle at {short_time_text(last)} and "
            f"{'holds' if len(idle_times) == 1 else 'hold'} nothing back."
        )
    elif waiting.lag is not None and waiting.lag.total_seconds() > 0:
        yield f"It is {duration_text(waiting.lag)} short, and no idle timeout is declared for the source."


def _sentences_of_lineage(life: WindowExplanation) -> Iterator[str]:
    stopped_slice = life.stopped_slice
    if stopped_slice is not None:
        slice_text = (
            f"from {short_time_text(stopped_slice.slice_start)} to {short_time_text(stopped_slice.slice_end)}"
        )
        reason = f" ({plain_text(stopped_slice.error)})" if stopped_slice.error else ""
        step = f" at {stopped_slice.step}" if stopped_slice.step else ""
        yield (
            f"The next slice, {slice_text}, was tried and is {stopped_slice.outcome}{step}{reason}; "
            f"`slackwater runs {life.window.pipeline}` shows it."
        )
    if life.unpublished_seqs:
        yield (
            f"`published` lags {count_text(life.unpublished_seqs, 'run')} behind; `slackwater publish "
            f"{life.window.pipeline}` finishes the roll-forward."
        )


def _sentences_of_window(life: WindowExplanation) -> Iterator[str]:
    window = life.window
    if window.instant is not None:
        yield f"{short_time_text(window.instant)} lies in the session {_session(life)}."
    parked_state = life.parked_state
    if parked_state is not None and parked_state.elements == 0 and parked_state.firings:
        yield "Its newest firing has purged it: it is empty until the next element."
    runs = sorted({firing.seq for firing in life.replaced_firings if firing.standing == "replaced"})
    if runs:
        names_text = ", ".join(map(str, runs))
        yield (
            f"Other runs have replaced run{'s' if len(runs) > 1 else ''} {names_text}; the firings of "
            f"{'those' if len(runs) > 1 else 'that one'} no longer count."
        )
    if window.status is not WindowStatus.LATE_ROWS_ONLY and life.elements.late:
        verb, them = ("were", "them") if life.elements.late > 1 else ("was", "it")
        yield (
            f"{count_text(life.elements.late, 'row')} {verb} too late for it; `slackwater late report "
            f"{window.pipeline}` says what would have saved {them}."
        )


def _session(life: WindowExplanation) -> str:
    columns = life.window.columns
    start, end = columns["window_start"], columns["window_end"]
    return f"{short_time_text(start)} – {_beside(end, start)}"


def _times(life: WindowExplanation) -> str:
    firings = {
        (firing.seq, firing.firing)
        for firing in life.firings
        if not firing.is_withdrawal and dict(firing.window) == dict(life.window.columns)
    }
    count = max(len(firings), 0 if life.parked_state is None else life.parked_state.firings)
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _by_run(life: WindowExplanation) -> str:
    return "" if life.window.collected_by is None else f" by run {life.window.collected_by}"


def _since(life: WindowExplanation) -> str:
    cleanup_time, run = life.window.cleanup_time, life.window.collected_by
    if cleanup_time is None:
        return ""
    return f": run {run} passed {short_time_text(cleanup_time)}" if run is not None else ""


def _name(partition: SlowPartition) -> str:
    return plain_text(partition.source_partition) or "the source"


def _event_time(partition: SlowPartition, life: WindowExplanation) -> str:
    since = _beside(partition.since, partition.max_event_time)
    return f"{_beside(partition.max_event_time, life.waits_for.needed_time)} since {since}"


def short_time_text(moment: datetime | None) -> str:
    """A time without milliseconds: a watermark of 05:59:59.999 reads as the 06:00 that it has reached."""
    return time_text(moment, precision_of([moment]))


def _beside(moment: datetime | None, other: datetime | None) -> str:
    if moment is None:
        return NOTHING
    text, other_text = short_time_text(moment), short_time_text(other)
    return text[11:] if text[:10] == other_text[:10] else text


def title(life: WindowExplanation) -> str:
    key = key_text(list(life.window.key.values()))
    columns = life.window.columns
    end = columns["window_end"]
    bounds = window_text(columns)
    if columns["window_start"] is not None and end is not None:
        bounds = bounds.replace(
            short_time_text(columns["window_start"]),
            f"{short_time_text(columns['window_start'])} – {_beside(end, columns['window_start'])}",
            1,
        )
    return " · ".join(part for part in (life.window.pipeline, key, bounds) if part)
