"""One key range of a pipeline with windows: a `KeyGroupRunner`, and the rows of firings and late elements."""

from functools import cached_property

import pyarrow as pa

from slackwater.engine.aggregates import (
    Accumulator,
    SelectFunction,
    UnknowableAccumulator,
    bind_select,
)
from slackwater.engine.operator.emitted_rows import output_of
from slackwater.engine.operator.firing import late_rows, pane_rows
from slackwater.engine.operator.range import RangeWork
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows
from slackwater.engine.replaying.vectorized_calls import OneFiring, OneFiringOfAll, VectorizedCalls
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import window_config
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import SnapshotCodec


class WindowRange(RangeWork[KeyGroupRunner]):
    @cached_property
    def accumulators(self) -> dict[str, Accumulator]:
        """Of the `select`, by result; those that are unknown in a parked window may be so."""
        types = {field.name: field.type for field in self.replay.schema}
        return {
            name: UnknowableAccumulator(accumulator) if name in self.unknown_results else accumulator
            for name, accumulator in bind_select(self.pipeline, types).items()
        }

    @cached_property
    def config(self) -> WindowOperatorConfig:
        return window_config(
            self.pipeline,
            self.keys.type,
            SelectFunction(list(self.accumulators.values()), self.elements.operands),
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

    def pane_table(self, runner: KeyGroupRunner) -> pa.Table:
        panes = pane_rows(runner.panes, self.owners, self.replay.shape, output_of(self.pipeline))
        return drop_replaced_refires(panes, self.pipeline)

    def late_table(self, runner: KeyGroupRunner) -> pa.Table:
        positions = [item.position for item in runner.late_elements]
        rows = self.rows.take(pa.array(positions, pa.int64()))
        return late_rows(runner.late_elements, rows, self.owners, self.schemas["late_events"])
