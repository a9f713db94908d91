"""Draws the graph of a lineage as git draws branches: to the right the time of the slices, on the first line
main, below it the branches, each from where it began to where main took it.

    main      ●──●──×──×──◆──●──●
                  ╲      ╱
    restate        ●────●            published

A run leads to its page. The shape of a mark says what it means as well as its colour: a disc is live, a
ring waits on a branch, a cross was replaced, a diamond is a publication.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from slackwater.inspection.runs.lineage_graph import GraphBranch, GraphRun, LineageGraph, Standing
from slackwater.readable import count_text, range_text, time_text
from slackwater.tables.ledger.rows import LedgerRow, RowKind

_LEFT, _RIGHT, _TOP, _LANE, _FOOT = 52, 40, 34, 44, 30
_WIDE, _LEAST_STEP, _MOST_STEP = 1080, 14, 48
_CURVE = 14
_LETTER = 6.6
_NUMBER_WIDTH, _TIME_WIDTH = 26, 130


@dataclass(frozen=True)
class _Scale:
    """Where times and lanes lie in the drawing."""

    first: datetime
    last: datetime
    width: int

    def x(self, moment: datetime) -> float:
        share = (moment - self.first) / (self.last - self.first)
        return _LEFT + max(0.0, min(1.0, share)) * self.width

    def middle(self, row: LedgerRow) -> float:
        """The place of a slice, whose times are there."""
        assert row.slice_start is not None and row.slice_end is not None, "runs have slices"
        return (self.x(row.slice_start) + self.x(row.slice_end)) / 2

    @staticmethod
    def y(lane: int) -> int:
        return _TOP + lane * _LANE


def lineage_drawing(
    graph: LineageGraph, first: datetime, last: datetime, href: Callable[[int], str]
) -> Markup:
    """An SVG of the runs whose slices lie in [first, last); `href`: seq of a ledger row → URL of its page."""
    runs = [run for run in graph.runs if _ends_after(run.row, first)]
    branches = [branch for branch in graph.branches if branch.end > first or branch.start >= first]
    slices = {(run.row.slice_start, run.row.slice_end) for run in runs}
    step = max(_LEAST_STEP, min(_MOST_STEP, _WIDE // max(1, len(slices))))
    scale = _Scale(first, last, step * max(1, len(slices)))
    width, height = _LEFT + scale.width + _RIGHT, scale.y(graph.lanes - 1) + _FOOT + 24
    pieces = [
        *_main_line(scale),
        *(piece for branch in branches for piece in _branch(branch, scale)),
        *_names(branches, scale),
        *_times(runs, scale, height),
        *(_run(run, scale, href(run.row.seq)) for run in runs),
        *(_publication(row, scale, href(row.seq)) for row in graph.moves if _is_drawn(row, first)),
        *_numbers(runs, scale),
    ]
    label = f"{count_text(len(runs), 'run')} and {count_text(len(branches), 'branch', 'branches')}"
    return Markup('<svg class="drawing" width="{}" height="{}" role="group" aria-label="{}">{}</svg>').format(
        width, height, label, Markup("").join(pieces)
    )


def _ends_after(row: LedgerRow, first: datetime) -> bool:
    return row.slice_end is not None and row.slice_end > first


def _is_drawn(row: LedgerRow, first: datetime) -> bool:
    return row.kind == RowKind.PUBLISH and _ends_after(row, first)


def _main_line(scale: _Scale) -> Iterator[Markup]:
    y = scale.y(0)
    yield Markup('<text class="soft" x="8" y="{}">main</text>').format(y + 4)
    yield Markup('<path class="s-line f-none" stroke-width="2" d="M{} {} H{:.1f}"/>').format(
        _LEFT - 8, y, scale.x(scale.last)
    )


def _branch(branch: GraphBranch, scale: _Scale) -> Iterator[Markup]:
    """The line of a branch, from main and, once it is published, back to main."""
    start, end = scale.x(branch.start), max(scale.x(branch.end), scale.x(branch.start) + 3 * _CURVE)
    main, y = scale.y(0), scale.y(branch.lane)
    down = f"M{start:.1f} {main} C{start:.1f} {y} {start:.1f} {y} {start + _CURVE:.1f} {y}"
    along = f"H{end - _CURVE:.1f}"
    up = f"C{end:.1f} {y} {end:.1f} {y} {end:.1f} {main}" if branch.publications else ""
    colour = "s-third" if branch.publications else "s-line" if branch.is_dropped else "s-accent"
    yield Markup('<path class="{} f-none" stroke-width="2" d="{} {} {}"/>').format(colour, down, along, up)


def _names(branches: Sequence[GraphBranch], scale: _Scale) -> Iterator[Markup]:
    """The names of the branches below their lines, as much of each as has room before the next one."""
    for branch in branches:
        start = scale.x(branch.start) + _CURVE
        nexts = [
            scale.x(other.start)
            for other in branches
            if other.lane == branch.lane and other.start > branch.start
        ]
        room = int((min(nexts, default=scale.x(scale.last) + _RIGHT) - start) / _LETTER)
        fate = "published" if branch.publications else "dropped" if branch.is_dropped else "not published"
        text = f"{branch.name} ({fate})"
        if len(text) > room:
            text = branch.name if len(branch.name) <= room else f"{branch.name[: max(0, room - 1)]}…"
        yield Markup('<text class="soft" x="{:.1f}" y="{}"><title>{} ({})</title>{}</text>').format(
            start, scale.y(branch.lane) + 20, branch.name, fate, text
        )


def _run(run: GraphRun, scale: _Scale, href: str) -> Markup:
    row = run.row
    x, y = scale.middle(row), scale.y(run.lane)
    match run.standing:
        case Standing.LIVE:
            colour = "f-second" if row.verdict == "warned" else "f-accent"
            mark = Markup('<circle class="{}" cx="{:.1f}" cy="{}" r="5"/>').format(colour, x, y)
        case Standing.WAITING:
            mark = Markup(
                '<circle class="f-surface s-accent" stroke-width="2" cx="{:.1f}" cy="{}" r="4.5"/>'
            ).format(x, y)
        case Standing.OBSOLETE:
            mark = Markup(
                '<rect class="f-surface" x="{0:.1f}" y="{1}" width="10" height="10"/>'
                '<path class="s-muted f-none" stroke-width="2" '
                'd="M{0:.1f} {1} l10 10 m0 -10 l-10 10"/>'
            ).format(x - 5, y - 5)
    what = (
        f"{row.kind} {row.seq}, {range_text(row.slice_start, row.slice_end)}: {row.verdict or 'no verdict'}, "
        f"{count_text(row.rows_read, 'row')}, {row.rows_late:,} too late; {run.standing}"
    )
    return _link(href, what, mark)


def _publication(row: LedgerRow, scale: _Scale, href: str) -> Markup:
    assert row.slice_end is not None, "publications have ranges"
    mark = Markup('<path class="f-third" d="M{:.1f} {} l6 6 l-6 6 l-6 -6 Z"/>').format(
        scale.x(row.slice_end), scale.y(0) - 6
    )
    return _link(href, f"publication {row.seq}, {range_text(row.slice_start, row.slice_end)}", mark)


def _link(href: str, what: str, mark: Markup) -> Markup:
    return Markup('<a href="{}" aria-label="{}"><title>{}</title>{}</a>').format(href, what, what, mark)


def _numbers(runs: list[GraphRun], scale: _Scale) -> Iterator[Markup]:
    free = 0.0
    for run in runs:
        x = scale.middle(run.row)
        if run.lane or run.standing is not Standing.LIVE or x < free:
            continue
        free = x + _NUMBER_WIDTH
        yield Markup('<text class="soft" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            x, scale.y(0) - 14, run.row.seq
        )


def _times(runs: list[GraphRun], scale: _Scale, height: int) -> Iterator[Markup]:
    """Starts of slices along the bottom, as many as have room."""
    free = 0.0
    for start in sorted({run.row.slice_start for run in runs if run.row.slice_start is not None}):
        x = scale.x(start)
        if x < free or x + _TIME_WIDTH > _LEFT + scale.width + _RIGHT:
            continue
        free = x + _TIME_WIDTH
        yield Markup('<path class="s-line" d="M{0:.1f} {1} v6"/>').format(x, height - 26)
        yield Markup('<text class="soft" x="{:.1f}" y="{}">{}</text>').format(x, height - 8, time_text(start))
