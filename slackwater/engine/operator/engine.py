"""The operator engine: Flink's operators, run element by element. Map tasks judge rows and send them to the
range of their key group; a range task replays them with a `RangeWork`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from slackwater.engine.operator.process_range import ProcessRange
from slackwater.engine.operator.window_range import WindowRange
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.replaying.sent_elements import ReceivedElements, replay_elements
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.in_process import Transport


class OperatorEngine:
    """Exact for every pipeline."""

    name = "operator"
    aggregates_first = False
    in_threads = False

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        keys = Keys.of(replay.pipeline, replay.schema)
        return replay_elements(replay, keys, transport, ReplayRange(replay, keys))


@dataclass(frozen=True)
class ReplayRange:
    replay: Replay
    keys: Keys

    def __call__(self, number: int, tables_of_range: Iterable[pa.Table]) -> Iterable[pa.Table]:
        range_elements = ReceivedElements(self.replay, self.keys, number)
        yield from range_elements.receive(tables_of_range)
        work = WindowRange if self.replay.pipeline.keyed_process is None else ProcessRange
        yield from work(self.replay, self.keys, number, range_elements.take_rows()).run()
