"""Shows on a terminal what a verb does: one line that changes, with the slice, the step, rows a second and
the time. It follows the records that the protocol logs: `begins` at the start of a step, `slices` when they
are known, `rows` when a slice is staged.
"""

import logging
import sys
import threading
import time
from datetime import UTC

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

from slackwater.cli.long_steps import STEPS
from slackwater.readable import range_of_slice

# A verb that ends sooner shows no line.
_DELAY_SECONDS = 0.5


class ProgressLine(logging.Handler):
    """A line on a terminal, which is gone when the verb ends. Warnings stay, above it."""

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
