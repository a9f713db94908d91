"""The sinks that come along: declarations and, once opened, the targets that corrections are delivered to.

A file a kind. What reads the corrections and calls a target is
`slackwater.jobs.protocol.publishing.delivery`; packages of targets are imported when one is opened.
"""

from slackwater.jobs.pipelines.sinks import Sink, SinkContext, SinkPosition, SinkTarget
from slackwater.jobs.sinks.change_feed import ChangeFeedSink
from slackwater.jobs.sinks.function import FunctionSink
from slackwater.jobs.sinks.redis import RedisSink
from slackwater.jobs.sinks.sql import SqlSink

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
