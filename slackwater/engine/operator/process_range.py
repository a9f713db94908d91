"""One key range of a KeyedProcessFunction. Its rows have no window: their bounds are null."""

from functools import cached_property

import pyarrow as pa

from slackwater.engine.operator.emitted_rows import EmittedColumns, output_of
from slackwater.engine.operator.firing import Owners, watermarks
from slackwater.engine.operator.range import RangeWork
from slackwater.engine.replaying.snapshot_codecs import codec_of_process
from slackwater.tables.run_files.staging import EMITTED_KIND
from slackwater.tables.schemas import Shape
from slackwater.windowing.runtime.keyed_process_runner import KeyedProcessRunner, ProcessRows
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.snapshot import SnapshotCodec, times

FIRING = 1


def process_rows(rows: ProcessRows, owners: Owners, shape: Shape, output: EmittedColumns) -> pa.Table:
    windows = [None] * len(rows.keys)
    results = output.arrays(rows.values, list(zip(rows.keys, windows, strict=True)))
    return pa.table(
        {
            **owners.arrays(rows.keys, windows),
            "firing": pa.repeat(pa.scalar(FIRING, pa.int64()), len(windows)),
            "ordinal": pa.array(rows.ordinals(), pa.int64()),
            "timestamp": times(rows.timestamps, "timestamp"),
            "kind": pa.repeat(EMITTED_KIND, len(windows)),
            **dict(zip(shape.result_names, results, strict=True)),
            "watermark": watermarks(rows.watermarks),
            "tick_end": times(rows.tick_ends, "tick_end"),
            "cause_arrival": times(rows.cause_arrivals, "cause_arrival"),
        }
    )


class ProcessRange(RangeWork[KeyedProcessRunner]):
    @cached_property
    def codec(self) -> SnapshotCodec:
        return codec_of_process(
            self.pipeline,
            self.keys,
            self.element_class,
        )

    def make_runner(self, storage: OperatorStorage) -> KeyedProcessRunner:
        assert self.pipeline.keyed_process is not None
        return KeyedProcessRunner(
            self.pipeline.keyed_process,
            self.keys.type,
            key_groups=self.key_range.key_groups,
            max_parallelism=self.keys.max_parallelism,
            order_mode=self.replay.order_mode,
            timeline=self.timeline_of_ticks,
            from_ms=self.replay.scan.from_ms,
            storage=storage,
            on_error=self.pipeline.on_error,
        )

    def pane_table(self, runner: KeyedProcessRunner) -> pa.Table:
        return process_rows(runner.rows, self.owners, self.replay.shape, output_of(self.pipeline))

    def late_table(self, runner: KeyedProcessRunner) -> pa.Table:
        return self.schemas["late_events"].empty_table()
