"""The family `timers`: a keyed process function that runs the commands in its elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slackwater.conformance.operator_player import CarrySnapshots, OperatorPlayer
from slackwater.conformance.storages import Storages
from slackwater.conformance.trace import Json, key_type_from_json
from slackwater.windowing.errors import TraceError
from slackwater.windowing.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    RuntimeContext,
)
from slackwater.windowing.java import wrap_long
from slackwater.windowing.state.descriptors import ValueStateDescriptor
from slackwater.windowing.testing import KeyedProcess

Command = list[Any]
Plans = dict[tuple[str, int, Any], list[Command]]


class RunCommands(KeyedProcessFunction):
    """Runs an element's commands; a timer runs the commands that were registered with it: `plans` maps
    (domain, timestamp, key) to them, for all subtasks of a case, also after a restore.
    """

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def __deepcopy__(self, memo: dict[int, Any]) -> RunCommands:
        return RunCommands(self._plans)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: list[Command], context: KeyedProcessContext) -> Iterator[Any]:
        for command in value:
            yield from self._run(command, context, context.timestamp or 0)

    def on_timer(self, timestamp: int, context: OnTimerContext) -> Iterator[Any]:
        yield {"timer": timestamp, "domain": context.time_domain}
        for command in self._plans.pop((context.time_domain, timestamp, context.current_key), ()):
            yield from self._run(command, context, timestamp)

    def _run(self, command: Command, context: KeyedProcessContext, time: int) -> Iterator[Any]:
        name, arguments = command[0], command[1:]
        timers = context.timer_service
        match name:
            case "register_event" | "register_event_in":
                due = arguments[0] if name == "register_event" else wrap_long(time + arguments[0])
                timers.register_event_time_timer(due)
                self._plan("event", due, context, arguments)
            case "register_processing" | "register_processing_in":
                due = (
                    arguments[0]
                    if name == "register_processing"
                    else wrap_long(timers.current_processing_time + arguments[0])
                )
                timers.register_processing_time_timer(due)
                self._plan("processing", due, context, arguments)
            case "delete_event":
                timers.delete_event_time_timer(arguments[0])
            case "delete_processing":
                timers.delete_processing_time_timer(arguments[0])
            case "emit":
                now = {
                    "watermark": timers.current_watermark,
                    "processing_time": timers.current_processing_time,
                }
                yield {"timestamp": context.timestamp, **now}
            case "add":
                self._sum.update((self._sum.value() or 0) + arguments[0])
                yield {"sum": self._sum.value()}
            case "clear":
                self._sum.clear()
            case "side":
                context.output("side", arguments[0])
            case _:
                raise TraceError(f"no command {name!r}")

    def _plan(self, domain: str, due: int, context: KeyedProcessContext, arguments: list[Any]) -> None:
        if len(arguments) > 1:
            self._plans[domain, due, context.current_key] = arguments[1]


class TimersPlayer(OperatorPlayer):
    def __init__(self, config: Json, storages: Storages, carry: CarrySnapshots) -> None:
        subject = KeyedProcess(RunCommands({}), key_type_from_json(config["key_type"]))
        super().__init__(config, subject, storages, carry)
