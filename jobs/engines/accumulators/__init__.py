"""How each declared aggregate accumulates, and which typed columns hold its accumulator in `window_state`.

One file a family of aggregates; `binding` chooses by the type of the column, `operands` takes from rows what
an accumulator adds.
"""

from slackwater.jobs.engines.accumulators.accumulator import Accumulator, Part, ResultOverflow
from slackwater.jobs.engines.accumulators.binding import bind, bind_select
from slackwater.jobs.engines.accumulators.operands import operands, totals
from slackwater.jobs.engines.accumulators.select_function import SelectFunction, Stretch, StretchFunction

__all__ = [
    "Accumulator",
    "Part",
    "ResultOverflow",
    "SelectFunction",
    "Stretch",
    "StretchFunction",
    "bind",
    "bind_select",
    "operands",
    "totals",
]
