"""The choice of the engine for a pipeline, from its declarations and the types of the source: columnar where
that is exact, else the operator engine. It never changes a result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from typing import Any, NamedTuple

import pyarrow as pa

from slackwater.engine.calls.element_texts import has_text
from slackwater.engine.columnar.engine import ColumnarEngine
from slackwater.engine.columnar.windows import why_not
from slackwater.engine.functions import FunctionEngine, exactness
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.rows.derived_columns import with_derived_columns
from slackwater.errors import SlackwaterError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.windowing import WatermarkStrategy
from slackwater.windowing.errors import WindowingError

OPERATOR, COLUMNAR = "operator", "columnar"
ENGINES = (COLUMNAR, OPERATOR)
_MOST_CHANGES = 2


class EngineNotExact(UsageError):
    """The engine that --engine names can't run the pipeline exactly."""


@dataclass(frozen=True)
class Choice:
    """An engine for a pipeline.

    Attributes:
        why: one line, with the one or two changes that would make the pipeline columnar, if so few do.
        calls_function: whether a function of the pipeline is called.
    """

    engine: str
    why: str
    calls_function: bool

    def make(self) -> Engine:
        if self.engine == OPERATOR:
            return OperatorEngine()
        return FunctionEngine() if self.calls_function else ColumnarEngine()


def choose(pipeline: Pipeline, schema: pa.Schema | None = None, override: str | None = None) -> Choice:
    """The engine for `pipeline` on a source of that schema (None: its types are assumed to suit), or
    `override`.

    Raises:
        EngineNotExact: `override` is the columnar engine, which would not be exact.
    """
    reason = why_not_columnar(pipeline, schema)
    if override == COLUMNAR and reason is not None:
        raise EngineNotExact(
            f"{pipeline.name}: the columnar engine can't run this exactly: {reason}. Leave out --engine, or "
            "say --engine operator.",
            pipeline=pipeline.name,
            reason=reason,
        )
    calls_function = not pipeline.select
    if override is not None:
        return Choice(override, "asked for", calls_function)
    if reason is not None:
        changes = columnar_by(pipeline, schema)
        hint = "" if changes is None else f"; columnar {changes}"
        return Choice(OPERATOR, f"not columnar: {reason}{hint}", calls_function)
    if calls_function:
        why = (
            "its windows are decided on columns, and its function is called from there, in the faster engine"
        )
    else:
        why = "windows and trigger have columnar forms, and it is the faster engine"
    return Choice(COLUMNAR, why, calls_function)


def why_not_columnar(pipeline: Pipeline, schema: pa.Schema | None = None) -> str | None:
    """Why the columnar engine would not be exact for `pipeline`, in one line; None when it is."""
    if pipeline.evictor is not None:
        return "an evictor takes single elements out of windows"
    if pipeline.keyed_process is not None:
        return "a KeyedProcessFunction sees elements one by one"
    return why_not(pipeline) if pipeline.select else exactness.why_not(pipeline, schema)


class Change(NamedTuple):
    """A change of declarations, with words for what the pipeline then is, as in "columnar …"."""

    words: str
    declarations: Mapping[str, Any]


def columnar_by(pipeline: Pipeline, schema: pa.Schema | None) -> str | None:
    """The fewest changes that would make `pipeline` columnar, "with bounded watermarks, or without its
    evictor"; None where no few do. Most give other results: its author decides whether they suit.
    """
    changes = list(_changes(pipeline, schema))
    for count in range(1, _MOST_CHANGES + 1):
        ways = [way for way in combinations(changes, count) if _suffices(pipeline, way, schema)]
        if ways:
            return ", or ".join(" and ".join(change.words for change in way) for way in ways)
    return None


def _suffices(pipeline: Pipeline, way: Sequence[Change], schema: pa.Schema | None) -> bool:
    declarations = {name: value for change in way for name, value in change.declarations.items()}
    try:
        return why_not_columnar(replace(pipeline, **declarations), schema) is None
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
    if schema is not None and not pipeline.select:
        yield from _changes_of_columns(pipeline, schema)


def _changes_of_columns(pipeline: Pipeline, schema: pa.Schema) -> Iterator[Change]:
    columns = with_derived_columns(pipeline, schema)
    names = pipeline.columns or [name for name in columns.names if name in schema.names]
    textless = [name for name in names if name in columns.names and not has_text(columns.field(name).type)]
    if textless and len(textless) < len(names):
        others = [name for name in names if name not in textless]
        yield Change(f"with columns= that leave out {', '.join(textless)}", {"columns": others})
