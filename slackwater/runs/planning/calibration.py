"""The calibration of a pipeline on this machine: seconds measured for numbers of rows, stored in the user's
cache.

`trial` measures it. It is no part of a lineage and can be deleted at any time.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from slackwater.pipelines import Pipeline, registry
from slackwater.runtime.cache import cache


@dataclass(frozen=True)
class Calibration:
    """Rates of one pipeline on this machine.

    Attributes:
        pipeline, config_hash, engine: what was replayed.
        rows, seconds: of the shorter and the longer beginning; seconds are medians, from pinning to the
            published table.
        start: seconds until Spark had started and was warm.
        memory_mb, estimated_mb: most memory of any process that ran tasks, and what was estimated of it.
    """

    pipeline: str
    config_hash: str
    engine: str
    rows: tuple[int, int]
    seconds: tuple[float, float]
    start: float
    memory_mb: int
    estimated_mb: int

    @property
    def line(self) -> tuple[float, float]:
        """Seconds at no rows, and for each row; neither is below zero."""
        (fewer, more), (less, longer) = self.rows, self.seconds
        per_row = max(0.0, (longer - less) / (more - fewer))
        per_slice = less - fewer * per_row
        return (per_slice, per_row) if per_slice >= 0 else (0.0, longer / more)

    def memory_of(self, estimated_mb: int) -> int:
        """Megabytes that a task takes of which `estimated_mb` are estimated."""
        return round(estimated_mb * self.memory_mb / self.estimated_mb)

    def store(self) -> None:
        """Write it to the cache, in place of an earlier one of the same pipeline, settings and engine."""
        file = _file(self.pipeline, self.config_hash, self.engine)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, pipeline: Pipeline, engine: str) -> "Calibration | None":
        """The one in the cache for a pipeline as it is declared now; None where there is none."""
        file = _file(pipeline.name, registry.config_hash(pipeline), engine)
        if not file.exists():
            return None
        fields = json.loads(file.read_text())
        return cls(**{**fields, "rows": tuple(fields["rows"]), "seconds": tuple(fields["seconds"])})


def _file(pipeline: str, config_hash: str, engine: str) -> Path:
    return cache() / "calibrations" / f"{pipeline}-{engine}-{config_hash[:16]}.json"
