"""The engine of functions: map tasks as of the operator engine, windows on columns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from slackwater.engine.functions.range import FunctionRange
from slackwater.engine.operator.window_range import WindowRange
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.replaying.sent_elements import ReceivedElements, replay_elements
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.in_process import Transport


class FunctionEngine:
    """The columnar engine for functions of the user's."""

    name = "columnar"
    aggregates_first = False
    in_threads = False

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        keys = Keys.of(replay.pipeline, replay.schema)
        return replay_elements(replay, keys, transport, CallInRange(replay, keys))


@dataclass(frozen=True)
class CallInRange:
    """Range task: fire the windows of one range on columns, or in the operator where memory is short."""

    replay: Replay
    keys: Keys

    def __call__(self, number: int, tables_of_range: Iterable[pa.Table]) -> Iterator[pa.Table]:
        range_elements = ReceivedElements(self.replay, self.keys, number)
        yield from range_elements.receive(tables_of_range)
        rows = range_elements.take_rows()
        on_columns = FunctionRange(self.replay, self.keys, number, rows)
        work = on_columns if on_columns.fits_memory() else WindowRange(self.replay, self.keys, number, rows)
        yield from work.run()
