"""Plays the steps that all families of operators share on the parallel subtasks of one operator: elements go
to the subtask of their key group, watermarks and clock to each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from slackwater.conformance.storages import Storages
from slackwater.conformance.trace import Json, error_to_json, key_from_json, key_to_json, window_to_json
from slackwater.windowing.errors import TraceError
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of, operator_index
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.keyed_operator import KeyedOperator
from slackwater.windowing.runtime.operator_snapshot import (
    OperatorSnapshot,
    restore_snapshots,
    take_snapshot,
)
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.testing import Runtime, Subject

ORDER_MODES = {
    "hashmap": OrderMode.HEAP,
    "rocksdb": OrderMode.ROCKSDB,
    "rocksdb_heap_timers": OrderMode.ROCKSDB_HEAP_TIMERS,
}


class RecordingOutput:
    """Records each row as the traces do in `out`, with the subtask's number if there are several."""

    def __init__(self, out: list[Json], has_windows: bool, subtask: int | None) -> None:
        self._out, self._has_windows, self._subtask = out, has_windows, subtask

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.add({"key": key_to_json(key), "value": value, **self._window(window), "timestamp": timestamp})

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        self.add({"late": {"key": key_to_json(key), "value": value, "timestamp": timestamp}})

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        key_entry = {} if tag == "cleared" else {"key": key_to_json(key)}
        self.add({"side": tag, **key_entry, "value": value, **self._window(window), "timestamp": timestamp})

    def add(self, entry: Json) -> None:
        self._out.append(entry if self._subtask is None else {**entry, "subtask": self._subtask})

    def _window(self, window: Any) -> Json:
        return {"window": window_to_json(window)} if self._has_windows else {}


CarrySnapshots = Callable[[Subject, OrderMode, list[OperatorSnapshot]], list[OperatorSnapshot]]


def in_memory(
    subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
) -> list[OperatorSnapshot]:
    return snapshots


class _Subtask(NamedTuple):
    operator: KeyedOperator
    key_groups: KeyGroupRange
    clock: HarnessProcessingTimeService
    output: RecordingOutput


class OperatorPlayer:
    """Plays steps on the subtasks of one operator, which each restore replaces. `out` is their output in the
    last step.

    Args:
        config: of the case; backend, max_parallelism and parallelism are read here.
        carry: takes snapshots from the old operators to the new ones.
    """

    def __init__(self, config: Json, subject: Subject, storages: Storages, carry: CarrySnapshots) -> None:
        self._subject, self._storages, self._carry = subject, storages, carry
        self._has_windows = isinstance(subject, WindowOperatorConfig)
        self._max_parallelism: int = config["max_parallelism"]
        self._backend = self._checked_back_end(config["backend"])
        self.out: list[Json] = []
        self._subtasks = self._start(config["parallelism"], 0, [])

    @property
    def operators(self) -> list[KeyedOperator]:
        return [subtask.operator for subtask in self._subtasks]

    def process_element(self, element: Json) -> None:
        key = key_from_json(element["key"])
        group = key_group_of(key, self._subject.key_type, self._max_parallelism)
        index = operator_index(group, len(self._subtasks), self._max_parallelism)
        self._subtasks[index].operator.process_element(key, element["value"], element.get("timestamp"))

    def process_watermark(self, timestamp: int) -> None:
        for subtask in self._subtasks:
            subtask.operator.process_watermark(timestamp)
            subtask.output.add({"watermark": timestamp})

    def advance_clock(self, timestamp: int) -> None:
        for subtask in self._subtasks:
            subtask.clock.advance_to(timestamp)

    def snapshot_restore(self, request: Json) -> None:
        """Replace all subtasks by new ones, restored from snapshots of the old ones, without the watermark
        and with the clock where the request sets it.
        """
        is_canonical = request.get("format", "checkpoint") == "canonical"
        is_legacy = self._backend == "rocksdb_heap_timers" and not is_canonical
        snapshots = [
            take_snapshot(subtask.operator, subtask.key_groups, is_legacy) for subtask in self._subtasks
        ]
        snapshots = self._carry(self._subject, ORDER_MODES[self._backend], snapshots)
        for operator in self.operators:
            operator.close()
        if request.get("backend") is not None:
            self._backend = self._checked_back_end(request["backend"])
        now = request.get("processing_time", self._subtasks[0].clock.current_processing_time)
        self._subtasks = self._start(request["parallelism"], now, snapshots)

    def inspect(self) -> Json:
        event, processing, entries, sessions = [], [], [], []
        for operator in self.operators:
            service = operator.timer_service
            event += [self._timer(*timer) for timer in service.for_each_event_time_timer()]
            processing += [self._timer(*timer) for timer in service.for_each_processing_time_timer()]
            for entry in operator.backend.entries():
                key = key_to_json(entry.key)
                if entry.state_name == "merging-window-set":
                    sessions += [
                        {"key": key, "window": list(window), "state_window": list(state)}
                        for window, state in entry.value
                    ]
                entries.append(
                    {"state": entry.state_name, "key": key, "window": window_to_json(entry.namespace)}
                )
        return {"event": event, "processing": processing, "entries": entries, "sessions": sessions}

    def counts(self) -> Json:
        """Timers and state entries over all subtasks, as in each step's result."""
        services = [operator.timer_service for operator in self.operators]
        state: dict[str, int] = {}
        for operator in self.operators:
            for entry in operator.backend.entries():
                state[entry.state_name] = state.get(entry.state_name, 0) + 1
        return {
            "event_timers": sum(len(service.event_timers) for service in services),
            "processing_timers": sum(len(service.processing_timers) for service in services),
            "state": state,
        }

    def play(self, step: Json) -> Json:
        """The result of a step that every operator family has: the output and, unless the operator refuses
        the step, the counts and what was to be inspected.
        """
        self.out.clear()
        try:
            inspection = self._play(step)
        except Exception as error:  # noqa: BLE001 - a refusal is a result, and a TraceError is raised again
            self.out.append(error_to_json(error))
            return {"out": self.out}
        return {"out": self.out, **inspection, **self.counts()}

    def _play(self, step: Json) -> Json:
        kind, question = next(iter(step.items()))
        match kind:
            case "element":
                self.process_element(question)
            case "watermark":
                self.process_watermark(question)
            case "processing_time":
                self.advance_clock(question)
            case "snapshot_restore":
                self.snapshot_restore(question)
            case "inspect":
                return {"inspect": self.inspect()}
            case "open":
                pass
            case _:
                raise TraceError(f"no step {kind!r} in an operator family")
        return {}

    def _start(
        self, parallelism: int, processing_time: int, snapshots: list[OperatorSnapshot]
    ) -> list[_Subtask]:
        """Create all subtasks, then restore and open them."""
        runtime = Runtime(max_parallelism=self._max_parallelism, order_mode=ORDER_MODES[self._backend])
        subtasks = []
        for index, key_groups in enumerate(KeyGroupRange.ranges(parallelism, self._max_parallelism)):
            clock = HarnessProcessingTimeService(processing_time)
            output = RecordingOutput(self.out, self._has_windows, index if parallelism > 1 else None)
            storage = self._storages.open(self._backend)
            operator = runtime.operator(self._subject, output, clock, storage, key_groups)
            subtasks.append(_Subtask(operator, key_groups, clock, output))
        for subtask in subtasks:
            restore_snapshots(subtask.operator, snapshots, subtask.key_groups)
            subtask.operator.open()
        return subtasks

    def _checked_back_end(self, backend: str) -> str:
        if backend not in ORDER_MODES:
            raise TraceError(f"no state back end {backend!r}")
        return backend

    def _timer(self, timestamp: int, key: Any, namespace: Any) -> list[Any]:
        timer = [timestamp, key_to_json(key)]
        return [*timer, window_to_json(namespace)] if self._has_windows else timer
