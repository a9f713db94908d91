"""Functions of a user's that raise, emit what nobody asked for, or change what they are handed, under both
policies of `on_error`.

A poisoned row has x = 13. Where it raises in `process_element` or in an aggregate's `add`, `quarantine` must
set that row alone aside; at a firing every run fails, whatever the policy.
"""

from collections.abc import Iterator
from functools import partial

from tests.campaigns.cases.world import Case, World, assert_equal, row
from tests.cli.own_source import moment

_HEAD = """
import math, os, sys
from datetime import datetime, timedelta
from slackwater import AggregateFunction, DeltaSource, KeyedProcessFunction, Pipeline, ProcessWindowFunction
from slackwater import TumblingEventTimeWindows, ValueStateDescriptor, WatermarkStrategy

def recurse(n): return recurse(n + 1) + 1
def recurse_in_sorted(items): return sorted(items, key=lambda item: recurse_in_sorted(items))
def take_all_memory():
    import resource
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), limit))
    blocks = []
    while True: blocks.append(bytearray(1 << 20))
class Odd:
    def __repr__(self): raise ValueError("no text of it")
"""
_DECLARED = """
own = Pipeline(
    name="own", source=DeltaSource("sources/own", event_time="e", arrival_time="a"), key_by="k",
    watermarks=WatermarkStrategy.bounded_out_of_orderness(
        timedelta(minutes=10)).with_interval(timedelta(minutes=10)),
    start="2013-01-01", schedule=None, {settings})
"""
_WINDOWS = "window=TumblingEventTimeWindows.of(timedelta(hours=2)), allowed_lateness=timedelta(days=3), "
_AGGREGATE = """
class Total(AggregateFunction):
    def create_accumulator(self): return 0
    def add(self, row, total):
        if row.x == 13: {poison}
        return total + row.x
    def get_result(self, total): return total
    def merge(self, a, b): return a + b
class Emit(ProcessWindowFunction):
    def process(self, key, context, elements):
        for total in elements: yield {{"total": total}}
"""
_KEYED = """
class Totals(KeyedProcessFunction):
    states = (ValueStateDescriptor("total", sql_type="long"),)
    def open(self, context): self.total = context.get_state(self.states[0])
    def process_element(self, row, context):
        self.total.update((self.total.value() or 0) + row.x)
        if row.x == 13: {poison}
        yield {{"total": self.total.value()}}
"""
_FIRING = """
class Sums(ProcessWindowFunction):
    def process(self, key, context, elements):
        rows = list(elements)
        total = sum(one.x for one in rows)
        if any(one.x == 13 for one in rows): {poison}
        yield {{"total": total}}
"""
RAISES = {
    "raises": 'raise ValueError("poison")',
    "divides by zero": "1 / 0",
    "recurses without end": "recurse(0)",
    "exits": "sys.exit(7)",
    "raises what has no text": "raise ValueError(Odd())",
    "raises StopIteration": "raise StopIteration",
    "changes the element": "row.x = 1",
    "raises MemoryError": "raise MemoryError",
    "takes all memory": "take_all_memory()",
    "recurses without end in sorted": "recurse_in_sorted([1])",
    "raises a text of a megabyte": 'raise ValueError("p" * (1 << 20))',
    "raises a text with control characters": r'raise ValueError("\\x1b[2J\\x00")',
}
# What process emits for a poisoned window, and which words the refusal must have.
EMITS = {
    "a text for a row": 'yield "total"; return',
    "a column too many": 'yield {"total": 1, "more": 2}; return',
    "another column": 'yield {"sum": 1}; return',
    "a text for a long": 'yield {"total": "many"}; return',
    "a fraction for a long": 'yield {"total": 1.5}; return',
    "NaN for a long": 'yield {"total": math.nan}; return',
    "a long beyond int64": 'yield {"total": 1 << 63}; return',
    "a list for a long": 'yield {"total": [1]}; return',
    "a boolean for a long": 'yield {"total": True}; return',
    "a long tuple": "yield (key, 1, 2, 3, 4); return",
    "an object": "yield Odd(); return",
}
ROWS = [row(0, x=1), row(1, x=2), row(5, x=4), row(9, x=13), row(9.5, x=8), row(11, "b", 16)]


def cases() -> Iterator[Case]:
    """All of them."""
    group = "functions"
    for name, poison in RAISES.items():
        for policy in ("fail", "quarantine"):
            is_of_all = "exits" in name or "emory" in name
            expects = "error" if policy == "fail" or is_of_all else "quarantine"
            for kind, code in (("aggregate", _AGGREGATE), ("process function", _KEYED)):
                act = partial(
                    _element, poison=poison, policy=policy, kind=kind, code=code, may_fail=is_of_all
                )
                yield Case(group, f"{kind} that {name}, {policy}", expects, act)
        yield Case(
            group,
            f"a firing that {name}",
            "error",
            partial(_firing, poison=poison.replace("row.", "rows[0].")),
        )
    for name, poison in EMITS.items():
        yield Case(group, f"a firing that emits {name}", "error", partial(_firing, poison=poison))
    yield Case(
        group,
        "a firing that emits nothing",
        "right result",
        partial(_right, code=_FIRING.format(poison="return")),
    )
    yield Case(group, "a firing that emits null", "right result", _null)
    yield Case(group, "a function that changes its list of elements", "right result", _clears)
    yield Case(group, "an aggregate whose result is no long", "error", _result)
    yield Case(group, "a timer for the past and one beyond int64", "error", _timer)


def _declare(world: World, code: str, settings: str) -> None:
    world.file.write_text(_HEAD + code + _DECLARED.format(settings=settings))
    world.write([*ROWS, row(23, "zz-last", 0)])


def _element(world: World, poison: str, policy: str, kind: str, code: str, may_fail: bool) -> None:
    settings = f'on_error="{policy}", output="total long", '
    settings += _WINDOWS + "aggregate=Total(), process=Emit()" if kind == "aggregate" else "process=Totals()"
    _declare(world, code.format(poison=poison), settings)
    command = ["run", "own", "--to", "2013-01-02"]
    if policy == "fail":
        world.refuses(command, "sys.exit(7)" if "exit" in poison else "'a'", codes=(1, 2))
        return
    done = world.call(*command)
    if may_fail and done.returncode:
        assert done.returncode in (1, 3) and "Traceback" not in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    world.quarantines({"user_code": 1})
    if kind == "aggregate":
        assert_equal(world.results("total"), _right_totals(), "published")
    else:
        totals = sorted(one["total"] for one in world.rows("published") if one["k"] == "a")
        assert_equal(totals, [1, 3, 7, 15], "published")


def _right_totals() -> dict[tuple[str, object], tuple[int]]:
    """Without the poisoned row."""
    return {("a", moment(0)): (3,), ("a", moment(4)): (4,), ("a", moment(8)): (8,), ("b", moment(10)): (16,)}


def _firing(world: World, poison: str) -> None:
    for policy in ("fail", "quarantine"):
        one = World(world.root / policy)
        _declare(
            one,
            _FIRING.format(poison=poison),
            _WINDOWS + f'on_error="{policy}", process=Sums(), output="total long"',
        )
        one.refuses(["run", "own", "--to", "2013-01-02"], codes=(1, 2))
        assert_equal(one.rows("published") if one.ledger_rows() else [], [], "published")


def _right(world: World, code: str) -> None:
    _declare(world, code, _WINDOWS + 'process=Sums(), output="total long"')
    world.runs("2013-01-02")
    right = {place: total for place, total in _right_totals().items() if place[1] != moment(8)}
    assert_equal(world.results("total"), right, "published")


def _null(world: World) -> None:
    _declare(
        world,
        _FIRING.format(poison='yield {"total": None}; return'),
        _WINDOWS + 'process=Sums(), output="total long"',
    )
    world.runs("2013-01-02")
    assert_equal(world.results("total"), {**_right_totals(), ("a", moment(8)): (None,)}, "published")


def _clears(world: World) -> None:
    """It is handed a list of its own: what it does to that changes no later firing."""
    code = _FIRING.format(poison="rows.clear()").replace("rows = list(elements)", "rows = elements")
    code = code.replace(
        "if any(one.x == 13 for one in rows): rows.clear()", "getattr(rows, 'clear', lambda: None)()"
    )
    _declare(world, code, _WINDOWS + 'process=Sums(), output="total long"')
    world.runs("2013-01-02")
    world.write([row(30, "zz-last", 0), {**row(0.5, x=100), "a": moment(29)}])
    world.runs("2013-01-03")
    right = {**_right_totals(), ("a", moment(8)): (21,), ("a", moment(0)): (103,)}
    assert_equal(world.results("total"), right, "published")


def _result(world: World) -> None:
    code = _AGGREGATE.format(poison="pass").replace("return total\n", "return 'many'\n")
    _declare(world, code, _WINDOWS + 'aggregate=Total(), process=Emit(), output="total long"')
    world.refuses(["run", "own", "--to", "2013-01-02"], "total", codes=(1, 2))


def _timer(world: World) -> None:
    code = _KEYED.format(poison="context.timer_service.register_event_time_timer(1 << 70)")
    _declare(world, code, 'process=Totals(), output="total long"')
    world.refuses(["run", "own", "--to", "2013-01-02"], "292,000 years", codes=(1, 2))
