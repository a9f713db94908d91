"""Random declarations: any assigner with any trigger that goes with it, any evictor, any kind of function,
some lateness.

Strategies only; what is run with them is windowing_replays.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from slackwater.windowing import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CumulateEventTimeWindows,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    WindowAssigner,
    WindowFunction,
)
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig

Finish = Callable[[WindowOperatorBuilder], WindowOperatorConfig]


def concat(a: Any, b: Any) -> str:
    """Shows the order and nesting of calls."""
    return f"({a}{b})"


class Total(AggregateFunction):
    """(sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0], a[1] + b[1])


class Concat(AggregateFunction):
    """Text that shows the order of calls, and no result for a text of even length."""

    def create_accumulator(self) -> str:
        return ""

    def add(self, value: int, accumulator: str) -> str:
        return f"{accumulator}{value},"

    def get_result(self, accumulator: str) -> str | None:
        return accumulator if len(accumulator) % 2 else None

    def merge(self, a: str, b: str) -> str:
        return f"[{a}|{b}]"


class Sorted(ProcessWindowFunction):
    """The elements, whatever their order, with the watermark and the clock; tells of the window's end."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield (sorted(elements, key=repr), context.current_watermark, context.current_processing_time)

    def clear(self, context: Any) -> None:
        context.output("cleared", (context.current_watermark, context.current_processing_time))


class Listed(ProcessWindowFunction):
    """One row for each element in its order, odd ones in a side output, too."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for position, element in enumerate(elements):
            yield (position, element)
            if element is not None and element % 2:
                context.output("odd", element)


class Older(WindowFunction):
    """The list of the elements."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return [list(inputs)]


class Remembering(ProcessWindowFunction):
    """Counts firings in per-window state, where there is any, and chains all that the key has seen in global
    state: order shows.
    """

    def __init__(self, has_window_state: bool) -> None:
        self.has_window_state = has_window_state

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        chain = context.global_state().get_state(ValueStateDescriptor("chain"))
        chain.update(concat(chain.value(), list(elements))[-60:])
        if not self.has_window_state:
            return [chain.value()]
        firings = context.window_state().get_reducing_state(ReducingStateDescriptor("firings", _sum))
        firings.add(1)
        return [(chain.value(), firings.get())]

    def clear(self, context: Any) -> None:
        if self.has_window_state:
            context.window_state().get_reducing_state(ReducingStateDescriptor("firings", _sum)).clear()


def _sum(a: int, b: int) -> int:
    return a + b


@dataclass(frozen=True)
class Choice:
    """One declaration.

    Attributes:
        assigner, trigger, evictor: as declared; None for the default trigger, and for no evictor.
        function: name in FUNCTIONS.
        lateness: in milliseconds.
        has_late_output, is_flink_exact: the builder's.
    """

    assigner: WindowAssigner
    trigger: Trigger | None
    evictor: Evictor | None
    function: str
    lateness: int = 0
    has_late_output: bool = True
    is_flink_exact: bool = False

    def config(self) -> WindowOperatorConfig:
        builder = WindowOperatorBuilder(STRING, self.assigner).allowed_lateness_ms(self.lateness)
        if self.trigger is not None:
            builder.trigger(self.trigger)
        if self.evictor is not None:
            builder.evictor(self.evictor)
        if self.has_late_output:
            builder.side_output_late_data()
        if self.is_flink_exact:
            builder.flink_exact()
        return FUNCTIONS[self.function](builder, isinstance(self.assigner, MergingWindowAssigner))


FUNCTIONS: dict[str, Callable[[WindowOperatorBuilder, bool], WindowOperatorConfig]] = {
    "reduce": lambda builder, _: builder.reduce(_sum),
    "reduce, process": lambda builder, _: builder.reduce(_sum, Sorted()),
    "aggregate": lambda builder, _: builder.aggregate(Total()),
    "aggregate, process": lambda builder, _: builder.aggregate(Total(), Sorted()),
    "process sorted": lambda builder, _: builder.process(Sorted()),
    "reduce in order": lambda builder, _: builder.reduce(concat),
    "aggregate in order": lambda builder, _: builder.aggregate(Concat()),
    "process in order": lambda builder, _: builder.process(Listed()),
    "apply": lambda builder, _: builder.apply(Older()),
    "process with state": lambda builder, merges: builder.process(Remembering(has_window_state=not merges)),
}
COMMUTATIVE = ["reduce", "reduce, process", "aggregate", "aggregate, process", "process sorted"]


def gap_of(value: int) -> int:
    return 4 + value % 5 * 6


def distance(a: int, b: int) -> int:
    return abs(a - b)


def assigners(gap_of: Callable[[Any], int] = gap_of) -> st.SearchStrategy[WindowAssigner]:
    """Windows of some ten milliseconds, of every kind; `gap_of` gives an element's dynamic gap."""
    sizes, offsets = st.sampled_from([10, 25]), st.sampled_from([0, 3, -4])
    sliding: Any = st.sampled_from([(20, 10), (25, 7), (10, 15)])
    return st.one_of(
        st.builds(TumblingEventTimeWindows, size_ms=sizes, offset_ms=offsets),
        st.builds(TumblingProcessingTimeWindows, size_ms=sizes, offset_ms=offsets),
        sliding.map(
            lambda size_and_slide: SlidingEventTimeWindows(
                size_ms=size_and_slide[0], slide_ms=size_and_slide[1]
            )
        ),
        sliding.map(
            lambda size_and_slide: SlidingProcessingTimeWindows(
                size_ms=size_and_slide[0], slide_ms=size_and_slide[1]
            )
        ),
        st.builds(
            CumulateEventTimeWindows,
            size_ms=st.just(30),
            step_ms=st.sampled_from([10, 15]),
            offset_ms=offsets,
        ),
        st.builds(EventTimeSessionWindows, gap_ms=st.sampled_from([5, 12])),
        st.builds(ProcessingTimeSessionWindows, gap_ms=st.sampled_from([5, 12])),
        st.just(DynamicEventTimeSessionWindows(gap_ms_of=gap_of)),
        st.just(DynamicProcessingTimeSessionWindows(gap_ms_of=gap_of)),
        st.just(GlobalWindows.create()),
    )


def triggers(
    assigner: WindowAssigner, distance: Callable[[Any, Any], float] = distance
) -> st.SearchStrategy[Trigger | None]:
    """None, and every trigger that goes with the assigner; `distance` is that of two elements."""
    intervals = st.sampled_from([3, 8])
    plain: st.SearchStrategy[Trigger] = st.one_of(
        st.just(EventTimeTrigger()),
        st.just(ProcessingTimeTrigger()),
        st.builds(CountTrigger, max_count=st.integers(1, 4)),
        st.builds(ContinuousEventTimeTrigger, interval_ms=intervals),
        st.builds(ContinuousProcessingTimeTrigger, interval_ms=intervals),
    )
    if not isinstance(assigner, MergingWindowAssigner):
        plain = plain | st.builds(DeltaTrigger, threshold=st.just(3), delta=st.just(distance))
        plain = plain | st.builds(
            ProcessingTimeoutTrigger,
            trigger=plain,
            timeout_ms=st.sampled_from([4, 9]),
            resets_timer_on_new_record=st.booleans(),
            clears_on_timeout=st.booleans(),
        )
    if isinstance(assigner, GlobalWindows):
        plain = plain | st.sampled_from([NeverTrigger(), EndOfStreamTrigger()])
    return st.none() | plain | st.builds(PurgingTrigger, trigger=plain)


def evictors(distance: Callable[[Any, Any], float] = distance) -> st.SearchStrategy[Evictor | None]:
    after = st.booleans()
    return st.one_of(
        st.none(),
        st.builds(CountEvictor, max_count=st.integers(0, 3), do_evict_after=after),
        st.builds(TimeEvictor, size_ms=st.sampled_from([0, 6]), do_evict_after=after),
        st.builds(DeltaEvictor, threshold=st.just(3), delta=st.just(distance), do_evict_after=after),
    )


@st.composite
def choices(draw: st.DrawFn, functions: Iterable[str] = tuple(FUNCTIONS)) -> Choice:
    """Any declaration whose parts go together."""
    assigner = draw(assigners())
    return Choice(
        assigner=assigner,
        trigger=draw(triggers(assigner)),
        evictor=draw(evictors()),
        function=draw(st.sampled_from(sorted(functions))),
        lateness=draw(st.sampled_from([0, 7, 30])),
        has_late_output=draw(st.booleans()),
        is_flink_exact=draw(st.booleans()),
    )
