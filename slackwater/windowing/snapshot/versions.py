"""The version of the tables' format, and the steps that migrate rows of earlier versions. A change of the
format raises FORMAT_VERSION, adds its step to STEPS and keeps a snapshot of the version before as test data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from slackwater.windowing.snapshot.errors import SnapshotVersionError

FORMAT_VERSION: Final = 1


class SnapshotTables(NamedTuple):
    window_state: pa.Table
    keyed_state: pa.Table
    timers: pa.Table


Step = Callable[[SnapshotTables], SnapshotTables]

# Version → the step from it to the next.
STEPS: Final[Mapping[int, Step]] = {}


def migrate(
    tables: SnapshotTables, version: int, steps: Mapping[int, Step] = STEPS, target: int = FORMAT_VERSION
) -> SnapshotTables:
    """`tables` of format `version` in the format `target`. Raises SnapshotVersionError for a newer version or
    a missing step.
    """
    if version > target:
        raise SnapshotVersionError(
            f"The snapshot is of format {version}, this release reads up to {target}. Install the release "
            "that wrote it, or a newer one.",
            version=version,
            supported=target,
        )
    for step in range(version, target):
        if step not in steps:
            raise SnapshotVersionError(
                f"The snapshot is of format {version}, and no step leads from {step} to {step + 1}. Restore "
                "it with an earlier release.",
                version=version,
                supported=target,
            )
        tables = steps[step](tables)
    return tables
