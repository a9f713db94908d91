"""Conditions on rows: expressions that are true, false or unknown, as `where` declares them.

Integers and decimals compare exactly with any literal; NaN equals itself and is greater than every number;
text compares by its UTF-8 bytes.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.rows.expressions import type_of, values_of
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import Expression, parse_expression


def bind_condition(subject: str, text: str, types: Mapping[str, pa.DataType]) -> Expression:
    """The condition `text` on a source whose columns have `types`.

    Raises:
        PipelineError: it can't be read, a column is missing, or two sides can't be compared.
    """
    condition = parse_expression(subject, "where", text)
    kind = type_of(subject, "where", condition, pa.schema(list(types.items())))
    if not pa.types.is_boolean(kind):
        raise PipelineError(subject, f"where is {text!r}, whose values are {kind}; it must be true or false")
    return condition


def rows_that_meet(condition: Expression, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """For each row whether the condition is true; unknown and failing count as false."""
    return np.asarray(values_of(condition, rows).column.fill_null(False), np.bool_)
