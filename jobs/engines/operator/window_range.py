"""One key-group range of a pipeline with windows: a `KeyGroupRunner`, and the rows of what has fired and of
what came too late.
"""

import pyarrow as pa

from slackwater.jobs.engines.aggregates import SelectFunction, StretchFunction, bind_select
from slackwater.jobs.engines.operator import range as range_work
from slackwater.jobs.engines.operator.elements import OperatorElements
from slackwater.jobs.engines.operator.emitted_rows import output_of
from slackwater.jobs.engines.operator.firing import late_rows, pane_rows
from slackwater.jobs.engines.operator.range import RangeWork
from slackwater.jobs.engines.operator.steps import SteppedRows
from slackwater.jobs.engines.replaying.refires import drop_replaced_refires
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.replaying.snapshot_codecs import codec_of_windows
from slackwater.jobs.engines.replaying.spilling import Spilling
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.windows import window_config
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.shared_windows import takes_together
from slackwater.windowing.snapshot import SnapshotCodec


def _may_step(pipeline: Pipeline) -> bool:
    """Whether elements may be taken together. What a function has raised on is taken back one by one."""
    is_allowed = takes_together(pipeline.windows, pipeline.effective_trigger, OrderMode(pipeline.order_mode))
    return is_allowed and pipeline.on_error == "fail"


def _keeps_order(pipeline: Pipeline) -> bool:
    """Whether the contents of a window show the order of its elements."""
    return not pipeline.select or pipeline.evictor is not None


class WindowRange(RangeWork[KeyGroupRunner]):
    """A range of windows."""

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        types = {field.name: field.type for field in replay.scan.source.schema}
        self.accumulators = list(bind_select(replay.pipeline, types).values())
        self.stepped = (
            SteppedRows(replay, keys, rows, _keeps_order(replay.pipeline))
            if _may_step(replay.pipeline)
            else None
        )
        super().__init__(replay, keys, number, rows)

    def make_elements(self, rows: pa.Table) -> OperatorElements:
        return OperatorElements(
            self.pipeline,
            rows,
            self.element,
            self.accumulators,
            None if self.stepped is None else self.stepped.taken,
        )

    def make_codec(self) -> SnapshotCodec:
        select = StretchFunction if self.elements.are_stretches else SelectFunction
        self.config = window_config(
            self.pipeline, self.keys.type, select(self.accumulators, self.elements.operands)
        )
        return codec_of_windows(
            self.pipeline, self.keys, self.replay.shape, self.accumulators, self.config, self.element
        )

    def make_runner(self, storage: OperatorStorage) -> KeyGroupRunner:
        return KeyGroupRunner(
            self.config,
            key_groups=self.key_groups,
            max_parallelism=self.keys.max_parallelism,
            order_mode=self.order_mode,
            timeline=self.replay.timeline,
            from_ms=self.replay.scan.from_ms,
            make_backend=storage.make_backend,
            make_timer_queue=storage.make_timer_queue,
            on_error=self.pipeline.on_error,
        )

    def feed(self, spilling: Spilling) -> None:
        """Elements that share windows together, where that can't be told from taking them one by one."""
        if self.stepped is None:
            super().feed(spilling)
            return
        self.runner.know_key_groups(self.stepped.key_groups)
        process_element, process_elements, elements = (
            self.runner.process_element,
            self.runner.process_elements,
            self.elements,
        )
        for steps in self.stepped.steps(range_work.BETWEEN_LOOKS):
            for key, start, end, times, arrival, until, are_together in steps:
                if are_together:
                    process_elements(key, elements.together(start, end), times, arrival, until)
                else:
                    process_element(key, elements.alone(start), times[0], arrival)
            spilling.look(self.runner)

    def emitted(self) -> pa.Table:
        return drop_replaced_refires(
            pane_rows(self.runner.panes, self.keys, self.replay.shape, output_of(self.pipeline)),
            self.pipeline,
        )

    def late(self) -> pa.Table:
        return late_rows(
            self.runner.late_elements, self.elements, self.replay.shape, self.schemas["late_events"]
        )
