"""Functions of users on columns: the windows of a pipeline with a function of its own are decided by the
kernels of the columnar engine, and the function is called with rows as named tuples.

    rows of the range ── kernel ── firings, lists of element numbers ── calls ── panes
                                   open windows, lists ──────────────── snapshot

A range that needs more memory than a task has is the operator engine's, which has disk.
"""

from slackwater.engine.functions.engine import FunctionEngine

__all__ = ["FunctionEngine"]
