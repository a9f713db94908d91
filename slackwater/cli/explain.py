"""`slackwater explain`: prints the life of one window as a story, the answer first. Starts no JVM."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import Column, value_text
from slackwater.inspection.changes.change_text import cause_text, source_row_text

if TYPE_CHECKING:
    from slackwater.inspection.windows.window_firings import WindowCorrection, WindowFiring
    from slackwater.inspection.windows.window_life import WindowExplanation

_HOLDERS = [
    Column("source_partition", "text"),
    Column("watermark", heading="allows watermark"),
    Column("since", heading="nothing newer since"),
    Column("idle_from", heading="idle from"),
    Column("last_arrival"),
    Column("max_event_time", heading="greatest event time", is_wide=True),
]
_BY_RUN = [
    Column("seq", "id"),
    Column("slice", "range"),
    Column("elements", heading="elements by then"),
    Column("firings", heading="firings by then"),
    Column("last_arrival"),
    Column("first_arrival", is_wide=True),
]
_LATE_ROWS = [
    Column("arrival_time", heading="arrival"),
    Column("event_time"),
    Column("missing_lateness", "duration", heading="missing lateness"),
    Column("seq", "id"),
    Column("values", "text"),
    Column("watermark", is_wide=True),
]
_ROWS = [
    Column("arrival_time", heading="arrival"),
    Column("event_time"),
    Column("late"),
    Column("values", "text"),
    Column("seq", "id"),
    Column("watermark", is_wide=True),
]


def _columns_of_window(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    columns = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise click.BadParameter(
                f"{value!r}: write NAME=VALUE, for example tier=gold", context, parameter
            )
        columns[name] = text
    return columns


@click.command("explain")
@click.argument("pipeline")
@options.key
@click.option(
    "--window",
    "instant_ms",
    type=options.Time(),
    metavar="START",
    help="the window's start; of a session any instant in it; of windows without a start their end",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    callback=_columns_of_window,
    metavar="NAME=VALUE",
    help="a column that your own class of windows declares",
)
@click.option("--elements", is_flag=True, help="read the window's rows from the source, too")
@click.option("--run", "at", metavar="SEQ|BRANCH", help="as of this run or branch (default: main's head)")
@options.warehouse
@options.pipelines
@printing.output
def command(
    pipeline: str,
    *,
    key: str | None,
    instant_ms: int | None,
    columns: dict[str, str],
    elements: bool,
    at: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """The life of one window: what it waits for and what holds that back, every firing and its cause, what
    was corrected, what went into it, and how it is parked.

    \b
    Example: slackwater explain departures --key JFK --window 2013-01-02T15:00
    """
    from slackwater.inspection.windows.window_life import WindowQuestion, explain_window
    from slackwater.inspection.windows.window_search import WindowName
    from slackwater.pipelines import registry
    from slackwater.windowing.times import to_datetime

    name = WindowName(None if instant_ms is None else to_datetime(instant_ms), columns)
    question = WindowQuestion(key=key, name=name, at=at, reads_source=elements, row_limit=output.row_limit)
    life = explain_window(registry.load(pipelines)[pipeline], warehouse, question)
    if output.is_json:
        printing.show_object(life.as_json())
    else:
        _tell(life, output)


def _tell(life: "WindowExplanation", output: Output) -> None:
    from slackwater.inspection.windows.window_answer import answer, further_sentences, title

    for sentence in (answer(life), title(life), *further_sentences(life)):
        _say_wrapped(sentence)
    holders = [vars(one) for one in life.waits_for.held_back_by]
    if len(holders) > 1:
        printing.show(holders, _HOLDERS, output, empty="", title="\nSource partitions that hold it back")
    _show_firings(life, output)
    _show_corrections(life, output)
    _show_elements(life, output)
    _show_parked(life, output)


def _say_wrapped(sentence: str) -> None:
    """Print a sentence in lines that fit the terminal."""
    width = printing.terminal_width()
    lines = [sentence] if width is None else textwrap.wrap(sentence, width, break_long_words=False)
    printing.say("\n".join(lines))


def _show_firings(life: "WindowExplanation", output: Output) -> None:
    window = dict(life.window.columns)
    if life.absorbed_windows:
        rows = [
            {**vars(one), **_span(one.window), "cause": "absorbed" if one.absorbed_at else "part of it"}
            for one in life.absorbed_windows
        ]
        columns = [
            Column("window", "range"),
            Column("firings"),
            Column("elements"),
            Column("absorbed_at", heading="absorbed"),
            Column("seq", "id"),
        ]
        printing.show(rows, columns, output, empty="", title="\nWindows that merged into it")
    for title, firings in (
        ("Firings", life.firings),
        ("Firings that no longer count", life.replaced_firings),
    ):
        rows = [_firing_row(firing, is_own=dict(firing.window) == window) for firing in firings]
        if rows or title == "Firings":
            columns = _firing_columns(firings, list(firings[0].values if firings else ()))
            printing.show(rows, columns, output, empty="\nIt has not fired.", title=f"\n{title}")


def _firing_columns(firings: "Sequence[WindowFiring]", results: Sequence[str]) -> list[Column]:
    has_others = len({tuple(firing.window.values()) for firing in firings}) > 1
    has_standings = any(firing.standing not in ("live", "replaced") for firing in firings)
    return [
        Column("clock", heading="at"),
        Column("seq", "id"),
        Column("standing", heading="where", is_wide=not has_standings),
        Column("window", "range", is_wide=not has_others),
        Column("cause"),
        Column("elements"),
        *(Column(f"value of {name}", heading=name) for name in results),
        Column("firing", is_wide=True),
        Column("kind", is_wide=True),
        Column("watermark", is_wide=True),
    ]


def _firing_row(firing: "WindowFiring", *, is_own: bool) -> dict[str, Any]:
    brought_by = "" if firing.brought_by == "run" else f", by {firing.brought_by}"
    withdrawal = ", withdrawn" if firing.is_withdrawal else ""
    return {
        **{name: value for name, value in vars(firing).items() if name != "window"},
        **_span(firing.window),
        "cause": f"{firing.cause.text}{withdrawal}{brought_by}",
        **{f"value of {name}": value for name, value in firing.values.items()},
    }


def _span(window: Mapping[str, Any]) -> dict[str, Any]:
    return {name: window[name] for name in ("window_start", "window_end")}


def _show_corrections(life: "WindowExplanation", output: Output) -> None:
    has_others = len({tuple(one.window.values()) for one in life.corrections}) > 1
    columns = [
        Column("seq", "id"),
        Column("op", heading="change"),
        Column("cause"),
        Column("window", "range", is_wide=not has_others),
        Column("values", "text"),
        Column("at", heading="published", is_wide=True),
        Column("revision", is_wide=True),
    ]
    rows = [
        {**vars(one), **_span(one.window), "values": _changes(one), "cause": cause_text(one.cause)}
        for one in life.corrections
    ]
    if rows:
        printing.show(rows, columns, output, empty="", title="\nWhat was published")


def _changes(correction: "WindowCorrection") -> str:
    """The results that a correction changed, old → new."""
    if correction.old is None or correction.new is None:
        values = correction.new or correction.old or {}
        return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())
    changes = [
        f"{name} {value_text(old)} → {value_text(new)}"
        for name, (old, new) in correction.changed_values.items()
    ]
    return ", ".join(changes) or f"the same values, as firing {correction.firing}"


def _show_elements(life: "WindowExplanation", output: Output) -> None:
    from slackwater.inspection.windows.window_elements import growth

    elements = life.elements
    facts = [
        *([] if elements.accepted_count is None else [("accepted", elements.accepted_count)]),
        *([] if elements.first_arrival is None else [("first arrival", elements.first_arrival)]),
        *([] if elements.last_arrival is None else [("last arrival", elements.last_arrival)]),
        ("too late", elements.late),
    ]
    printing.show_facts(facts, output, title="\nElements")
    grown = growth(elements.by_run)
    if len(grown) > 1:
        rows = [{**vars(one)} for one in grown]
        printing.show(rows, _BY_RUN, output, empty="", title="\nRuns that filled it")
    if elements.rows is not None:
        rows = [
            {**vars(row), "late": "late" if row.is_late else "", "values": source_row_text(row.values)}
            for row in elements.rows
        ]
        printing.show(
            rows, _ROWS, output, empty="\nThe source has no rows of it.", title="\nRows of the source"
        )
    if elements.late:
        rows = [{**vars(row), "values": source_row_text(row.values)} for row in elements.late_rows]
        printing.show(
            rows, _LATE_ROWS, output, empty="", title="\nRows that came too late", total=elements.late
        )


def _show_parked(life: "WindowExplanation", output: Output) -> None:
    if life.parked_state is None:
        return
    printing.show_facts(list(_parked_facts(life)), output, title="\nParked state")
    columns = [Column("time"), Column("domain"), Column("purpose"), Column("service", is_wide=True)]
    timers = life.parked_state.timers
    printing.show(timers, columns, output, empty="\nNo timer is pending.", title="\nPending timers")


def _parked_facts(life: "WindowExplanation") -> Iterator[tuple[str, Any]]:
    parked_state = life.parked_state
    assert parked_state is not None, "only an open window is parked"
    yield "seq", str(parked_state.seq)
    yield "elements", parked_state.elements
    yield "firings", parked_state.firings
    if parked_state.last_fired_at is not None:
        yield "last fired at", parked_state.last_fired_at
    yield "cleanup at watermark", parked_state.cleanup_time
    yield from parked_state.readable_parts()
    for name in ("contents", "trigger_state", "user_state"):
        value = getattr(parked_state, name)
        if value is not None:
            yield name.replace("_", " "), printing.json_text(value).replace("\n", "")
    for state in parked_state.states:
        yield f"state {state.state_name}", state.rows
