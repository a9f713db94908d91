"""One key-group range of a pipeline that runs a KeyedProcessFunction: a `KeyedProcessRunner`, and the rows
that it has emitted.
"""

import pyarrow as pa

from slackwater.jobs.engines.operator.emitted_rows import output_of
from slackwater.jobs.engines.operator.process_rows import process_rows
from slackwater.jobs.engines.operator.range_work import RangeWork
from slackwater.jobs.engines.replaying.parked import codec_of_process
from slackwater.windowing.runtime.keyed_process_runner import KeyedProcessRunner
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.snapshot import SnapshotCodec


class ProcessRange(RangeWork[KeyedProcessRunner]):
    """A range of a process function."""

    def make_codec(self) -> SnapshotCodec:
        return codec_of_process(self.pipeline, self.keys, self.element)

    def make_runner(self, storage: OperatorStorage) -> KeyedProcessRunner:
        assert self.pipeline.keyed_process is not None
        return KeyedProcessRunner(
            self.pipeline.keyed_process,
            self.keys.type,
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
        return process_rows(self.runner.rows, self.keys, self.replay.shape, output_of(self.pipeline))

    def late(self) -> pa.Table:
        return self.schemas["late_events"].empty_table()
