"""Global windows with a count trigger in the columnar engine, also inside a purging one (countWindow of Flink): the family.

Elements fire by their place, so they travel as they are and are aggregated where all of a key have come together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from jobs.engines.columnar.aggregates import Columns
from jobs.engines.columnar.contents import combined, restored_accumulators
from jobs.engines.columnar.families import NONE, Elements, Merged, OpenWindows, Panes, Part, Setting, Split, join_each, take_each
from jobs.engines.columnar.firing import results_of
from jobs.engines.columnar.late_order import in_order_of_arrival
from jobs.engines.columnar.tables import milliseconds
from jobs.engines.rows import ARRIVAL, EVENT
from windowing import CountTrigger, PurgingTrigger
from windowing.columnar.columns import Longs
from windowing.columnar.count_windows import CountedWindows, CountFirings, replay_counts
from windowing.columnar.groups import Groups
from windowing.state.snapshot.json_values import JsonValues
from windowing.state.snapshot.named_values import dump_states
from windowing.state.snapshot.window_rows import UNFIRED
from windowing.triggers.counting import COUNT
from windowing.windows import GLOBAL_WINDOW

_ELEMENTS = "elements"


@dataclass(frozen=True)
class CountFamily:
    """Exact for the count trigger, purging or not."""

    setting: Setting

    @property
    def max_count(self) -> int:
        """Elements a firing."""
        trigger = self.setting.pipeline.effective_trigger
        inner = trigger.trigger if isinstance(trigger, PurgingTrigger) else trigger
        assert isinstance(inner, CountTrigger)
        return inner.max_count

    def split(self, elements: Elements) -> Split:
        """Every element is accepted, and travels."""
        rows = elements.rows.select([*self.setting.read, ARRIVAL, EVENT])
        return Split({_ELEMENTS: Part(elements.keys, rows)}, None, {"rows_accepted": rows.num_rows})

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        keys, rows = in_order_of_arrival(self.setting, received[_ELEMENTS])
        clocks = self.setting.clocks(rows.column(ARRIVAL).to_numpy())
        before = self._restored(parked)
        fired, after, contents = replay_counts(
            before, keys, clocks, max_count=self.max_count, accumulates=not self.setting.purges, never=NONE
        )
        of_elements = [aggregate.partial(rows, Groups.of_each(rows.num_rows)) for aggregate in self.setting.aggregates]
        held = combined(self.setting, contents, join_each([restored_accumulators(parked.rows, self.setting), of_elements]))
        counts = {
            "windows_opened": len(after.keys) - len(before.keys),
            "windows_fired": len(fired.positions),
            "windows_open": len(after.keys),
        }
        return Merged([self._panes(fired, keys, clocks, held)], self._parked(after, held), [], counts)

    def _restored(self, parked: Part) -> CountedWindows:
        rows = parked.rows
        elements, firings = (rows.column(name).to_numpy() for name in ("elements", "firings"))
        return CountedWindows(
            parked.keys,
            elements - firings * self.max_count,
            elements,
            firings,
            milliseconds(rows.column("last_fired_at")),
            milliseconds(rows.column("first_arrival")),
            milliseconds(rows.column("last_arrival")),
            np.zeros(rows.num_rows, np.int64),
        )

    def _panes(self, fired: CountFirings, keys: Longs, clocks: Longs, held: list[Columns]) -> Panes:
        at = fired.positions
        nowhere = np.full(len(at), NONE)
        return Panes(
            "count",
            keys[at],
            nowhere,
            nowhere,
            fired.firings,
            results_of(self.setting, take_each(held, fired.contents), keys[at], nowhere, nowhere),
            fired.elements,
            self.setting.timeline.at_arrival(clocks[at]),
            nowhere,
            clocks[at],
        )

    def _parked(self, windows: CountedWindows, held: list[Columns]) -> OpenWindows:
        nowhere = np.full(len(windows.keys), NONE)
        is_empty = windows.contents < 0
        return OpenWindows(
            windows.keys,
            nowhere,
            nowhere,
            windows.elements,
            windows.firings,
            windows.last_fired_at,
            nowhere,
            nowhere,
            windows.first_arrivals,
            windows.last_arrivals,
            take_each(held, windows.contents[~is_empty]),
            is_empty,
            self._trigger_states(windows),
        )

    def _trigger_states(self, windows: CountedWindows) -> pa.Array:
        """What the trigger remembers of each window, as the snapshot codec writes it: one text for each distinct state."""
        cases, numbers = np.unique(np.stack([windows.counts, windows.firings > 0]), axis=1, return_inverse=True)
        texts = [_trigger_text(count, bool(has_fired)) for count, has_fired in cases.T.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(numbers.reshape(-1)))


def _trigger_text(count: int, has_fired: bool) -> str | None:
    """The trigger's count, and how many elements have been in no firing where the firings do not say."""
    states = {COUNT.name: {COUNT.kind: count}} if count else {}
    if count and has_fired:
        states[UNFIRED] = {"elements": count}
    return dump_states(JsonValues(), states, None, GLOBAL_WINDOW)
