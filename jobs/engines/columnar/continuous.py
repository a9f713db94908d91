"""Windows that fire at every interval of event time in the columnar engine, also inside a purging trigger:
the family. A trigger that waits for the end of the global window is one without an interval.

What a firing holds depends on when elements came, so they travel as they are and are aggregated where all of
a window have come together.
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
    Timers,
    take_each,
)
from slackwater.jobs.engines.columnar.firing import results_of
from slackwater.jobs.engines.columnar.trigger_states import read_trigger_texts, trigger_texts
from slackwater.windowing import ContinuousEventTimeTrigger
from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.continuous_windows import (
    EARLY,
    LATE,
    NO_CONTENTS,
    ON_TIME,
    ONLY_AT_THE_END,
    ContinuousFirings,
    ContinuousWindows,
    Takings,
    replay_continuous,
)
from slackwater.windowing.columnar.timeline import NEVER
from slackwater.windowing.triggers.continuous import FIRE_TIME

_KINDS = {EARLY: "early", ON_TIME: "on_time", LATE: "late"}


@dataclass(frozen=True)
class ContinuousFamily:
    """Exact for the continuous trigger of event time, purging or not, and in the global window for those that
    fire at its end.
    """

    setting: Setting

    @property
    def interval_ms(self) -> int:
        """From firing to firing."""
        inner = self.setting.trigger
        return inner.interval_ms if isinstance(inner, ContinuousEventTimeTrigger) else ONLY_AT_THE_END

    def split(self, elements: Elements) -> Split:
        return travelling(self.setting, elements)

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        windows = ElementWindows.of(self.setting, received, parked)
        at = windows.elements
        fired, after, contents = replay_continuous(
            self._restored(windows),
            windows.known,
            windows.spans.last_instants,
            Takings(windows.windows, windows.events[at], windows.clocks[at]),
            interval_ms=self.interval_ms,
            accumulates=not self.setting.purges,
            timeline=self.setting.timeline,
        )
        held = windows.holds(contents)
        timers = self._timers(windows, after)
        is_late = (fired.kinds == LATE) & (windows.spans.cleanups[fired.windows] != NEVER)
        counts = {
            **windows.counts(),
            "windows_fired": int(np.count_nonzero(~is_late)),
            "windows_refired": int(np.count_nonzero(is_late)),
            "elements_never_fired": int(after.unfired[~windows.stays()].sum()),
            "assignments_cleaned": int(after.elements[~windows.stays()].sum()),
            "timers_pending": sum(len(part.keys) for part in timers),
        }
        panes = [self._panes(windows, fired, kind, held) for kind in _KINDS]
        return Merged(panes, open_windows(windows, self._lives(windows, after), held), timers, counts)

    def _restored(self, windows: ElementWindows) -> ContinuousWindows:
        elements, firings, last_fired, first, last = windows.parked_columns()
        fire_times, unfired = read_trigger_texts(
            FIRE_TIME, windows.parked.column("trigger_state"), elements, firings
        )
        if self.interval_ms == ONLY_AT_THE_END:
            fire_times = windows.spans.last_instants[windows.known]
        contents = np.where(np.asarray(windows.parked.column("contents").is_null()), 0, NO_CONTENTS)
        return ContinuousWindows(fire_times, elements, unfired, firings, last_fired, first, last, contents)

    def _panes(
        self, windows: ElementWindows, fired: ContinuousFirings, kind: int, held: list[Columns]
    ) -> Panes:
        """The firings of one kind."""
        chosen = np.flatnonzero(fired.kinds == kind)
        spans, moments = windows.spans.take(fired.windows[chosen]), fired.moments[chosen]
        nowhere = np.full(len(chosen), NONE)
        return Panes(
            "count" if fixed_windows(self.setting) is None else _KINDS[kind],
            spans.keys,
            spans.starts,
            spans.ends,
            fired.firings[chosen],
            results_of(
                self.setting, take_each(held, fired.contents[chosen]), spans.keys, spans.starts, spans.ends
            ),
            fired.elements[chosen],
            fired.watermarks[chosen],
            nowhere if kind == LATE else moments,
            moments if kind == LATE else nowhere,
        )

    def _lives(self, windows: ElementWindows, after: ContinuousWindows) -> Lives:
        waits = windows.spans.last_instants > self.setting.timeline.final
        remembered = np.full(len(waits), NONE) if self.interval_ms == ONLY_AT_THE_END else after.fire_times
        return Lives(
            after.elements,
            after.firings,
            after.last_fired_at,
            np.where(waits & (after.fire_times != NEVER), after.fire_times, NONE),
            after.first_arrivals,
            after.last_arrivals,
            after.contents,
            trigger_texts(FIRE_TIME, remembered, after.elements, after.firings, after.unfired),
        )

    def _timers(self, windows: ElementWindows, after: ContinuousWindows) -> list[Timers]:
        """The next firing, where it is not the last; the last instant; and the cleanup, which may be the same
        moment.
        """
        spans, stays = windows.spans, windows.stays()
        last_instants, cleanups = spans.last_instants, spans.cleanups
        waits = stays & (last_instants > self.setting.timeline.final)
        is_timed = cleanups != NEVER

        def timers(purpose: str, chosen: Booleans, times: Longs) -> Timers:
            rows = np.flatnonzero(chosen)
            return timers_at(purpose, spans.take(rows), times[rows])

        cleans = last_instants == cleanups
        return [
            timers("trigger", waits & (after.fire_times < last_instants), after.fire_times),
            timers("trigger", waits & ~is_timed, last_instants),
            timers("fire", waits & is_timed & ~cleans, last_instants),
            timers("fire+cleanup", waits & is_timed & cleans, last_instants),
            timers("cleanup", stays & is_timed & ~(waits & cleans), cleanups),
        ]
