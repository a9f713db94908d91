"""The sinks that come along: declarations and, once opened, the targets that corrections are delivered to.

A file a kind. What reads the corrections and calls a target is
`slackwater.runs.publishing.delivery`; packages of targets are imported when one is opened.
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
