"""Shows what a verb does, by the records that the protocol logs: `begins` at the start of a step, `slices`
when they are known, `rows` when a slice is staged. On a terminal it is one line that changes, with the slice,
the step, rows a second and the time; elsewhere a line for each step that goes on for seconds, and one that
says where a slice is replayed.
"""

import logging
import sys
import threading
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

from slackwater.readable import range_of_slice

if TYPE_CHECKING:
    from rich.console import Console

# A verb that ends sooner shows no line.
_DELAY_SECONDS = 0.5


class ProgressLine(logging.Handler):
    """A line on a terminal, which is gone when the verb ends. Warnings stay, above it."""

    def __init__(self, console: "Console") -> None:
        from rich import progress

        super().__init__(logging.DEBUG)
        self._console = console
        columns = (
            *(progress.SpinnerColumn(), progress.TextColumn("{task.description}")),
            *(progress.BarColumn(bar_width=10), progress.MofNCompleteColumn()),
            *(progress.TextColumn("{task.fields[rate]}"), progress.TimeElapsedColumn()),
        )
        # Lines for people are printed above it; those for a pipe go there.
        is_shared = sys.stdout.isatty()
        self._progress = progress.Progress(
            *columns, console=console, transient=True, redirect_stdout=is_shared
        )
        self._task = self._progress.add_task("", total=None, rate="")
        self._rows, self._began = 0, time.monotonic()
        self._timer = threading.Timer(_DELAY_SECONDS, self._show)
        self._timer.daemon = True
        self._is_over, self._guard = False, threading.Lock()
        self._timer.start()

    @property
    def text(self) -> str:
        [task] = self._progress.tasks
        return f"{task.description} {task.fields['rate']}".strip()

    def _show(self) -> None:
        with self._guard:
            if not self._is_over:
                self._progress.start()

    def emit(self, record: logging.LogRecord) -> None:
        facts = vars(record)
        if record.levelno >= logging.WARNING or "notice" in facts:
            self._console.print(self.format(record), markup=False, highlight=False)
        elif "slices" in facts:
            self._progress.update(self._task, total=facts["slices"])
        elif "rows" in facts:
            self._rows += facts["rows"]
            rate = self._rows / max(time.monotonic() - self._began, 1e-9)
            self._progress.update(self._task, advance=1, rate=f"{rate:,.0f} rows/s")
        elif "begins" in facts:
            from rich.markup import escape

            step = record.getMessage()
            slice_text = range_of_slice(facts.get("slice", ""), facts.get("zone", UTC))
            words = (facts.get("pipeline"), slice_text, STEPS.get(step, step))
            description = " ".join(escape(str(word)) for word in words if word)
            self._progress.update(self._task, description=description)

    def close(self) -> None:
        with self._guard:
            self._is_over = True
            self._timer.cancel()
            self._progress.stop()
        super().close()


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
