"""One key range of a KeyedProcessFunction. Its rows have no window: their bounds are null."""

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from slackwater.engine.operator.emitted_rows import EmittedColumns, output_of
from slackwater.engine.operator.firing import Owners, watermarks
from slackwater.engine.operator.range import RangeWork
from slackwater.engine.replaying.snapshot_codecs import codec_of_process
from slackwater.tables.run_files.staging import EMITTED_KIND
from slackwater.tables.schemas import Shape
from slackwater.windowing.runtime.keyed_process_runner import KeyedProcessRunner, ProcessRow
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.snapshot import SnapshotCodec, times

FIRING = 1


def process_rows(
    rows: Sequence[ProcessRow], owners: Owners, shape: Shape, output: EmittedColumns
) -> pa.Table:
    results = output.arrays([row.value for row in rows], [(row.key, None) for row in rows])
    return pa.table(
        {
            **owners.arrays(rows),
            "firing": pa.array([FIRING] * len(rows), pa.int64()),
            "ordinal": pa.array([row.ordinal for row in rows], pa.int64()),
            "timestamp": times([row.timestamp for row in rows], "timestamp"),
            "kind": pa.array([EMITTED_KIND] * len(rows), pa.string()),
            **dict(zip(shape.result_names, results, strict=True)),
            "watermark": watermarks(row.watermark for row in rows),
            "tick_end": times([row.tick_end for row in rows], "tick_end"),
            "cause_arrival": times([row.cause_arrival for row in rows], "cause_arrival"),
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
