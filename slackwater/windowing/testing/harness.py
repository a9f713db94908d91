"""The operator harness: a test drives the parallel operators of one run and reads their output. Elements go
to the operator of their key group, time to all (Flink: KeyedOneInputStreamOperatorTestHarness). Runs follow
each other: each starts from the snapshot of the last one, and a crashed run leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from slackwater.windowing.errors import ConfigurationError, WindowingError
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of, operator_index
from slackwater.windowing.runtime.operator_snapshot import restore_snapshots, take_snapshot
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.testing.recorder import HarnessSnapshot, ReadableOutput, Record, Recorder
from slackwater.windowing.testing.subject import Runtime, Subject


class OperatorStoppedError(WindowingError):
    """A harness was used after it was closed or had crashed."""

    fault = "user"


class OperatorHarness(ReadableOutput):
    """The subtasks of one operator, from their start (new or restored) to `close`.

    Args:
        subject: what to run: a WindowOperatorBuilder's config, or a KeyedProcess.
        runtime: what to run it on: clock, key groups, order of timers, state back end.
        parallelism: number of subtasks; each owns a range of key groups.
        restore: an earlier harness' snapshot, of any parallelism; ConfigurationError for other
            max_parallelism.
        restores_watermark: Flink does not: there, every element is on time until the next watermark.
        clock_ms: the clock's first reading; default: the snapshot's, or 0.
    """

    def __init__(
        self,
        subject: Subject,
        runtime: Runtime | None = None,
        *,
        parallelism: int = 1,
        restore: HarnessSnapshot | None = None,
        restores_watermark: bool = True,
        clock_ms: int | None = None,
    ) -> None:
        runtime = Runtime() if runtime is None else runtime
        self._subject, self._max_parallelism = subject, runtime.max_parallelism
        if restore is not None and restore.max_parallelism != runtime.max_parallelism:
            raise ConfigurationError(
                f"The snapshot has {restore.max_parallelism} key groups, the runtime "
                f"{runtime.max_parallelism}; their number never changes."
            )
        if clock_ms is None:
            clock_ms = 0 if restore is None else restore.clock
        self._is_open = True
        self._recorder = Recorder()
        self._ranges = KeyGroupRange.ranges(parallelism, runtime.max_parallelism)
        self._clocks = [runtime.clock(clock_ms) for _ in self._ranges]
        self._storages = [runtime.storage() for _ in self._ranges]
        self._operators = [
            runtime.operator(subject, self._recorder, clock, storage, key_groups)
            for clock, storage, key_groups in zip(self._clocks, self._storages, self._ranges, strict=True)
        ]
        parts = [] if restore is None else restore.parts()
        for operator, key_groups in zip(self._operators, self._ranges, strict=True):
            restore_snapshots(operator, parts, key_groups)
            operator.open()
            if restore is not None and restores_watermark:
                operator.initialize_watermark(restore.watermark)

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None:
        """One element, to the subtask that owns its key. `timestamp` in milliseconds, None for none."""
        self._check_open()
        self._subject.key_type.check(key)
        group = key_group_of(key, self._subject.key_type, self._max_parallelism)
        self._operators[operator_index(group, len(self._operators), self._max_parallelism)].process_element(
            key, value, timestamp
        )

    def process_record(self, value: Any, timestamp: int | None) -> None:
        """`process_element` with the key from the config's key selector, whose errors are not wrapped."""
        selector = self._subject.key_selector if isinstance(self._subject, WindowOperatorConfig) else None
        if selector is None:
            raise ConfigurationError("There is no key selector; give process_element the key.")
        self.process_element(selector(value), value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time in every subtask; the watermark is recorded after the rows that it caused.
        Raises ConfigurationError when it would go back, which cannot happen to a real operator.
        """
        self._check_open()
        if timestamp < self.current_watermark:
            raise ConfigurationError(
                f"The watermark cannot go back from {self.current_watermark} to {timestamp}."
            )
        for operator in self._operators:
            operator.process_watermark(timestamp)
        self._recorder.watermark(timestamp)

    def advance_clock(self, timestamp: int) -> None:
        """Move processing time in every subtask, one after the other."""
        self._check_open()
        for clock in self._clocks:
            clock.advance_to(timestamp)

    @property
    def output(self) -> list[Record]:
        return list(self._recorder.records)

    @property
    def late_records_dropped(self) -> int:
        """Flink's numLateRecordsDropped, over all subtasks of this run."""
        return sum(
            operator.late_records_dropped
            for operator in self._operators
            if isinstance(operator, WindowOperator)
        )

    @property
    def current_watermark(self) -> int:
        return min(operator.current_watermark for operator in self._operators)

    @property
    def current_processing_time(self) -> int:
        return self._clocks[0].current_processing_time

    @property
    def event_timers(self) -> int:
        return sum(len(operator.timer_service.event_timers) for operator in self._operators)

    @property
    def processing_timers(self) -> int:
        return sum(len(operator.timer_service.processing_timers) for operator in self._operators)

    @property
    def state_entries(self) -> dict[str, int]:
        """Number of entries of each non-empty state. An empty dict and no timers: nothing has leaked."""
        counts: dict[str, int] = {}
        for operator in self._operators:
            for entry in operator.backend.entries():
                counts[entry.state_name] = counts.get(entry.state_name, 0) + 1
        return counts

    def snapshot(self) -> HarnessSnapshot:
        """State, timers, watermark and clock. Nothing is flushed; the harness can go on."""
        self._check_open()
        parts = [
            take_snapshot(operator, key_groups)
            for operator, key_groups in zip(self._operators, self._ranges, strict=True)
        ]
        return HarnessSnapshot.of(parts, self.current_processing_time, self._max_parallelism)

    def close(self) -> None:
        """Close the operators. Their output can still be read."""
        if self._is_open:
            self._is_open = False
            for operator, storage in zip(self._operators, self._storages, strict=True):
                operator.close()
                storage.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise OperatorStoppedError(
                "This harness is closed; start another one, from what `snapshot` gave before."
            )


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
