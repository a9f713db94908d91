"""One key range of a pipeline with windows: a `KeyGroupRunner`, and the rows of firings and late elements."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.aggregates import (
    Accumulator,
    SelectFunction,
    StretchFunction,
    UnknowableAccumulator,
    bind_select,
)
from slackwater.engine.operator import range as range_work
from slackwater.engine.operator.elements import OperatorElements
from slackwater.engine.operator.emitted_rows import output_of
from slackwater.engine.operator.firing import late_rows, pane_rows
from slackwater.engine.operator.range import RangeWork
from slackwater.engine.operator.steps import StepSequence
from slackwater.engine.replaying.refires import drop_replaced_refires
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows
from slackwater.engine.replaying.spilling import Spilling
from slackwater.engine.replaying.vectorized_calls import OneFiring, OneFiringOfAll, VectorizedCalls
from slackwater.pipelines import Pipeline
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import window_config
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.shared_windows import takes_together
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import SnapshotCodec

ROWS_OF_BLOCK: Final = 1 << 19  # steps of so many elements are worked out at a time
_MANY_TOGETHER: Final = 1000


def _may_step(pipeline: Pipeline) -> bool:
    """Whether elements may be taken together. Not under on_error='quarantine', which takes an element back
    alone, nor where rows carry watermarks, which rise between any two.
    """
    is_allowed = takes_together(pipeline.windows, pipeline.effective_trigger, OrderMode.ROCKSDB)
    is_periodic = pipeline.watermarks.kind != "punctuated"
    return is_allowed and is_periodic and pipeline.on_error == "fail"


def _keeps_order(pipeline: Pipeline) -> bool:
    return not pipeline.select or pipeline.evictor is not None


class WindowRange(RangeWork[KeyGroupRunner]):
    @cached_property
    def _orders_of_blocks(self) -> list[npt.NDArray[np.int32]]:
        """For each block that was fed, the positions of its rows in the order in which they were taken."""
        return []

    @cached_property
    def accumulators(self) -> dict[str, Accumulator]:
        """Of the `select`, by result; those that are unknown in a parked window may be so."""
        types = {field.name: field.type for field in self.replay.schema}
        return {
            name: UnknowableAccumulator(accumulator) if name in self.unknown_results else accumulator
            for name, accumulator in bind_select(self.pipeline, types).items()
        }

    @cached_property
    def step_sequence(self) -> StepSequence | None:
        """The steps in which all elements are taken; None: they come one by one or block by block."""
        if not _may_step(self.pipeline) or not self.pipeline.select:
            return None
        return StepSequence(self.replay, self.keys, self.rows, _keeps_order(self.pipeline))

    @cached_property
    def elements(self) -> OperatorElements:
        steps = None if self.step_sequence is None else self.step_sequence.row_steps
        accumulators = list(self.accumulators.values())
        return OperatorElements(self.pipeline, self.rows, self.element_class, accumulators, steps)

    @cached_property
    def config(self) -> WindowOperatorConfig:
        function = StretchFunction if self.elements.are_stretches else SelectFunction
        return window_config(
            self.pipeline,
            self.keys.type,
            function(list(self.accumulators.values()), self.elements.operands),
            self._one_by_one,
        )

    @property
    def _one_by_one(self) -> OneFiring | OneFiringOfAll | None:
        """The vectorized function, called with one firing at a time; None for another function."""
        if not isinstance(self.pipeline.process, VectorizedFunction):
            return None
        names = getattr(self.element_class, "_fields", ())
        calls = VectorizedCalls.of(self.pipeline, self.replay.schema, names)
        return OneFiring(calls) if self.pipeline.keys else OneFiringOfAll(calls)

    @cached_property
    def codec(self) -> SnapshotCodec:
        return codec_of_windows(
            self.pipeline,
            self.keys,
            self.replay.shape,
            self.accumulators,
            config=self.config,
            element_class=self.element_class,
            added_results=self.replay.added_results,
        )

    def make_runner(self, storage: OperatorStorage) -> KeyGroupRunner:
        return KeyGroupRunner(
            self.config,
            key_groups=self.key_range.key_groups,
            max_parallelism=self.keys.max_parallelism,
            order_mode=self.replay.order_mode,
            timeline=self.timeline_of_ticks,
            from_ms=self.replay.scan.from_ms,
            storage=storage,
            on_error=self.pipeline.on_error,
        )

    def feed(self, runner: KeyGroupRunner, spilling: Spilling) -> None:
        """Elements that share windows are given together, where that leaves the same results."""
        if not _may_step(self.pipeline):
            super().feed(runner, spilling)
        elif self.step_sequence is not None:
            self._feed_steps(runner, spilling, self.step_sequence, self.elements)
        else:
            for start in range(0, self.rows.num_rows, ROWS_OF_BLOCK):
                rows = self.rows.slice(start, ROWS_OF_BLOCK)
                sequence = StepSequence(self.replay, self.keys, rows, keeps_order=True)
                self._orders_of_blocks.append(sequence.row_steps.order.astype(np.int32))
                elements = OperatorElements(self.pipeline, rows, self.element_class, steps=sequence.row_steps)
                self._feed_steps(runner, spilling, sequence, elements)

    def _feed_steps(
        self, runner: KeyGroupRunner, spilling: Spilling, sequence: StepSequence, elements: OperatorElements
    ) -> None:
        runner.add_key_groups(sequence.key_groups())
        process_element, process_elements = runner.process_element, runner.process_elements
        for first, steps in sequence.pieces(range_work.BETWEEN_LOOKS):
            for step, value in zip(steps, elements.of_steps(first, steps), strict=True):
                key, start, end, times, first_arrival, last_arrival, are_together = step
                if are_together:
                    process_elements(key, value, times, first_arrival, last_arrival)
                    if end - start >= _MANY_TOGETHER:
                        spilling.look(runner)
                else:
                    process_element(key, value, times[0], first_arrival)
            spilling.look(runner)

    def element_rows(self, positions: Sequence[int]) -> pa.Table:
        if not self._orders_of_blocks:
            return super().element_rows(positions)
        places = np.array(positions, np.int64)
        blocks = places // ROWS_OF_BLOCK
        for number, order in enumerate(self._orders_of_blocks):
            in_block = blocks == number
            places[in_block] = order[places[in_block] % ROWS_OF_BLOCK] + number * ROWS_OF_BLOCK
        return self.rows.take(pa.array(places))

    def pane_table(self, runner: KeyGroupRunner) -> pa.Table:
        panes = pane_rows(runner.panes, self.owners, self.replay.shape, output_of(self.pipeline))
        return drop_replaced_refires(panes, self.pipeline)

    def late_table(self, runner: KeyGroupRunner) -> pa.Table:
        rows = self.element_rows([item.position for item in runner.late_elements])
        return late_rows(runner.late_elements, rows, self.owners, self.schemas["late_events"])
