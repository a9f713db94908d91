"""One key range of a pipeline with windows: a `KeyGroupRunner`, and the rows of firings and late elements."""

from functools import cached_property

import pyarrow as pa

from slackwater.engine.aggregates import OverflowAtRow
from slackwater.engine.operator.emitted_rows import output_of
from slackwater.engine.operator.firing import late_rows, pane_rows
from slackwater.engine.operator.range import RangeWork
from slackwater.engine.operator.select_contents import SelectContents
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows
from slackwater.engine.replaying.vectorized_calls import OneFiring, OneFiringOfAll, VectorizedCalls
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import window_config
from slackwater.windowing import AggregateFunction
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_log import LoggedPane
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import SnapshotCodec


class WindowRange(RangeWork[KeyGroupRunner]):
    @cached_property
    def select_contents(self) -> SelectContents | None:
        """The contents of windows under a `select`."""
        if not self.pipeline.select:
            return None
        return SelectContents(
            self.pipeline,
            {field.name: field.type for field in self.replay.schema},
            self.rows,
            elements_are_numbers=self.element_class is None,
            unknown_results=self.unknown_results,
            added_results=self.replay.added_results,
        )

    @cached_property
    def config(self) -> WindowOperatorConfig:
        contents = self.select_contents
        select = AggregateFunction() if contents is None else contents.chains
        return window_config(self.pipeline, self.keys.type, select, self._one_by_one)

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
        # Under an evictor a window parks its elements.
        contents = self.select_contents if self.pipeline.evictor is None else None
        return codec_of_windows(
            self.pipeline,
            self.keys,
            contents,
            config=self.config,
            element_class=self.element_class,
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
        output = output_of(self.pipeline)
        if self.select_contents is None:
            owners = [(pane.key, pane.window) for pane in runner.panes]
            results = output.arrays([pane.result for pane in runner.panes], owners)
        else:
            results = _results(runner.panes, self.select_contents)
        panes = pane_rows(runner.panes, results, self.owners, self.replay.shape)
        return drop_replaced_refires(panes, self.pipeline)

    def late_table(self, runner: KeyGroupRunner) -> pa.Table:
        positions = [item.position for item in runner.late_elements]
        rows = self.rows.take(pa.array(positions, pa.int64()))
        return late_rows(runner.late_elements, rows, self.owners, self.schemas["late_events"])


def _results(panes: list[LoggedPane], contents: SelectContents) -> list[pa.Array]:
    try:
        return contents.results([pane.result for pane in panes])
    except OverflowAtRow as failure:
        pane = [pane for pane in panes if pane.result is not None][failure.row]
        raise UserCodeError.of(
            failure.error, "firing a window", pane.key, pane.window, pane.window.max_timestamp()
        ) from failure.error
