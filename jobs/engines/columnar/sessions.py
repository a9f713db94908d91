"""Sessions of event time with one gap in the columnar engine: the family that joins their map side and their
range side.

How is in `session_split` and `session_merge`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.jobs.engines.columnar.families import Elements, Merged, Part, Setting, Split
from slackwater.jobs.engines.columnar.session_merge import SessionMerge
from slackwater.jobs.engines.columnar.session_split import SessionSplit
from slackwater.windowing.columnar.session_chains import SessionRules


@dataclass(frozen=True)
class SessionFamily:
    """Exact for the event-time trigger, also inside a purging one."""

    setting: Setting

    @property
    def rules(self) -> SessionRules:
        """The rules of the pipeline's sessions."""
        pipeline = self.setting.pipeline
        gap_ms = pipeline.windows.session_gap_ms
        assert gap_ms is not None
        collected_ms = self.setting.timeline.collected
        return SessionRules(gap_ms, pipeline.allowed_lateness_ms, not self.setting.purges, collected_ms)

    def split(self, elements: Elements) -> Split:
        return SessionSplit(self.setting, self.rules).split(elements)

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        return SessionMerge(self.setting, self.rules).merge(received, parked)
