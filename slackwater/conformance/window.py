"""The family `window`: a window operator as Flink's WindowedStream declares it, and its dropped elements."""

from __future__ import annotations

from typing import cast

from slackwater.conformance.declarations import (
    assigner_from_json,
    evictor_from_json,
    trigger_from_json,
)
from slackwater.conformance.functions import with_function
from slackwater.conformance.operator_player import CarrySnapshots, OperatorPlayer
from slackwater.conformance.storages import Storages
from slackwater.conformance.trace import Json, error_to_json, key_type_from_json
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig


class WindowPlayer:
    """Plays a case of `window`. A declaration that an operator refuses is the first step's result."""

    def __init__(self, config: Json, storages: Storages, carry: CarrySnapshots) -> None:
        self._config, self._storages, self._carry = config, storages, carry
        self._operator_player: OperatorPlayer | None = None
        self._late_dropped = 0

    def play(self, step: Json) -> Json:
        if self._operator_player is None:
            try:
                subject = _operator_config(self._config)
                self._operator_player = OperatorPlayer(self._config, subject, self._storages, self._carry)
            except WindowingError as error:
                return {"out": [error_to_json(error)]}
        if "snapshot_restore" in step:
            self._late_dropped = 0
        player = self._operator_player
        result = player.play(step)
        if result.keys() == {"out"}:  # the operator refused the step
            return result
        dropped_before = self._late_dropped
        self._late_dropped = sum(
            cast(WindowOperator, operator).late_records_dropped for operator in player.operators
        )
        return {**result, "late_dropped": self._late_dropped - dropped_before}


def _operator_config(config: Json) -> WindowOperatorConfig:
    assigner, keys = config["assigner"], key_type_from_json(config["key_type"])
    builder = WindowOperatorBuilder(keys, assigner_from_json(assigner))
    if config["trigger"] is not None:
        builder.trigger(trigger_from_json(config["trigger"]))
    if config["evictor"] is not None:
        builder.evictor(evictor_from_json(config["evictor"]))
    builder.allowed_lateness_ms(config["allowed_lateness"]).flink_exact()
    if config["side_output_late"]:
        builder.side_output_late_data()
    return with_function(builder, config["function"])
