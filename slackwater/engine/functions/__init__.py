"""Functions of users on columns: the windows of a pipeline with a function of its own are decided by the
kernels of the columnar engine or, for triggers without one, by a walk over the elements of each key; the
function is called with rows as named tuples. Built-in aggregates of walked windows are
combined on columns, in place of the calls.

    rows of the range ── kernel or walk ── firings, lists of element numbers ── calls ── panes
                                           open windows, lists ──────────────── snapshot

What this can't do for a range of keys, the operator engine does instead, from the same rows.
"""

from slackwater.engine.functions.engine import FunctionEngine
from slackwater.engine.functions.left_over import LeftToOperator

__all__ = ["FunctionEngine", "LeftToOperator"]
