"""Several parallel operators driven by the steps of a trace: elements by key group, watermarks and clock to
each in turn.

What the operators run is the family's business; here is what all operator families share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from slackwater.windowing.conformance.keys import (
    error_to_json,
    key_from_json,
    key_to_json,
    key_type_from_json,
    window_to_json,
)
from slackwater.windowing.conformance.storages import Storages
from slackwater.windowing.conformance.trace import Json
from slackwater.windowing.errors import TraceError
from slackwater.windowing.key_groups import KeyGroupRange, key_group_of, operator_index
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.operator_snapshot import (
    OperatorSnapshot,
    SnapshotOperator,
    restore_snapshots,
    take_snapshot,
)
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig

ORDER_MODES = {
    "hashmap": OrderMode.HEAP,
    "rocksdb": OrderMode.ROCKSDB,
    "rocksdb_heap_timers": OrderMode.ROCKSDB_HEAP_TIMERS,
}


class PlayedOperator(SnapshotOperator, Protocol):
    """An operator that a trace can drive."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None: ...

    def process_watermark(self, timestamp: int) -> None: ...


class RecordingOutput:
    """Collects rows as a trace's `out` has them."""

    def __init__(self, out: list[Json], has_windows: bool, subtask: int | None) -> None:
        self._out, self._has_windows, self._subtask = out, has_windows, subtask

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.add({"key": key_to_json(key), "value": value, **self._window(window), "timestamp": timestamp})

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        self.add({"late": {"key": key_to_json(key), "value": value, "timestamp": timestamp}})

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        keyed = {} if tag == "cleared" else {"key": key_to_json(key)}
        self.add({"side": tag, **keyed, "value": value, **self._window(window), "timestamp": timestamp})

    def add(self, entry: Json) -> None:
        self._out.append(entry if self._subtask is None else {**entry, "subtask": self._subtask})

    def _window(self, window: Any) -> Json:
        return {"window": window_to_json(window)} if self._has_windows else {}


Subject = (
    WindowOperatorConfig | KeyType
)  # what the operators of a case run: windows, or a process function on keys of a type
CarrySnapshots = Callable[[Subject, OrderMode, list[OperatorSnapshot]], list[OperatorSnapshot]]


def in_memory(
    subject: Subject, order_mode: OrderMode, snapshots: list[OperatorSnapshot]
) -> list[OperatorSnapshot]:
    """Hand snapshots over as they are."""
    return snapshots


MakeOperator = Callable[
    [RecordingOutput, HarnessProcessingTimeService, KeyGroupRange, OrderMode, OperatorStorage], PlayedOperator
]


class OperatorHarness:
    """The subtasks of one operator, replaced at each restore.

    Args:
        config: key_type, backend, max_parallelism and parallelism are read here.
        make: makes one subtask's operator.
        subject: what the operators run.
        storages: opens each operator's storage.
        carry: takes snapshots from the old operators to the new ones.

    Attributes:
        out: rows of the step; the family's player empties it.
        operators: one a subtask.
    """

    def __init__(
        self, config: Json, make: MakeOperator, subject: Subject, storages: Storages, carry: CarrySnapshots
    ) -> None:
        self._make, self._subject, self._storages, self._carry = make, subject, storages, carry
        self._has_windows = isinstance(subject, WindowOperatorConfig)
        self._key_type = key_type_from_json(config["key_type"])
        self._max_parallelism: int = config["max_parallelism"]
        self._backend = self._known(config["backend"])
        self.out: list[Json] = []
        self.operators: list[PlayedOperator] = []
        self._start(config["parallelism"], 0, [])

    def process_element(self, element: Json) -> None:
        key = key_from_json(element["key"])
        group = key_group_of(key, self._key_type, self._max_parallelism)
        operator = self.operators[operator_index(group, len(self.operators), self._max_parallelism)]
        operator.process_element(key, element["value"], element.get("timestamp"))

    def process_watermark(self, timestamp: int) -> None:
        for operator, output in zip(self.operators, self._outputs, strict=True):
            operator.process_watermark(timestamp)
            output.add({"watermark": timestamp})

    def advance_clock(self, timestamp: int) -> None:
        for clock in self._clocks:
            clock.advance_to(timestamp)

    def snapshot_restore(self, request: Json) -> None:
        """Replace all subtasks by new ones that know what the old ones knew, but for the watermark and the
        clock.
        """
        is_canonical = request.get("format", "checkpoint") == "canonical"
        is_legacy = self._backend == "rocksdb_heap_timers" and not is_canonical
        snapshots = [
            take_snapshot(operator, owned, is_legacy)
            for operator, owned in zip(self.operators, self._ranges, strict=True)
        ]
        snapshots = self._carry(self._subject, ORDER_MODES[self._backend], snapshots)
        for operator in self.operators:
            operator.close()
        if request.get("backend") is not None:
            self._backend = self._known(request["backend"])
        self._start(
            request["parallelism"],
            request.get("processing_time", self._clocks[0].current_processing_time),
            snapshots,
        )

    def inspect(self) -> Json:
        """Timers and state of all subtasks."""
        event, processing, entries, sessions = [], [], [], []
        for operator in self.operators:
            for _, service in operator.time_services.services():
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
        """Timers and state entries over all subtasks, as each step's result has them."""
        services = [
            service for operator in self.operators for _, service in operator.time_services.services()
        ]
        state: dict[str, int] = {}
        for operator in self.operators:
            for entry in operator.backend.entries():
                state[entry.state_name] = state.get(entry.state_name, 0) + 1
        return {
            "event_timers": sum(len(service.event_timers) for service in services),
            "processing_timers": sum(len(service.processing_timers) for service in services),
            "state": state,
        }

    def play(self, step: Json) -> Json | None:
        """Play a step that every operator family has. Returns what `inspect` shows, None for other steps.

        Raises StepFailed when the operator refuses the step.
        """
        self.out.clear()
        kind, question = next(iter(step.items()))
        try:
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
                    return self.inspect()
                case "open":
                    pass
                case _:
                    raise TraceError(f"no step {kind!r} in an operator family")
        except TraceError:
            raise
        except Exception as error:
            self.out.append(error_to_json(error))
            raise StepFailed from error
        return None

    def _start(self, parallelism: int, processing_time: int, snapshots: list[OperatorSnapshot]) -> None:
        self._ranges = KeyGroupRange.ranges(parallelism, self._max_parallelism)
        self._clocks = [HarnessProcessingTimeService(processing_time) for _ in self._ranges]
        self._outputs = [
            RecordingOutput(self.out, self._has_windows, subtask if parallelism > 1 else None)
            for subtask in range(parallelism)
        ]
        self.operators = [
            self._make(output, clock, owned, ORDER_MODES[self._backend], self._storages.open(self._backend))
            for output, clock, owned in zip(self._outputs, self._clocks, self._ranges, strict=True)
        ]
        for operator, owned in zip(self.operators, self._ranges, strict=True):
            restore_snapshots(operator, snapshots, owned)
            operator.open()

    def _known(self, backend: str) -> str:
        if backend not in ORDER_MODES:
            raise TraceError(f"no state back end {backend!r}")
        return backend

    def _timer(self, timestamp: int, key: Any, namespace: Any) -> list[Any]:
        timer = [timestamp, key_to_json(key)]
        return [*timer, window_to_json(namespace)] if self._has_windows else timer


class StepFailed(Exception):
    """The operator refused the step; `out` ends with the error. The recorded result may be just that."""
