"""The engine of functions and walked triggers: map tasks as of the operator engine, windows on columns."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from slackwater.engine.functions.exactness import is_walked, keeps_state
from slackwater.engine.functions.left_over import AsksForState, LeftToOperator
from slackwater.engine.functions.range import FunctionRange
from slackwater.engine.functions.select_range import SelectRange
from slackwater.engine.functions.trigger_range import TriggerRange, why_not_walked
from slackwater.engine.operator.window_range import WindowRange
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.replaying.sent_elements import ReceivedElements, replay_elements
from slackwater.engine.rows.keys import Keys
from slackwater.engine.transport.in_process import Transport

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FunctionEngine:
    """The columnar engine for functions of the user's, and for a `select` whose windows are walked. Without
    `leaves_ranges` a range that only the operator engine can replay raises its LeftToOperator.
    """

    leaves_ranges: bool = True

    name = "columnar"
    aggregates_first = False
    in_threads = False

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        keys = Keys.of(replay.pipeline, replay.schema)
        return replay_elements(replay, keys, transport, CallInRange(replay, keys, self.leaves_ranges))


@dataclass(frozen=True)
class CallInRange:
    """Range task: fire the windows of one range on columns, or leave it to the operator engine."""

    replay: Replay
    keys: Keys
    leaves_ranges: bool = True

    def __call__(self, number: int, tables_of_range: Iterable[pa.Table]) -> Iterator[pa.Table]:
        range_elements = ReceivedElements(self.replay, self.keys, number)
        yield from range_elements.receive(tables_of_range)
        rows = range_elements.take_rows()
        try:
            tables = self._run(number, rows)
        except LeftToOperator as reason:
            if not self.leaves_ranges:
                raise
            yield from WindowRange(self.replay, self.keys, number, rows).run()
            if reason.__cause__ is not None:
                _log.warning(
                    "%s: %s on columns, and not element by element, as range %d of keys was replayed then; "
                    "the results are those of the operator engine",
                    self.replay.pipeline.name,
                    reason,
                    number,
                    exc_info=reason.__cause__,
                )
        else:
            yield from tables

    def _run(self, number: int, rows: pa.Table) -> Iterator[pa.Table]:
        pipeline = self.replay.pipeline
        if pipeline.select:
            return SelectRange(self.replay, self.keys, number, rows).run()
        try:
            if not is_walked(pipeline):
                return FunctionRange(self.replay, self.keys, number, rows).run()
            return self._walk(number, rows, keeps_state(pipeline))
        except AsksForState:
            if why_not_walked(pipeline, keeps_state=True) is not None:
                raise
            return self._walk(number, rows, True)

    def _walk(self, number: int, rows: pa.Table, keeps_state: bool) -> Iterator[pa.Table]:
        return TriggerRange(self.replay, self.keys, number, rows, keeps_state).run()
