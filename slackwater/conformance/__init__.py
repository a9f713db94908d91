"""Plays traces recorded from the real Flink 2.3.0 against this package, step by step and in exact order."""

from slackwater.conformance.player import PlayReport, play, play_case
from slackwater.conformance.storages import BACK_ENDS, BackEnd
from slackwater.conformance.trace import Case, read_cases

__all__ = ["BACK_ENDS", "BackEnd", "Case", "PlayReport", "play", "play_case", "read_cases"]
