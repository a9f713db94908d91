"""Draws an account as a flow: to the left what came in, to the right what became of it, as bands whose widths
are to scale.

    924 read ▐▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▌ 919 accepted   99.5 %
             ▐▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▌ 2 too late      0.2 %
             ▐▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▌ 3 quarantined   0.3 %

A part that is small keeps a width that can be seen, so the widths of small parts say too much; the numbers
stand beside them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from slackwater.inspection.runs.run_account import Account, AccountPart, rows_account, windows_account
from slackwater.readable import number_text, share_text
from slackwater.tables.ledger.rows import LedgerRow

_BAR, _BAND = 10, 46  # how wide
_LETTER = 6.6
_TOP = 12
_FULL = 144  # the height of all that came in
_LEAST = 3
_GAP, _LINE = 8, 20
_COLOURS: Mapping[str, str] = {
    "rows_late": "f-second",
    "rows_quarantined": "f-bad",
    "rows_unassigned": "f-fourth",
    "rows_filtered": "f-muted",
    "rows_duplicate": "f-muted",
    "windows_open": "f-third",
    "windows_cleaned": "f-muted",
    "windows_merged": "f-fourth",
}


class _Place(NamedTuple):
    """Where a part is drawn: its bar, and its stretch of the bar in the middle; each a top and a height."""

    part: AccountPart
    bar: tuple[float, float]
    middle: tuple[float, float]

    @property
    def colour(self) -> str:
        return _COLOURS.get(self.part.name, "f-accent")

    @property
    def centre(self) -> float:
        return self.bar[0] + self.bar[1] / 2


def flow_drawing(account: Account, names: Mapping[str, str], label: str) -> Markup:
    """An SVG of an account. A single source has no bar beside the one in the middle; parts of nothing are
    left out.
    """
    sources = list(_places(account.sources, account.total))
    outcomes = list(_places(account.outcomes, account.total))
    left_texts = [f"{number_text(place.part.amount)} {names[place.part.name]}" for place in sources]
    right_texts = [f"{number_text(place.part.amount)} {names[place.part.name]}" for place in outcomes]
    left = round(max(map(len, left_texts)) * _LETTER) + 12
    middle = left if len(sources) == 1 else left + _BAR + _BAND
    right = middle + _BAR + _BAND
    width = right + _BAR + round((max(map(len, right_texts)) + len(" 99.5 %")) * _LETTER) + 12
    pieces = [
        *(_band(left + _BAR, place.bar, middle, place.middle, place.colour) for place in sources),
        *(_band(middle + _BAR, place.middle, right, place.bar, place.colour) for place in outcomes),
        *(_bar(left, place.bar, place.colour) for place in sources),
        _bar(middle, (_TOP, _FULL), "f-accent"),
        *(_bar(right, place.bar, place.colour) for place in outcomes),
        *(_label(left - 8, place, "end", text) for place, text in zip(sources, left_texts, strict=True)),
        *(
            _label(right + _BAR + 8, place, "start", text, account.total)
            for place, text in zip(outcomes, right_texts, strict=True)
        ),
    ]
    bottoms = [max(sum(place.bar), place.centre + _LINE / 2) for place in (*sources, *outcomes)]
    height = round(max(_TOP + _FULL, *bottoms)) + 4
    return Markup('<svg class="drawing" width="{}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        width, height, label, Markup("").join(pieces)
    )


def _places(parts: Sequence[AccountPart], total: int) -> Iterator[_Place]:
    """The places of the parts that are not nothing, from top to bottom, far enough apart for their labels."""
    visible_parts = [part for part in parts if part.amount]
    heights = [max(_LEAST, _FULL * part.amount / total) for part in visible_parts]
    scale = _FULL / max(sum(heights), 1)
    top, middle_top, label_end = float(_TOP), float(_TOP), 0.0
    for part, height in zip(visible_parts, heights, strict=True):
        top = max(top, label_end + _LINE / 2 - height / 2)
        yield _Place(part, (top, height), (middle_top, height * scale))
        label_end = top + height / 2 + _LINE / 2
        top += height + _GAP
        middle_top += height * scale


def _band(
    left: int, left_side: tuple[float, float], right: int, right_side: tuple[float, float], colour: str
) -> Markup:
    """A band between two vertical stretches."""
    half = (left + right) / 2
    (left_top, left_height), (right_top, right_height) = left_side, right_side
    return Markup(
        '<path class="{}" fill-opacity="0.28" d="M{} {:.1f} C{} {:.1f} {} {:.1f} {} {:.1f} L{} {:.1f} '
        'C{} {:.1f} {} {:.1f} {} {:.1f} Z"/>'
    ).format(
        *(colour, left, left_top, half, left_top, half, right_top, right, right_top),
        *(right, right_top + right_height, half, right_top + right_height),
        *(half, left_top + left_height, left, left_top + left_height),
    )


def _bar(x: int, side: tuple[float, float], colour: str) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        colour, x, side[0], _BAR, side[1]
    )


def _label(x: int, place: _Place, anchor: str, text: str, total: int = 0) -> Markup:
    """The text of a part, and where there is a total its share, unless it is all."""
    amount = place.part.amount
    share = Markup(' <tspan class="soft">{}</tspan>')
    return Markup('<text x="{}" y="{:.1f}" text-anchor="{}">{}{}</text>').format(
        *(x, place.centre + 4, anchor, text),
        share.format(share_text(amount / total)) if amount < total else "",
    )


_NAMES = {
    "rows_read": "read",
    "rows_accepted": "accepted",
    "rows_late": "too late",
    "rows_unassigned": "unassigned",
    "rows_quarantined": "quarantined",
    "rows_filtered": "filtered",
    "rows_duplicate": "duplicate",
    "windows_before": "open before",
    "windows_opened": "opened",
    "windows_open": "open after",
    "windows_cleaned": "cleaned up",
    "windows_merged": "merged away",
}


class Flow(NamedTuple):
    """An account as a drawing (None where there is nothing to draw) and as numbers: `924 read = 919 accepted
    + 2 too late + 3 quarantined`, and what is missing in it.
    """

    title: str
    drawing: Markup | None
    equation: str
    difference: int


def rows_flow(run: LedgerRow) -> Flow:
    return _flow("Rows", rows_account(run))


def windows_flow(run: LedgerRow, before: LedgerRow | None) -> Flow:
    return _flow("Windows", windows_account(run, before))


def _flow(title: str, account: Account) -> Flow:
    equation = " = ".join(
        " + ".join(f"{part.amount:,} {_NAMES[part.name]}" for part in parts)
        for parts in (account.sources, account.outcomes)
    )
    drawing = flow_drawing(account, _NAMES, equation) if account.total else None
    return Flow(title, drawing, equation, account.difference)
