"""One key-group range of a pipeline with windows: a `KeyGroupRunner`, and the rows of what has fired and of what came too late."""

import pyarrow as pa

from jobs.engines.accumulators import SelectFunction, bind_select
from jobs.engines.keys import Keys
from jobs.engines.operator.emitted_rows import output_of
from jobs.engines.operator.fired_rows import late_rows, pane_rows
from jobs.engines.operator.range_work import RangeWork
from jobs.engines.parked import codec_of_windows
from jobs.engines.refires import thinned
from jobs.engines.replay import Replay
from jobs.pipelines.windows import window_config
from windowing.runtime.key_group_runner import KeyGroupRunner
from windowing.runtime.operator_storage import OperatorStorage
from windowing.state.snapshot import SnapshotCodec


class WindowRange(RangeWork[KeyGroupRunner]):
    """A range of windows."""

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        types = {field.name: field.type for field in replay.scan.source.schema}
        self.accumulators = list(bind_select(replay.pipeline, types).values())
        super().__init__(replay, keys, number, rows)

    def make_codec(self) -> SnapshotCodec:
        self.config = window_config(self.pipeline, self.keys.type, SelectFunction(self.accumulators, self.elements.operands))
        return codec_of_windows(self.pipeline, self.keys, self.replay.shape, self.accumulators, self.config, self.element)

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

    def emitted(self) -> pa.Table:
        return thinned(pane_rows(self.runner.panes, self.keys, self.replay.shape, output_of(self.pipeline)), self.pipeline)

    def late(self) -> pa.Table:
        return late_rows(self.runner.late_elements, self.elements.rows, self.replay.shape, self.schemas["late_events"])
