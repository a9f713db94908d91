"""The family `window`: a window operator as Flink's WindowedStream declares it, and its dropped elements."""

from __future__ import annotations

from typing import cast

from slackwater.conformance.declarations import (
    assigner_from_json,
    evictor_from_json,
    trigger_from_json,
)
from slackwater.conformance.functions import with_function
from slackwater.conformance.keys import error_to_json, key_type_from_json
from slackwater.conformance.operator_player import (
    CarrySnapshots,
    MakeOperator,
    OperatorPlayer,
    PlayedOperator,
    RecordingOutput,
    StepFailed,
)
from slackwater.conformance.storages import Storages
from slackwater.conformance.trace import Json
from slackwater.windowing.errors import WindowingError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.runtime.window_operators import window_operator


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
                self._operator_player = OperatorPlayer(
                    self._config, _maker(subject, self._config), subject, self._storages, self._carry
                )
            except WindowingError as error:
                return {"out": [error_to_json(error)]}
        operator_player = self._operator_player
        if "snapshot_restore" in step:
            self._late_dropped = 0
        try:
            inspection = operator_player.play(step)
        except StepFailed:
            return {"out": operator_player.out}
        late_dropped = sum(
            cast(WindowOperator, operator).late_records_dropped for operator in operator_player.operators
        )
        late_dropped_in_step = late_dropped - self._late_dropped
        self._late_dropped = late_dropped
        inspect_entry = {} if inspection is None else {"inspect": inspection}
        return {
            "out": operator_player.out,
            **inspect_entry,
            **operator_player.counts(),
            "late_dropped": late_dropped_in_step,
        }


def _operator_config(config: Json) -> WindowOperatorConfig:
    assigner, keys = config["assigner"], key_type_from_json(config["key_type"])
    if assigner["type"] in ("count", "sliding_count"):
        builder = WindowOperatorBuilder.count_window(keys, assigner["size"], assigner.get("slide"))
    else:
        builder = WindowOperatorBuilder(keys, assigner_from_json(assigner))
    if config["trigger"] is not None:
        builder.trigger(trigger_from_json(config["trigger"]))
    if config["evictor"] is not None:
        builder.evictor(evictor_from_json(config["evictor"]))
    builder.allowed_lateness_ms(config["allowed_lateness"]).flink_exact()
    if config["side_output_late"]:
        builder.side_output_late_data()
    return with_function(builder, config["function"])


def _maker(operator_config: WindowOperatorConfig, config: Json) -> MakeOperator:
    def make(
        output: RecordingOutput,
        clock: HarnessProcessingTimeService,
        key_groups: KeyGroupRange,
        order_mode: OrderMode,
        storage: OperatorStorage,
    ) -> PlayedOperator:
        return window_operator(
            operator_config,
            output,
            clock,
            key_groups=key_groups,
            max_parallelism=config["max_parallelism"],
            order_mode=order_mode,
            make_backend=storage.make_backend,
            make_timer_queue=storage.make_timer_queue,
        )

    return make
