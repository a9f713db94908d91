"""Windows with a count trigger in the columnar engine, also inside a purging one (countWindow of Flink): the
family. A trigger that never fires is one that counts for ever.

Elements fire by their place, so they travel as they are and are aggregated where all of a window have come
together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.element_windows import (
    ElementWindows,
    Lives,
    fixed_windows,
    open_windows,
    timers_at,
    travelling,
)
from slackwater.jobs.engines.columnar.families import (
    NONE,
    Elements,
    Merged,
    Panes,
    Part,
    Setting,
    Split,
    take_each,
)
from slackwater.jobs.engines.columnar.firing import results_of
from slackwater.jobs.engines.columnar.trigger_states import trigger_texts
from slackwater.windowing import CountTrigger, NeverTrigger
from slackwater.windowing.columnar.columns import Booleans
from slackwater.windowing.columnar.count_windows import CountedWindows, CountFirings, replay_counts
from slackwater.windowing.columnar.timeline import NEVER
from slackwater.windowing.triggers.counting import COUNT


@dataclass(frozen=True)
class CountFamily:
    """Exact for the count trigger and for the one that never fires, purging or not."""

    setting: Setting

    @property
    def max_count(self) -> int:
        """Elements a firing; as in Flink, each element fires when none is asked for."""
        inner = self.setting.trigger
        if isinstance(inner, NeverTrigger):
            return NEVER
        assert isinstance(inner, CountTrigger)
        return max(inner.max_count, 1)

    def split(self, elements: Elements) -> Split:
        return travelling(self.setting, elements)

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        windows = ElementWindows.of(self.setting, received, parked)
        clocks = windows.clocks[windows.elements]
        fired, after, contents = replay_counts(
            self._restored(windows),
            windows.windows,
            clocks,
            max_count=self.max_count,
            accumulates=not self.setting.purges,
            never=NONE,
        )
        held = windows.holds(contents)
        is_timed, stays = windows.spans.cleanups != NEVER, windows.stays()
        fired_windows = windows.windows[fired.positions]
        watermarks = self.setting.timeline.at_arrival(clocks[fired.positions])
        is_late = is_timed[fired_windows] & (windows.spans.last_instants[fired_windows] <= watermarks)
        first_kind = "count" if fixed_windows(self.setting) is None else "early"
        cleaned = windows.spans.take(np.flatnonzero(stays & is_timed))
        counts = {
            **windows.counts(),
            "windows_fired": int(np.count_nonzero(~is_late)),
            "windows_refired": int(np.count_nonzero(is_late)),
            "elements_never_fired": int(after.counts[~stays].sum()),
            "assignments_cleaned": int(after.elements[~stays].sum()),
            "timers_pending": len(cleaned.keys),
        }
        panes = [
            self._panes(kind, windows, fired, rows, held)
            for kind, rows in ((first_kind, ~is_late), ("late", is_late))
        ]
        return Merged(
            panes,
            open_windows(windows, self._lives(after), held),
            [timers_at("cleanup", cleaned, cleaned.cleanups)],
            counts,
        )

    def _restored(self, windows: ElementWindows) -> CountedWindows:
        elements, firings, last_fired, first, last = windows.parked_columns()
        counts = elements - firings * self.max_count
        return CountedWindows(
            windows.known,
            counts,
            elements,
            firings,
            last_fired,
            first,
            last,
            np.zeros(len(elements), np.int64),
        )

    def _panes(
        self, kind: str, windows: ElementWindows, fired: CountFirings, chosen: Booleans, held: list[Columns]
    ) -> Panes:
        """The firings of one kind."""
        positions, firings, elements, contents = (column[chosen] for column in fired)
        spans = windows.spans.take(windows.windows[positions])
        clocks = windows.clocks[windows.elements[positions]]
        return Panes(
            kind,
            spans.keys,
            spans.starts,
            spans.ends,
            firings,
            results_of(self.setting, take_each(held, contents), spans.keys, spans.starts, spans.ends),
            elements,
            self.setting.timeline.at_arrival(clocks),
            np.full(len(positions), NONE),
            clocks,
        )

    def _lives(self, after: CountedWindows) -> Lives:
        counts = after.counts
        remembered = (
            np.full(len(counts), NONE) if self.max_count == NEVER else np.where(counts > 0, counts, NONE)
        )
        return Lives(
            after.elements,
            after.firings,
            after.last_fired_at,
            np.full(len(counts), NONE),
            after.first_arrivals,
            after.last_arrivals,
            after.contents,
            trigger_texts(COUNT, remembered, after.elements, after.firings, counts),
        )
