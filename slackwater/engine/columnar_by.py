"""What a pipeline of the operator engine could be declared with instead, to run on columns: found by asking
the planner about the pipeline with one declaration changed, or with two.

Only `engine.planner` calls this. Most of the changes give other results: whether they suit is for the
pipeline's author to say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any, NamedTuple

import pyarrow as pa

from slackwater.engine.aggregates import bind_columnar, bind_select
from slackwater.engine.functions.element_texts import has_text
from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.errors import SlackwaterError
from slackwater.pipelines import Pipeline
from slackwater.windowing import WatermarkStrategy
from slackwater.windowing.errors import WindowingError

_MOST_CHANGES = 2


class Change(NamedTuple):
    """A change of declarations, with words for what the pipeline then is, as in "columnar …"."""

    words: str
    declarations: Mapping[str, Any]


def columnar_by(
    pipeline: Pipeline, schema: pa.Schema | None, is_columnar: Callable[[Pipeline], bool]
) -> str | None:
    """The fewest changes that would make `pipeline` columnar, "with bounded watermarks, or without its
    evictor"; None where no few do.
    """
    changes = list(_changes(pipeline, schema))
    for count in range(1, _MOST_CHANGES + 1):
        ways = [way for way in combinations(changes, count) if _suffices(pipeline, way, is_columnar)]
        if ways:
            return ", or ".join(" and ".join(change.words for change in way) for way in ways)
    return None


def _suffices(pipeline: Pipeline, way: Sequence[Change], is_columnar: Callable[[Pipeline], bool]) -> bool:
    declarations = {name: value for change in way for name, value in change.declarations.items()}
    try:
        return is_columnar(replace(pipeline, **declarations))
    except (SlackwaterError, WindowingError):  # the declarations do not go together
        return False


def _changes(pipeline: Pipeline, schema: pa.Schema | None) -> Iterator[Change]:
    if pipeline.trigger is not None:
        yield Change("without its trigger", {"trigger": None})
    if pipeline.evictor is not None:
        yield Change("without its evictor", {"evictor": None})
    if pipeline.watermarks.kind == "punctuated":
        watermarks = WatermarkStrategy.bounded_out_of_orderness(timedelta(0))
        yield Change("with bounded watermarks", {"watermarks": watermarks})
    if schema is not None:
        yield from _changes_of_columns(pipeline, schema)


def _changes_of_columns(pipeline: Pipeline, schema: pa.Schema) -> Iterator[Change]:
    columns = with_derived_columns(pipeline, schema)
    if pipeline.select:
        types = {field.name: field.type for field in columns}
        formless = [
            name
            for name, accumulator in bind_select(pipeline, types).items()
            if bind_columnar(accumulator, pipeline.select[name], types) is None
        ]
        select = {name: value for name, value in pipeline.select.items() if name not in formless}
        if formless and select:
            yield Change(f"without {', '.join(formless)} in select=", {"select": select})
        return
    names = pipeline.columns or [name for name in columns.names if name in schema.names]
    textless = [name for name in names if name in columns.names and not has_text(columns.field(name).type)]
    if textless and len(textless) < len(names):
        others = [name for name in names if name not in textless]
        yield Change(f"with columns= that leave out {', '.join(textless)}", {"columns": others})
