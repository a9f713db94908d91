"""The phases of one run: how long each took, and which one is going on. Each is logged when it ends, and for
who wants to show it (level DEBUG) when it begins.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import Any

from slackwater.engine.transport.job_names import jobs_called

log = logging.getLogger("slackwater")


class Phases:
    """A stopwatch for the phases of one run. `facts`, and the number of the `attempt` at the slice once it is
    claimed, are logged with each; `seconds` has those that ended without an error; `name` is the current or
    last one.
    """

    def __init__(self, pipeline: str, run_id: str, slice_: str, zone: tzinfo = UTC) -> None:
        self.facts: dict[str, Any] = {"pipeline": pipeline, "run_id": run_id, "slice": slice_, "zone": zone}
        self.attempt: int | None = None
        self.seconds: dict[str, float] = {}
        self.name = "claim"

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block as the phase `name`; Spark's jobs in it are called so."""
        self.name = name
        log.debug(name, extra={**self.facts, **self._try, "begins": True})
        began_at = time.perf_counter()
        with jobs_called(
            "{pipeline} {slice}: {phase}, run {run_id}".format(phase=name, **self.facts),
            self.facts["run_id"],
        ):
            yield
        self.seconds[name] = round(time.perf_counter() - began_at, 6)
        log.info(name, extra={**self.facts, **self._try, "seconds": self.seconds[name]})

    @property
    def _try(self) -> dict[str, int]:
        return {} if self.attempt is None else {"attempt": self.attempt}
