"""The sinks that come along: declarations and, once opened, targets for corrections; a file per kind.

`slackwater.runs.publishing.delivery` reads the corrections and calls a target; opening a target imports its
packages.
"""

from slackwater.pipelines.sinks import Sink, SinkContext, SinkPosition, SinkTarget
from slackwater.sinks.change_feed import ChangeFeedSink
from slackwater.sinks.function import FunctionSink
from slackwater.sinks.redis import RedisSink
from slackwater.sinks.sql import SqlSink

__all__ = [
    "ChangeFeedSink",
    "FunctionSink",
    "RedisSink",
    "Sink",
    "SinkContext",
    "SinkPosition",
    "SinkTarget",
    "SqlSink",
]
