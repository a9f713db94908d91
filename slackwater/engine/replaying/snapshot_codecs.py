"""The snapshot codec of a pipeline: what it declares for `slackwater.windowing.snapshot`."""

from dataclasses import replace

from slackwater.engine.rows.keys import Keys
from slackwater.pipelines import Pipeline
from slackwater.pipelines.process_functions import states_of
from slackwater.pipelines.window_columns import own_window_class_of
from slackwater.tables.schemas import Columns
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.snapshot import (
    ContentsColumns,
    JsonValues,
    KeyColumns,
    SnapshotCodec,
    SnapshotLayout,
)


def codec_of_windows(
    pipeline: Pipeline,
    keys: Keys,
    contents: ContentsColumns | None,
    *,
    config: WindowOperatorConfig,
    element_class: type | None,
) -> SnapshotCodec:
    """The codec of a pipeline's window operator, with columns for `contents` or without. `element_class` is
    that of its named tuples; None for row numbers, which never enter state.
    """
    layout = SnapshotLayout.for_windows(
        config,
        keys=KeyColumns.of(keys.columns),
        contents=contents,
        json=json_of(pipeline, element_class),
    )
    return SnapshotCodec(layout)


def codec_of_process(pipeline: Pipeline, keys: Keys, element_class: type | None) -> SnapshotCodec:
    """The codec of a pipeline's process function; `element_class` is that of its named tuples."""
    return SnapshotCodec(_process_layout(pipeline, keys, json_of(pipeline, element_class)))


def state_columns(pipeline: Pipeline, keys: Keys) -> Columns:
    """The columns of `keyed_state` for the states that a process function declares with a SQL type."""
    return (
        tuple(_process_layout(pipeline, keys, JsonValues()).value_columns().values())
        if pipeline.keyed_process is not None
        else ()
    )


def _process_layout(pipeline: Pipeline, keys: Keys, json: JsonValues) -> SnapshotLayout:
    assert pipeline.keyed_process is not None
    layout = SnapshotLayout.for_process(
        keys.type,
        keys=KeyColumns.of(keys.columns),
        states=states_of(pipeline.keyed_process),
        json=json,
    )
    return replace(layout, timer_owner=f"the function {type(pipeline.keyed_process).__name__}")


def json_of(pipeline: Pipeline, element_class: type | None) -> JsonValues:
    """How values without a column are written: plain values, elements, windows, declared records."""
    own_window_class = own_window_class_of(pipeline)
    records = (
        *(() if element_class is None else (element_class,)),
        *(() if own_window_class is None else (own_window_class.window_class,)),
    )
    return JsonValues((*records, *pipeline.records), pipeline.pickled_state)
