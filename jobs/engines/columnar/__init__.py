"""The columnar engine: windows on whole columns, for what commutes."""

from slackwater.jobs.engines.columnar.engine import ColumnarEngine

__all__ = ["ColumnarEngine"]
