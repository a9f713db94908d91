"""Tumbling and sliding windows of event time in the columnar engine: the family that joins their map side and
their range side.

How is in `fixed_split` and `fixed_merge`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.jobs.engines.columnar.families import Elements, Merged, Part, Setting, Split
from slackwater.jobs.engines.columnar.fixed_merge import FixedMerge
from slackwater.jobs.engines.columnar.fixed_split import FixedSplit
from slackwater.windowing.columnar.fixed_windows import FixedWindows


@dataclass(frozen=True)
class FixedFamily:
    """Exact for the event-time trigger, also inside a purging one."""

    setting: Setting

    @property
    def windows(self) -> FixedWindows:
        """The windows of the pipeline's assigner."""
        grid = self.setting.pipeline.windows.grid
        assert grid is not None
        lateness_ms, collected_ms = self.setting.pipeline.allowed_lateness_ms, self.setting.timeline.collected
        return FixedWindows(*grid, lateness_ms, collected_ms)

    def split(self, elements: Elements) -> Split:
        return FixedSplit(self.setting, self.windows).split(elements)

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        return FixedMerge(self.setting, self.windows).merge(received, parked)
