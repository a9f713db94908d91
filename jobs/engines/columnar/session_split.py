"""The map side of sessions: elements that nothing fired can reach are aggregated by key and session at once;
the others travel as they are.

Which are which, the kernel says. Nothing here depends on what other batches hold: a session may come in
pieces.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.families import Elements, Part, Setting, Split
from slackwater.jobs.engines.columnar.fixed_split import accumulator_names
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.groups import Groups, run_numbers
from slackwater.windowing.columnar.session_chains import SessionRules
from slackwater.windowing.columnar.session_intervals import chain_intervals
from slackwater.windowing.columnar.sessions import is_harmless

PIECES, TARDY, DOUBTFUL = "pieces", "tardy", "doubtful"
START, END, ELEMENTS, FIRST, LAST = "__start", "__end", "__elements", "__first_arrival", "__last_arrival"


@dataclass(frozen=True)
class SessionSplit:
    """Splits batches for one pipeline and slice."""

    setting: Setting
    rules: SessionRules

    def split(self, elements: Elements) -> Split:
        """Pieces of sessions; tardy elements that are accepted in any case; and doubtful ones, late unless
        they join an open session.
        """
        harmless = is_harmless(elements.events, elements.watermarks)
        is_late = self.rules.are_late(elements.events + (self.rules.gap_ms - 1), elements.watermarks)
        doubtful, tardy = np.flatnonzero(~harmless & is_late), np.flatnonzero(~harmless & ~is_late)
        parts = {
            PIECES: self._pieces(elements, None if harmless.all() else harmless),
            TARDY: Part(
                elements.keys[tardy],
                elements.rows.select([*self.setting.read, ARRIVAL, EVENT]).take(pa.array(tardy)),
            ),
            DOUBTFUL: Part(elements.keys[doubtful], elements.whole(doubtful)),
        }
        accepted = len(harmless) - len(doubtful)
        return Split(parts, None, {"rows_accepted": accepted, "assignments_made": accepted})

    def _pieces(self, elements: Elements, chosen: Booleans | None) -> Part:
        """Sessions of the chosen rows. The others make a group of their own, which is left out: that is
        cheaper than a copy of the rows.
        """
        keys, events, clocks = elements.keys, elements.events, elements.clocks
        codes = np.empty(len(keys), np.int64)
        if chosen is not None:
            keys, events, clocks = keys[chosen], events[chosen], clocks[chosen]
        chains = chain_intervals(keys, events, events, self.rules.gap_ms)
        starts, order, size = chains.starts, chains.order, len(chains.starts)
        if chosen is None:
            codes[order] = run_numbers(starts, len(order))
        else:
            codes[:] = size
            codes[np.flatnonzero(chosen)[order]] = run_numbers(starts, len(order))
        groups = Groups(codes, size if chosen is None else size + 1)
        ordered = clocks[order]
        columns = {
            START: pa.array(events[order[starts]]),
            END: pa.array(chains.lasts + self.rules.gap_ms),
            ELEMENTS: pa.array(np.diff(np.append(starts, len(order)))),
            FIRST: pa.array(_reduced(np.minimum, ordered, starts)),
            LAST: pa.array(_reduced(np.maximum, ordered, starts)),
        }
        for names, aggregate in zip(accumulator_names(self.setting), self.setting.aggregates, strict=True):
            partial = aggregate.partial(elements.rows, groups)
            columns |= dict(zip(names, (column.slice(0, size) for column in partial), strict=True))
        return Part(keys[order[starts]], pa.table(columns))


def _reduced(function: np.ufunc, values: Longs, starts: Longs) -> Longs:
    return function.reduceat(values, starts) if len(starts) else values
