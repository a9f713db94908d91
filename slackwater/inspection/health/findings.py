"""The values of a judgement: colours, findings and thresholds, and what counts as far above a history. Pure
functions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import wraps
from statistics import median
from typing import Any, TypeVar

from slackwater.inspection.runs.run_series import RunFigures
from slackwater.pipelines import Health, Pipeline
from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.warehouse import Tables, Warehouse

Amount = TypeVar("Amount", float, timedelta)
# A history of fewer runs says nothing of what is usual.
LEAST_HISTORY = 5
# Of normally distributed values, the standard deviation is so many times the median distance to the median.
_DEVIATION = 1.4826
_FAR_SPREADS = 5
_FAR_FACTOR = 2


class Colour(StrEnum):
    """How well something is, best first."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"

    @property
    def rank(self) -> int:
        return list(Colour).index(self)


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a pipeline.

    Attributes:
        colour: None where it can't be judged.
        text: the reason, as a clause: what is, and where it helps what is usual.
        command: what to type next; None where there is nothing to do.
        value: what was judged, in the unit of the question (seconds, a share, a factor, a number).
    """

    colour: Colour | None
    text: str
    command: str | None = None
    value: float | None = None

    @property
    def rank(self) -> int:
        """That of its colour; −1 where it can't be judged."""
        return -1 if self.colour is None else self.colour.rank


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A pipeline at one moment: declaration (None: not registered), tables, main's newest ledger row (None
    before the first run), the last live runs in slice order with their figures, and the wall clock.
    """

    pipeline: str
    declaration: Pipeline | None
    warehouse: Warehouse
    tables: Tables
    head: LedgerRow | None
    runs: tuple[LedgerRow, ...]
    series: tuple[RunFigures, ...]
    now: datetime

    @property
    def thresholds(self) -> Health:
        return Health() if self.declaration is None else self.declaration.health

    @property
    def head_end(self) -> datetime | None:
        return self.series[-1].slice_end if self.series else None

    @property
    def is_closed(self) -> bool:
        return bool(self.runs) and self.runs[-1].kind == RowKind.CLOSE


def needing_declaration(subject_and_verb: str) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
    """Let a judge have the declaration as its second argument; a pipeline without one is not judged, because
    `subject_and_verb` not known.
    """

    def decorate(judge: Callable[..., Finding]) -> Callable[..., Finding]:
        @wraps(judge)
        def judge_declared(subject: Subject, *arguments: Any) -> Finding:
            if subject.declaration is None:
                return Finding(None, f"{subject_and_verb} not known: the pipeline is not registered here")
            return judge(subject, subject.declaration, *arguments)

        return judge_declared

    return decorate


def colour_of(amount: Amount, limits: tuple[Amount | None, Amount | None]) -> Colour:
    """The colour of an amount by its thresholds (yellow, red); None is never reached."""
    yellow, red = limits
    if red is not None and amount >= red:
        return Colour.RED
    return Colour.YELLOW if yellow is not None and amount >= yellow else Colour.GREEN


def worst(colours: Iterable[Colour | None]) -> Colour:
    """The worst of `colours`, of which some may not be known; green where there is none."""
    known_colours = (colour for colour in colours if colour is not None)
    return max(known_colours, key=lambda colour: colour.rank, default=Colour.GREEN)


def is_far_above(amount: float, history: Sequence[float]) -> bool:
    """Whether an amount is more than twice the median of earlier ones, and further from it than five times
    their spread (1.4826 times the median distance from the median). False where there are fewer than
    `LEAST_HISTORY`.
    """
    if len(history) < LEAST_HISTORY:
        return False
    middle = median(history)
    spread = _DEVIATION * median(abs(value - middle) for value in history)
    return amount > max(_FAR_FACTOR * middle, middle + _FAR_SPREADS * spread)
