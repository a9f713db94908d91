"""Functions of users on columns: the windows of a pipeline with a function of its own are decided by the
kernels of the columnar engine, and the function is called with rows that are made when it reads them.

    rows of the range ── kernel ── firings, lists of element numbers ── calls ── panes
                                   open windows, lists ──────────────── snapshot

What this can't do for a range of keys, the operator engine does instead, from the same rows.
"""

from slackwater.jobs.engines.functions.engine import FunctionEngine
from slackwater.jobs.engines.functions.exactness import why_not
from slackwater.jobs.engines.functions.left_over import LeftToOperator

__all__ = ["FunctionEngine", "LeftToOperator", "why_not"]
