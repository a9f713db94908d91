"""The families `watermark_generator` and `watermark_inputs`: how watermarks arise, and how several become
one. A step in, the step's answer out, in the traces' own vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from slackwater.windowing.errors import TraceError, WindowingError
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.watermarks import (
    CombinedInputs,
    StatusWatermarkValve,
    TimestampsAndWatermarksOperator,
    WatermarkOutput,
    WatermarkOutputMultiplexer,
    WatermarkStatus,
    WatermarkStrategy,
)

Step = Mapping[str, Any]


class WatermarkGeneratorPlayer:
    """Plays a case of `watermark_generator` on a TimestampsAndWatermarksOperator and the test harness's
    clock. A config that Flink refuses on opening is refused at the first step.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._answer = _Answer()
        self._service = HarnessProcessingTimeService()
        self._operator: TimestampsAndWatermarksOperator | None = None

    def play(self, step: Step) -> dict[str, Any]:
        return self._answer.record(lambda: self._play(step))

    def _play(self, step: Step) -> None:
        if self._operator is None:
            self._operator = self._open_operator()
        kind, value = next(iter(step.items()))
        if kind == "element":
            self._operator.process_element(value["value"], value.get("timestamp"))
        elif kind == "processing_time":
            self._service.advance_to(value)
        elif kind == "watermark":
            self._operator.process_watermark(value)
        elif kind == "status":
            self._operator.process_watermark_status(WatermarkStatus(value))
        elif kind == "finish":
            self._operator.finish()
        elif kind != "open":
            raise TraceError(f"A watermark_generator case has no step {kind!r}.")

    def _open_operator(self) -> TimestampsAndWatermarksOperator:
        config = self._config
        operator = TimestampsAndWatermarksOperator(
            _strategy(config),
            self._service,
            self._answer,
            timestamp_assigner=_VALUE_OR_RECORD[config["timestamps"]],
            progressive=config["progressive"],
        )
        operator.open()
        return operator


class WatermarkInputsPlayer:
    """Plays a case of `watermark_inputs` on a StatusWatermarkValve, CombinedInputs or
    WatermarkOutputMultiplexer. Raises TraceError for an unknown `kind` in the config.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._answer = _Answer()
        kind = config["kind"]
        if kind == "valve":
            valve = StatusWatermarkValve(config["channels"], self._answer)
            self._play = _by_channel(valve.input_watermark, valve.input_watermark_status)
        elif kind == "two_input":
            inputs = CombinedInputs(2, self._answer)
            self._play = _by_channel(inputs.process_watermark, inputs.process_watermark_status)
        elif kind == "multiplexer":
            self._play = _multiplexer(WatermarkOutputMultiplexer(self._answer), self._answer)
        else:
            raise TraceError(f"There are no watermark inputs of kind {kind!r}.")

    def play(self, step: Step) -> dict[str, Any]:
        return self._answer.record(lambda: self._play(step))


class _Answer:
    """An output of every kind that records what it is given, as the traces do."""

    def __init__(self) -> None:
        self.out: list[dict[str, Any]] = []

    def record(self, play: Callable[[], None]) -> dict[str, Any]:
        """A step's result: the entries that `play` causes, the last one an error if it raises one."""
        self.out = []
        try:
            play()
        except TraceError:
            raise
        except WindowingError as error:
            self.out.append({"error": f"{error.flink}: {error}"})
        return {"out": self.out}

    def collect(self, value: Any, timestamp: int | None) -> None:
        self.out.append({"value": value, "timestamp": timestamp})

    def emit_watermark(self, timestamp: int) -> None:
        self.out.append({"watermark": timestamp})

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self.out.append({"status": status.value})

    def mark_idle(self) -> None:
        self.emit_watermark_status(WatermarkStatus.IDLE)

    def mark_active(self) -> None:
        self.emit_watermark_status(WatermarkStatus.ACTIVE)


_VALUE_OR_RECORD: Mapping[str, Callable[[Any, int], int]] = {
    "value": lambda element, timestamp: int(element),
    "record": lambda element, timestamp: timestamp,
}


def _strategy(config: Mapping[str, Any]) -> WatermarkStrategy:
    kind = config["strategy"]
    if kind == "bounded_out_of_orderness":
        strategy = WatermarkStrategy.bounded_out_of_orderness(
            timedelta(milliseconds=config["max_out_of_orderness"])
        )
    elif kind == "monotonous":
        strategy = WatermarkStrategy.monotonous()
    elif kind == "none":
        strategy = WatermarkStrategy.no_watermarks()
    elif kind == "punctuated":
        every = config["every"]
        strategy = WatermarkStrategy.punctuated(
            lambda element, timestamp: timestamp if element % every == 0 else None
        )
    else:
        raise TraceError(f"There is no watermark strategy {kind!r}.")
    strategy = strategy.with_interval(timedelta(milliseconds=config["auto_watermark_interval"]))
    if config["idle_timeout"] is None:
        return strategy
    return strategy.with_idleness(timedelta(milliseconds=config["idle_timeout"]))


def _by_channel(
    take_watermark: Callable[[int, int], None], take_status: Callable[[WatermarkStatus, int], None]
) -> Callable[[Step], None]:
    def play(step: Step) -> None:
        if "watermark" in step:
            take_watermark(step["watermark"], step["channel"])
        else:
            take_status(WatermarkStatus(step["status"]), step["channel"])

    return play


def _multiplexer(multiplexer: WatermarkOutputMultiplexer, answer: _Answer) -> Callable[[Step], None]:
    def play(step: Step) -> None:
        kind, value = next(iter(step.items()))
        if kind == "register":
            multiplexer.register(value)
        elif kind == "unregister":
            answer.out.append({"unregistered": multiplexer.unregister(value)})
        elif kind == "periodic_emit":
            multiplexer.on_periodic_emit()
        elif kind == "immediate":
            _say(multiplexer.immediate_output(value["output"]), value)
        elif kind == "deferred":
            _say(multiplexer.deferred_output(value["output"]), value)
        else:
            raise TraceError(f"A multiplexer case has no step {kind!r}.")

    return play


def _say(output: WatermarkOutput, value: Mapping[str, Any]) -> None:
    if "watermark" in value:
        output.emit_watermark(value["watermark"])
    elif WatermarkStatus(value["status"]).is_idle:
        output.mark_idle()
    else:
        output.mark_active()
