"""What of panes is published: the results that are computed from those of a firing, and whether the window
meets the condition `having`. Panes hold neither; `published`, its corrections, expectations and suites are
of panes in this form. So both may change at any time, and `published` can be computed anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.expressions import type_of, values_of
from slackwater.engine.source.computed_columns import append_derivations
from slackwater.pipelines import Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression
from slackwater.tables.schemas import Columns

_WITHDRAWN: Final = "withdrawn"


@dataclass(frozen=True)
class PublishedForm:
    """The published form of a pipeline's panes. A plain value, for tasks.

    Attributes:
        results: each computed result with its expression, one that others read before them.
        having: the condition; None: every window is published.
        hidden: results of a firing that are not published: where `published` has them from before, null.
    """

    results: tuple[tuple[str, Expression], ...] = ()
    having: Expression | None = None
    hidden: tuple[str, ...] = ()

    @classmethod
    def of(cls, pipeline: Pipeline) -> "PublishedForm":
        return cls(pipeline.computed_results, pipeline.publishing_condition, tuple(pipeline.hidden))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of panes that the expressions read."""
        expressions = [expression for _, expression in self.results]
        names = dict.fromkeys(name for item in expressions for name in item.columns)
        if self.having is not None:
            names |= dict.fromkeys(self.having.columns)
        return tuple(name for name in names if name not in dict(self.results))

    def schema(self, pipeline: Pipeline, panes: pa.Schema) -> pa.Schema:
        """The columns of `panes` in this form. Raises PipelineError: an expression does not suit them."""
        subject = f"Pipeline {pipeline.name!r}"
        for name, expression in self.results:
            kind = type_of(subject, f"results[{name!r}]", expression, panes)
            panes = panes.append(pa.field(name, kind))
        if self.having is not None:
            kind = type_of(subject, "having", self.having, panes)
            if not pa.types.is_boolean(kind):
                raise PipelineError(
                    subject, f"having is {self.having.text!r}, whose values are {kind}; it is a condition"
                )
        return panes

    def apply(self, panes: pa.Table, results: Columns = ()) -> pa.Table:
        """`panes` with the computed results; rows of windows that don't meet the condition are withdrawn.

        Args:
            panes: with `columns` and ``kind``.
            results: all columns to be published, with their types; null where panes lack them, or hide them.
        """
        form = self._within(panes.column_names)
        for name in form.columns:
            column = panes.column(name)
            if pa.types.is_dictionary(column.type):
                place = panes.schema.get_field_index(name)
                panes = panes.set_column(place, name, column.cast(column.type.value_type))
        if form.results:
            panes, _ = append_derivations(form.results, panes, (), dict(results))
        if form.having is not None:
            meets = pc.fill_null(values_of(form.having, panes).column, False)
            kinds = pc.if_else(meets, panes.column("kind").cast(pa.string()), _WITHDRAWN)
            panes = panes.set_column(panes.schema.get_field_index("kind"), "kind", kinds)
        for name, kind in results:
            if name in self.hidden:
                panes = panes.drop_columns(name)
            if name not in panes.column_names:
                panes = panes.append_column(name, pa.nulls(panes.num_rows, kind))
        return panes

    def _within(self, columns: Iterable[str]) -> "PublishedForm":
        """The part that can be computed of `columns`: panes get those of new results by the next run."""
        names, results = set(columns), []
        for name, expression in self.results:
            if names.issuperset(expression.columns):
                results.append((name, expression))
                names.add(name)
        having = self.having if self.having is None or names.issuperset(self.having.columns) else None
        return PublishedForm(tuple(results), having, self.hidden)

    def stored_columns(self, names: Iterable[str], stored: Sequence[str]) -> list[str]:
        """The columns of the table `panes`, which has `stored`, to be read for `names` in this form."""
        return [name for name in dict.fromkeys([*names, *self.columns]) if name in stored]
