"""The family of event-time sessions with one gap.

Map side: harmless elements (`is_harmless` of the kernel), which no session that has fired can reach, are
aggregated by key and session into pieces; the others, the tardy ones, travel one by one. A batch knows only
its own elements, so one session may come to its range in several pieces.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators
from slackwater.engine.columnar.families import (
    DOUBTFUL,
    A,
    BatchElements,
    Part,
    RangeInput,
    Setting,
    Split,
    accumulator_names,
    elements_in_order,
    read_accumulators,
)
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, PLACE
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, run_numbers
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.sessions.chains import SessionRules, chain_intervals
from slackwater.windowing.columnar.sessions.kernel import is_harmless, replay_sessions
from slackwater.windowing.columnar.window_columns import Pieces

PIECES, TARDY = "pieces", "tardy"
START, END, ELEMENTS, FIRST, LAST = "__start", "__end", "__elements", "__first_arrival", "__last_arrival"


@dataclass(frozen=True)
class SessionFamily:
    """Sessions with EventTimeTrigger, also inside a purging trigger."""

    setting: Setting
    trigger_state = None

    @property
    def rules(self) -> SessionRules:
        pipeline = self.setting.pipeline
        gap_ms = pipeline.windows.session_gap_ms
        assert gap_ms is not None
        return SessionRules(
            gap_ms=gap_ms,
            lateness_ms=pipeline.allowed_lateness_ms,
            accumulates=not self.setting.purges,
            collected_mark=self.setting.timeline.collected_mark,
        )

    def split(self, elements: BatchElements) -> Split:
        """Three parts: pieces of sessions; tardy elements, which are accepted; doubtful elements, which are
        late unless they join an open session.
        """
        harmless = is_harmless(elements.times, elements.watermarks)
        is_late = self.rules.are_late(elements.times + (self.rules.gap_ms - 1), elements.watermarks)
        doubtful, tardy = np.flatnonzero(~harmless & is_late), np.flatnonzero(~harmless & ~is_late)
        tardy_rows = elements.rows.select([*self.setting.source_columns, ARRIVAL, EVENT]).take(
            pa.array(tardy)
        )
        parts = {
            PIECES: self._pieces(elements, None if harmless.all() else harmless),
            TARDY: Part(elements.keys[tardy], tardy_rows),
            DOUBTFUL: Part(elements.keys[doubtful], elements.full_rows(doubtful)),
        }
        accepted_count = len(harmless) - len(doubtful)
        return Split(
            parts, late=None, counts={"rows_accepted": accepted_count, "assignments_made": accepted_count}
        )

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        keys, rows = parts[PIECES]
        pieces = Pieces(
            keys=keys,
            firsts=rows.column(START).to_numpy(),
            lasts=rows.column(END).to_numpy() - self.rules.gap_ms,
            elements=rows.column(ELEMENTS).to_numpy(),
            first_arrivals=rows.column(FIRST).to_numpy(),
            last_arrivals=rows.column(LAST).to_numpy(),
        )
        certain, doubtful = parts[TARDY], parts[DOUBTFUL]
        names = certain.rows.column_names
        places = np.append(np.full(certain.rows.num_rows, -1), np.arange(doubtful.rows.num_rows))
        both = pa.concat_tables([certain.rows, doubtful.rows.select(names)])
        elements, tardy = elements_in_order(
            self.setting,
            Part(np.append(certain.keys, doubtful.keys), both.append_column(PLACE, pa.array(places))),
        )
        slice_input = SliceInput(
            pieces=pieces,
            piece_accumulators=read_accumulators(rows, self.setting),
            elements=elements,
            element_accumulators=ArrowAccumulators.from_elements(self.setting.aggregates, tardy),
        )
        return RangeInput(slice_input, tardy.column(PLACE).to_numpy())

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        return replay_sessions(slice_input, initial_state, self.setting.timeline, self.rules)

    def _pieces(self, elements: BatchElements, chosen: Booleans | None) -> Part:
        """Partial aggregates by key and session of the chosen rows; None: of all. The others make one more
        group, which is cut off: cheaper than a copy of the chosen rows.
        """
        keys, events, clocks = elements.keys, elements.times, elements.clocks
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
        clocks_in_order = clocks[order]
        columns = {
            START: pa.array(events[order[starts]]),
            END: pa.array(chains.lasts + self.rules.gap_ms),
            ELEMENTS: pa.array(np.diff(np.append(starts, len(order)))),
            FIRST: pa.array(_reduce_runs(np.minimum, clocks_in_order, starts)),
            LAST: pa.array(_reduce_runs(np.maximum, clocks_in_order, starts)),
        }
        for names, aggregate in zip(accumulator_names(self.setting), self.setting.aggregates, strict=True):
            partial = aggregate.partial(elements.rows, groups)
            columns |= dict(zip(names, (column.slice(0, size) for column in partial), strict=True))
        return Part(keys[order[starts]], pa.table(columns))


def _reduce_runs(function: np.ufunc, values: Longs, starts: Longs) -> Longs:
    return function.reduceat(values, starts) if len(starts) else values
