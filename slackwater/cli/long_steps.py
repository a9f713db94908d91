"""Says on stderr, where that is no terminal, what takes long: a line for a step that goes on for seconds, and
one that says where a slice is replayed. It follows the records that the protocol logs: `begins` at the start
of a step.
"""

import logging
import threading
import time
from typing import Any

# What a step is called for people.
STEPS = {
    "claim": "takes the lease",
    "pin": "looks at the source",
    "session": "starts Spark",
    "timeline": "works out watermarks",
    "replay": "replays",
    "stage": "writes",
    "validate": "validates",
    "publish": "publishes",
}
_LONG_SECONDS = 3
_AGAIN_SECONDS = 5


class LongSteps(logging.Handler):
    """Hands a line to another handler for each step that goes on for `seconds`, and another one every
    `again_seconds` after that.
    """

    def __init__(
        self, lines: logging.Handler, seconds: float = _LONG_SECONDS, again_seconds: float = _AGAIN_SECONDS
    ) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines
        self._seconds, self._again_seconds = seconds, again_seconds
        self._timer: threading.Timer | None = None
        self._guard = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one record. Notices, and where a slice is replayed, are for people, also where they see
        warnings alone.
        """
        facts = vars(record)
        if {"notice", "place"} & facts.keys() and record.levelno < self._lines.level:
            self._lines.handle(record)
        if not {"begins", "seconds"} & facts.keys() and record.levelno < logging.WARNING:
            return  # said in the midst of a step, which goes on
        with self._guard:
            self._wait_for(record if "begins" in facts else None, self._seconds)

    def _wait_for(self, begun: logging.LogRecord | None, seconds: float) -> None:
        """Tell of the step `begun` after so many seconds, and no more of the one before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if begun is not None:
            self._timer = threading.Timer(seconds, self._tell, [begun])
            self._timer.daemon = True
            self._timer.start()

    def _tell(self, begun: logging.LogRecord) -> None:
        with self._guard:
            if threading.current_thread() is not self._timer:
                return  # the next step has begun meanwhile
            step, now = begun.getMessage(), time.time()
            facts: dict[str, Any] = {
                **vars(begun),
                "msg": f"{step} goes on: {STEPS.get(step, step)}, {now - begun.created:.0f} s",
                "args": (),
                "created": now,
            }
            self._lines.handle(logging.makeLogRecord(facts))
            self._wait_for(begun, self._again_seconds)

    def close(self) -> None:
        with self._guard:
            self._wait_for(None, 0)
        super().close()
