"""The operator engine: windows run element by element, for everything that the core can do."""

from slackwater.engine.operator.engine import OperatorEngine

__all__ = ["OperatorEngine"]
