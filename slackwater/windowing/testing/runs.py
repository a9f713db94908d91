"""Consecutive runs: each starts from the snapshot of the last one, and a crashed run leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.windowing.testing.harness import OperatorHarness
from slackwater.windowing.testing.recorder import ReadableOutput, Record
from slackwater.windowing.testing.snapshot import HarnessSnapshot
from slackwater.windowing.testing.subject import Runtime, Subject


class Run(OperatorHarness):
    has_crashed = False

    def crash(self) -> None:
        """The process dies: this run's operators, state and output are lost."""
        self.has_crashed = True
        self.close()
        self._recorder.records.clear()


class RunSequence(ReadableOutput):
    """Runs over one operator's state, all on `runtime`. Its `output`, `panes` and so on cover all finished
    runs; `snapshot` is the last finished run's, None before the first.
    """

    def __init__(self, subject: Subject, runtime: Runtime | None = None) -> None:
        self._subject, self._runtime = subject, runtime
        self._records: list[Record] = []
        self.snapshot: HarnessSnapshot | None = None

    @property
    def output(self) -> list[Record]:
        return list(self._records)

    @contextmanager
    def run(
        self, *, parallelism: int = 1, restores_watermark: bool = True, clock_ms: int | None = None
    ) -> Iterator[Run]:
        """One run, restored from the last finished one. The end of the block takes a snapshot; nothing is
        flushed.

        If the block calls `crash` or raises, output and state of the run are dropped, and the next run starts
        where this one did. Another `parallelism` than last time rescales; for `restores_watermark` False see
        OperatorHarness; the clock starts at `clock_ms`, or where it stopped.
        """
        run = Run(
            self._subject,
            self._runtime,
            parallelism=parallelism,
            restore=self.snapshot,
            restores_watermark=restores_watermark,
            clock_ms=clock_ms,
        )
        try:
            yield run
            if not run.has_crashed:
                self.snapshot = run.snapshot()
                self._records += run.output
        finally:
            run.close()
