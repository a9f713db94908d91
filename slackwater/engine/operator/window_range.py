"""One key range of a pipeline with windows: a `KeyGroupRunner`, and the rows of firings and late elements."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import OverflowAtRow
from slackwater.engine.calls.element_texts import ElementTexts, RowMaker, has_text
from slackwater.engine.calls.firing_tables import FiringTables
from slackwater.engine.calls.function_calls import FunctionStores, ResultRows, call_function, elements_of
from slackwater.engine.operator.element_contents import ElementContents
from slackwater.engine.operator.emitted_rows import output_of
from slackwater.engine.operator.firing import late_rows, pane_rows
from slackwater.engine.operator.firing_record import FiringRecord, panes_of_rows
from slackwater.engine.operator.range import ElementWithTimes, RangeWork
from slackwater.engine.operator.select_contents import SelectContents
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import drop_replaced_refires
from slackwater.engine.replaying.snapshot_codecs import codec_of_windows
from slackwater.engine.replaying.vectorized_calls import OneFiring, OneFiringOfAll, VectorizedCalls
from slackwater.engine.rows.keys import Keys
from slackwater.pipelines.vectorized import VectorizedFunction
from slackwater.pipelines.windows import parts_look_at_elements, window_config
from slackwater.windowing import AggregateFunction
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_log import LoggedPane, SideRow
from slackwater.windowing.runtime.window_operator_builder import CONTENTS
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import ContentsColumns, SnapshotCodec
from slackwater.windowing.state.descriptors import AggregatingStateDescriptor


class WindowRange(RangeWork[KeyGroupRunner]):
    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        super().__init__(replay, keys, number, rows)
        self._result_rows: ResultRows | None = None
        self._results: list[pa.Array] | None = None  # of a vectorized function, a row for each firing

    @cached_property
    def element_contents(self) -> ElementContents | None:
        """The elements that windows hold for a function, as numbers; None where they are objects: under an
        evictor, in a fold, with columns that have no text, and where parked ones don't fit memory.
        """
        pipeline, record = self.pipeline, self.element_class
        folds = pipeline.select or pipeline.reduce is not None or pipeline.aggregate is not None
        if folds or pipeline.evictor is not None or self.is_spilled or record is None:
            return None
        schema = pa.schema([self.replay.schema.field(name) for name in getattr(record, "_fields", ())])
        if not all(map(has_text, schema.types)):
            return None
        return ElementContents(record, ElementTexts(record, schema), self.rows)

    @cached_property
    def firing_record(self) -> FiringRecord:
        return FiringRecord(self.pipeline.process)

    @cached_property
    def select_contents(self) -> SelectContents | None:
        """The contents of windows under a `select`."""
        if not self.pipeline.select:
            return None
        return SelectContents(
            self.pipeline,
            {field.name: field.type for field in self.replay.schema},
            self.rows,
            unknown_results=self.unknown_results,
            added_results=self.replay.added_results,
        )

    @cached_property
    def declared_config(self) -> WindowOperatorConfig:
        contents = self.select_contents
        select = AggregateFunction() if contents is None else contents.chains
        return window_config(self.pipeline, self.keys.type, select, self._one_by_one)

    @cached_property
    def config(self) -> WindowOperatorConfig:
        """That of the operator, which may decide windows on numbers, with the function to be called later."""
        if self.element_contents is None:
            return self.declared_config
        elements = AggregatingStateDescriptor(CONTENTS, self.element_contents.chains, merges_as_list=True)
        return replace(self.declared_config, contents=elements, function=self.firing_record)

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
        contents: ContentsColumns | None = self.element_contents
        if contents is None and self.pipeline.evictor is None:
            contents = self.select_contents
        return codec_of_windows(
            self.pipeline,
            self.keys,
            contents,
            config=self.config,
            element_class=self.element_class,
        )

    def make_runner(self, storage: OperatorStorage) -> KeyGroupRunner:
        runner = self.firing_record.runner = KeyGroupRunner(
            self.config,
            key_groups=self.key_range.key_groups,
            max_parallelism=self.keys.max_parallelism,
            order_mode=self.replay.order_mode,
            timeline=self.timeline_of_ticks,
            from_ms=self.replay.scan.from_ms,
            storage=storage,
            on_error=self.pipeline.on_error,
        )
        return runner

    def elements_with_times(self) -> Iterator[ElementWithTimes]:
        elements, contents = super().elements_with_times(), self.element_contents or self.select_contents
        if contents is None or not self.feeds_objects or self.pipeline.evictor is not None:
            return elements
        return contents.chains.tell_numbers(elements)

    @property
    def feeds_objects(self) -> bool:
        if self.element_contents is None:
            return super().feeds_objects
        return parts_look_at_elements(self.pipeline)

    def call_function(self, runner: KeyGroupRunner) -> None:
        if self.element_contents is None:
            return
        fired_panes = [pane for pane in runner.panes if not pane.is_withdrawal]
        lists = self.element_contents.lists([pane.result for pane in fired_panes])
        columns = self.element_contents.columns_of(lists.distinct_numbers())
        if isinstance(self.pipeline.process, VectorizedFunction):
            calls = VectorizedCalls.of(
                self.pipeline, self.replay.schema, self.element_contents.record._fields
            )
            firings = pa.table(
                self.owners.arrays([pane.key for pane in fired_panes], [pane.window for pane in fired_panes])
            )
            self._results = FiringTables(calls, columns.column).results(
                firings, lists, lambda place: (fired_panes[place].key, fired_panes[place].window)
            )
            return
        self._result_rows = call_function(
            # Operators of one process must not share what a function keeps in `self`.
            copy.deepcopy(self.declared_config.function),
            self.firing_record.calls(),
            elements_of(
                lists,
                RowMaker(self.element_contents.record, columns.column),
                self.replay.state_memory_mb,
            ),
            FunctionStores(runner.backend, self.config),
        )

    def pane_table(self, runner: KeyGroupRunner) -> pa.Table:
        output, panes = output_of(self.pipeline), runner.panes
        if self.select_contents is not None:
            results = _results(panes, self.select_contents)
        elif self._results is not None:
            is_withdrawal = np.array([pane.is_withdrawal for pane in panes], np.bool_)
            places = pa.array(np.cumsum(~is_withdrawal) - 1, mask=is_withdrawal)
            results = [result.take(places) for result in self._results]
        else:
            if self._result_rows is not None:
                accumulates = not self.config.trigger.purges
                panes = panes_of_rows(panes, self._result_rows, accumulates=accumulates)
            owners = [(pane.key, pane.window) for pane in panes]
            results = output.arrays([pane.result for pane in panes], owners)
        return drop_replaced_refires(pane_rows(panes, results, self.owners, self.replay.shape), self.pipeline)

    def side_rows(self, runner: KeyGroupRunner) -> list[SideRow]:
        return runner.side_rows if self._result_rows is None else self._result_rows.side_rows

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
