"""The columnar engine: windows on whole columns, for what commutes."""

from slackwater.engine.columnar.engine import ColumnarEngine

__all__ = ["ColumnarEngine"]
