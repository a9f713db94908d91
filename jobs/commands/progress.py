"""What a verb that works is doing, on stderr: on a terminal one line that changes, with the slice, the step,
rows a second and the time; elsewhere a line for a step that takes long.

It follows the records that the protocol logs: `begins` at the start of a step, `slices` when they are known,
`rows` when a slice is staged.
"""

import logging
import sys
import threading
import time
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from slackwater.jobs.readable import range_text

# What a step is called for people.
_STEPS = {
    "claim": "takes the lease",
    "pin": "looks at the source",
    "session": "starts Spark",
    "timeline": "works out watermarks",
    "replay": "replays",
    "stage": "writes",
    "validate": "validates",
    "publish": "publishes",
}
# A verb that ends sooner shows no line.
_DELAY_SECONDS = 0.5
_LONG_SECONDS = 3


class ProgressLine(logging.Handler):
    """A line on a terminal, which is gone when the verb ends. Warnings stay, above it.

    Args:
        console: the terminal.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console
        columns = (
            *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=10)),
            *(MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn()),
        )
        # Lines for people are printed above it; those for a pipe go there.
        is_shared = sys.stdout.isatty()
        self._progress = Progress(*columns, console=console, transient=True, redirect_stdout=is_shared)
        self._task = self._progress.add_task("", total=None, rate="")
        self._rows, self._began = 0, time.monotonic()
        self._timer = threading.Timer(_DELAY_SECONDS, self._show)
        self._timer.daemon = True
        self._is_over, self._guard = False, threading.Lock()
        self._timer.start()

    @property
    def text(self) -> str:
        """The line as it stands, without bar and times."""
        [task] = self._progress.tasks
        return f"{task.description} {task.fields['rate']}".strip()

    def _show(self) -> None:
        with self._guard:
            if not self._is_over:
                self._progress.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one record."""
        facts = vars(record)
        if record.levelno >= logging.WARNING:
            self._console.print(self.format(record), markup=False, highlight=False)
        elif "slices" in facts:
            self._progress.update(self._task, total=facts["slices"])
        elif "rows" in facts:
            self._rows += facts["rows"]
            rate = self._rows / max(time.monotonic() - self._began, 1e-9)
            self._progress.update(self._task, advance=1, rate=f"{rate:,.0f} rows/s")
        elif "begins" in facts:
            step = record.getMessage()
            words = (facts.get("pipeline"), _range(facts.get("slice", "")), _STEPS.get(step, step))
            description = " ".join(escape(str(word)) for word in words if word)
            self._progress.update(self._task, description=description)

    def close(self) -> None:
        """Remove the line."""
        with self._guard:
            self._is_over = True
            self._timer.cancel()
            self._progress.stop()
        super().close()


def _range(slice_text: str) -> str:
    """A slice as the protocol logs it, `[start, end)`, for people."""
    bounds = slice_text.strip("[)").split(", ")
    try:
        start, end = map(datetime.fromisoformat, bounds)
    except ValueError:
        return slice_text
    return range_text(start, end)


class LongSteps(logging.Handler):
    """Hands a line on to another handler for each step that goes on for some seconds.

    Args:
        lines: writes lines.
        seconds: how long a step may take without one.
    """

    def __init__(self, lines: logging.Handler, seconds: float = _LONG_SECONDS) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Follow one record."""
        if self._timer is not None:
            self._timer.cancel()
        if "begins" in vars(record):
            self._timer = threading.Timer(self._seconds, self._tell, [record])
            self._timer.daemon = True
            self._timer.start()

    def _tell(self, begun: logging.LogRecord) -> None:
        step = begun.getMessage()
        facts: dict[str, Any] = {
            **vars(begun),
            "msg": f"{step} goes on: {_STEPS.get(step, step)}",
            "args": (),
        }
        facts["created"] = time.time()
        self._lines.handle(logging.makeLogRecord(facts))

    def close(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()
