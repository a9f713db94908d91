"""A pipeline is checked when it is declared (`pipeline`, `declaration_checks`, `process_functions`,
`columns`): each refusal names the pipeline and the rule.
"""

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from slackwater.pipelines import DeltaSource, Pipeline, agg, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.windowing import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindows,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    Trigger,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)

HOUR = timedelta(hours=1)
YEAR = timedelta(days=365)
SOURCE = DeltaSource("sources/flights", event_time="event_time", arrival_time="arrival_time")


def declare(**changes: Any) -> Pipeline:
    arguments: dict[str, Any] = {
        "name": "flights",
        "source": SOURCE,
        "watermarks": WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=5)),
        "key_by": "origin",
        "window": TumblingEventTimeWindows.of(HOUR),
        "select": {"flights": agg.count()},
        "start": "2013-01-01",
    }
    return Pipeline(**{**arguments, **changes})


class Listing(WindowFunction):
    """Refused or accepted for what it is; nothing here runs it."""


OWN_FUNCTION: dict[str, Any] = {"select": {}, "process": Listing(), "output": "n long"}


class Counting(KeyedProcessFunction):
    """Declared, never run here."""

    states = (ValueStateDescriptor("seen", sql_type="bigint"), ListStateDescriptor("rest"))


def counting(states: Any) -> KeyedProcessFunction:
    function = Counting()
    function.states = states
    return function


KEYED_PROCESS: dict[str, Any] = {"select": {}, "window": None, "process": Counting(), "output": "n long"}


class TestWhatIsAccepted:
    def test_a_process_function_instead_of_windows(self) -> None:
        pipeline = declare(**KEYED_PROCESS, side_outputs={"odd": "n long"})
        assert (
            pipeline.keyed_process is pipeline.process
            and pipeline.pane_results == ("n",)
            and not pipeline.purges
        )
        assert declare().keyed_process is None

    def test_a_function_of_the_users_own_with_typed_columns(self) -> None:
        pipeline = declare(
            **{
                **OWN_FUNCTION,
                "output": "origin STRING, n long,\n price: decimal(10, 2), xs array<array<int>>",
            }
        )
        assert pipeline.pane_results == ("n", "price", "xs")
        assert pipeline.output_columns == (
            ("origin", "string"),
            ("n", "long"),
            ("price", "decimal(10,2)"),
            ("xs", "array<array<int>>"),
        )

    def test_side_outputs_have_columns_of_their_own(self) -> None:
        pipeline = declare(**OWN_FUNCTION, side_outputs={"odd": "origin string, n long", "even": "x date"})
        assert pipeline.side_columns == {
            "odd": (("origin", "string"), ("n", "long")),
            "even": (("x", "date"),),
        }

    @pytest.mark.parametrize("fold", [{"reduce": max}, {"aggregate": AggregateFunction()}])
    def test_a_fold_alone_or_with_a_function_of_its_value(self, fold: dict[str, Any]) -> None:
        assert declare(**{**OWN_FUNCTION, **fold, "process": None}).pane_results == ("n",)
        assert declare(**{**OWN_FUNCTION, **fold}).pane_results == ("n",)

    @pytest.mark.parametrize(
        ("window", "trigger", "evictor"),
        [
            (CountWindows.of(3), PurgingTrigger.of(CountTrigger.of(3)), None),
            (CountWindows.of(5, 2), CountTrigger.of(2), CountEvictor.of(5)),
        ],
    )
    def test_count_windows_stand_for_global_ones_with_trigger_and_evictor(
        self, window: CountWindows, trigger: Trigger, evictor: CountEvictor | None
    ) -> None:
        by_hand = {"window": GlobalWindows.create(), "trigger": trigger, "evictor": evictor}
        assert declare(window=window).describe() == declare(**by_hand).describe()
        with pytest.raises(PipelineError, match=r"with others write window=GlobalWindows\.create\(\)"):
            declare(window=window, trigger=trigger)

    def test_one_key_column_or_several(self) -> None:
        assert declare().keys == ("origin",)
        assert declare(key_by=["origin", "dest"]).keys == ("origin", "dest")

    @pytest.mark.parametrize(
        "start",
        [
            "2013-01-01",
            "2013-01-01T00:00:00Z",
            "2013-01-01T05:00:00+05:00",
            date(2013, 1, 1),
            datetime(2013, 1, 1),  # noqa: DTZ001 - a naive value is UTC
            datetime(2012, 12, 31, 19, tzinfo=timezone(timedelta(hours=-5))),
        ],
    )
    def test_a_start_in_any_form_is_a_moment_of_utc(self, start: object) -> None:
        pipeline = declare(start=start)
        assert pipeline.start == datetime(2013, 1, 1, tzinfo=UTC)
        assert pipeline.start_ms == 1_356_998_400_000

    def test_durations_become_milliseconds(self) -> None:
        pipeline = declare(allowed_lateness=4 * HOUR, max_ahead=timedelta(milliseconds=1))
        assert (pipeline.allowed_lateness_ms, pipeline.max_ahead_ms) == (14_400_000, 1)

    def test_the_assigners_trigger_is_in_force_unless_the_pipeline_names_one(self) -> None:
        assert declare().effective_trigger == EventTimeTrigger()
        assert declare(trigger=CountTrigger.of(3)).effective_trigger == CountTrigger.of(3)

    @pytest.mark.parametrize(
        ("trigger", "purges"),
        [(None, False), (CountTrigger.of(3), False), (PurgingTrigger.of(CountTrigger.of(3)), True)],
    )
    def test_a_pipeline_purges_when_its_trigger_does(self, trigger: object, purges: bool) -> None:
        assert declare(trigger=trigger).purges is purges

    def test_declarations_can_be_pickled_and_compared(self) -> None:
        pipeline = declare(
            expect=[expect.between("flights", min=1)], trigger=PurgingTrigger.of(CountTrigger.of(3))
        )
        copy = pickle.loads(pickle.dumps(pipeline))
        assert copy == pipeline and copy.keys == pipeline.keys
        assert declare(select={"flights": agg.count("tailnum")}) != declare()

    def test_a_pipeline_does_not_change_with_the_values_that_it_was_made_from(self) -> None:
        select = {"flights": agg.count()}
        pipeline = declare(select=select)
        select["more"] = agg.count()
        assert list(pipeline.select) == ["flights"]


REFUSED_DECLARATIONS: list[tuple[dict[str, Any], str]] = [
    ({"name": "Flights"}, r"Pipeline 'Flights': a name is \[a-z\]"),
    ({"name": "sources"}, "and not 'sources'"),
    ({"name": ""}, "a name is"),
    ({"name": "_a"}, "a name is"),
    ({"name": "a" * 64}, "a name is"),
    ({"name": "a\n"}, "a name is"),
    ({"name": None}, "a name is"),
    ({"source": "sources/flights"}, "source is 'sources/flights'; it is a DeltaSource"),
    ({"watermarks": HOUR}, "it is a WatermarkStrategy"),
    ({"window": HOUR}, "it is a WindowAssigner"),
    ({"trigger": 3}, "trigger is 3; it is a windowing Trigger"),
    ({"key_by": []}, "key_by is .*; it is one column or several different ones"),
    ({"key_by": ["a", "a"]}, "several different ones"),
    ({"key_by": 3}, "key_by is 3; it is one column"),
    ({"key_by": ["a", 3]}, "several different ones"),
    ({"key_by": ""}, "column '' must be letters"),
    ({"key_by": "two words"}, "key_by has 'two words'; the name of a key is letters, digits and single"),
    ({"key_by": "a__b"}, "single underscores"),
    ({"key_by": "é"}, r"""key_by=\{'key': '"é"'\}"""),
    ({"key_by": ["a", "2 b.c"]}, r"""key_by=\{'a': 'a', 'key_2_b_c': '"2 b.c"'\}"""),
    ({"key_by": "window_start"}, "column 'window_start' is a column of our own tables; give it another name"),
    ({"key_by": "Event_Time"}, "column of our own tables"),
    ({"select": {}}, "select is empty; name at least one aggregate"),
    ({"select": [agg.count()]}, "select is .*; it is a mapping"),
    (
        {"select": {"n": "count"}},
        r"takes aggregates such as agg.count\(\); write .* as results={'n': 'count'}",
    ),
    ({"select": {"n": 3}}, r"select\['n'\] is 3, .*; write an aggregate there"),
    ({"select": {3: agg.count()}}, "column 3 must be letters"),
    ({"select": {"kind": agg.count()}}, "column of our own tables"),
    (
        {"select": {"Origin": agg.count()}},
        "columns of keys, windows and results must differ, also in lower case",
    ),
    ({"select": {"n": agg.count(), "N": agg.count()}}, "must differ"),
    ({"evictor": 3}, "evictor is 3; it is a windowing Evictor"),
    (
        {"process": len},
        "process is .*; it is a KeyedProcessFunction, a ProcessWindowFunction or a WindowFunction",
    ),
    ({"window": None}, "window is missing; give an assigner, or a KeyedProcessFunction as process"),
    ({**OWN_FUNCTION, "window": None}, "window is missing"),
    *(
        ({**KEYED_PROCESS, **changes}, rule)
        for changes, rule in [
            ({"window": GlobalWindows.create()}, "a KeyedProcessFunction has no windows; leave out window"),
            (
                {"trigger": CountTrigger.of(3), "flink_exact": True},
                "has no windows; leave out trigger, flink_exact",
            ),
            ({"allowed_lateness": HOUR}, "leave out allowed_lateness"),
            ({"late_refires": "run"}, "leave out late_refires"),
            ({"aggregate": AggregateFunction()}, "leave out aggregate"),
            ({"output": None}, "output names the columns"),
            (
                {"process": counting(states=["seen"])},
                "Counting.states is .*; it is a tuple of descriptors with different names",
            ),
            (
                {"process": counting(states=[ValueStateDescriptor("a"), ListStateDescriptor("A")])},
                "with different names",
            ),
            (
                {"process": counting(states=[ValueStateDescriptor("a__b")])},
                "state 'a__b' must be letters, digits and single underscores",
            ),
            (
                {"process": counting(states=[ValueStateDescriptor("a", sql_type="lnog")])},
                "states: column 'a' has the type 'lnog'",
            ),
        ]
    ),
    ({"on_error": "ignore"}, "on_error is 'ignore'; it is 'fail' or 'quarantine'"),
    ({"where": "n >"}, "where is 'n >'; at column 4: the text ends"),
    ({"where": 3}, "where is 3; it is SQL as text"),
    ({"process": Listing()}, "select computes the results already"),
    (
        {"output": "n long"},
        "output names the columns of what process, reduce or aggregate emit; give both or none",
    ),
    ({"select": {}, "process": Listing()}, "give both or none"),
    *(
        ({**OWN_FUNCTION, **changes}, rule)
        for changes, rule in [
            ({"output": " "}, "output is ' '; give names and types as text, e.g. 'origin string, n long'"),
            ({"output": "n long, m"}, "output has 'm', which is no column; write its name and its type"),
            ({"output": "n lnog"}, "output: column 'n' has the type 'lnog'; there are tinyint,"),
            ({"output": "n array<lnog>"}, "has the type 'array<lnog>'"),
            ({"output": "n decimal(39,0)"}, "has the type"),
            ({"output": "n decimal(3,4)"}, "has the type"),
            ({"output": "origin string"}, "output 'origin string' has keys alone; name at least one result"),
            (
                {"output": "n long, N int"},
                "columns of keys, windows and results must differ, also in lower case",
            ),
            ({"output": "firing long"}, "column 'firing' is a column of our own tables"),
            ({"output": "a__b long"}, "single underscores"),
            ({"side_outputs": {"Late rows": "n long"}}, "a tag is"),
            ({"side_outputs": {"odd": ""}}, "side output 'odd' is ''; give names and types"),
            ({"side_outputs": {"odd": "kind string"}}, "column of our own tables"),
            (
                {"process": None, "reduce": max, "side_outputs": {"odd": "n long"}},
                "side outputs are written by a process function",
            ),
            (
                {"reduce": max, "aggregate": AggregateFunction()},
                "both fold a window's elements; name one of them",
            ),
            ({"reduce": 3}, "reduce needs a ReduceFunction or a callable of two values, got 3"),
            ({"columns": "n"}, "columns is 'n'; it is a list of source columns"),
            ({"columns": [3]}, "it is a list of source columns"),
            ({"records": [tuple]}, "records has <class 'tuple'>; it is a list of named tuple classes"),
        ]
    ),
    (
        {"window": EventTimeSessionWindows.with_gap(HOUR), "trigger": DeltaTrigger.of(1.0, max)},
        "EventTimeSessionWindows merges windows, and .* cannot merge",
    ),
    ({"expect": expect.between("flights", min=1)}, "expect is .*; it is a list of expectations"),
    ({"expect": ["flights > 0"]}, "expect has 'flights > 0'; it is a list of"),
    (
        {"expect": [expect.not_null("dest")]},
        r"expectation on 'dest', but the panes have \['flights', 'origin'\]",
    ),
    ({"start": "yesterday"}, "start is 'yesterday'; it is an ISO 8601 date or time, e.g. '2013-01-01'"),
    ({"start": 20130101}, "start is 20130101; it is a date, a datetime or ISO 8601 text"),
    ({"start": "2013-01-01T00:00:00.000001"}, "slices begin and end at whole milliseconds"),
    ({"schedule": 3600}, "schedule is 3600; it is a cron expression"),
    ({"schedule": "hourly"}, "schedule: 'hourly' is no cron expression: .* one of @hourly, @daily, @weekly"),
    ({"schedule": "hourly"}, r"@yearly; did you mean schedule='@hourly'\?$"),
    ({"schedule": "@dayly"}, r"did you mean schedule='@daily'\?$"),
    ({"schedule": "0 24 * * 1"}, "schedule: '0 24 . . 1' is no cron expression: .* out of range"),
    ({"schedule": "0 0 31 2 *"}, "schedule: '0 0 31 2 .' never comes after 2013-01-01"),
    ({"approve_warnings": "yes"}, "approve_warnings is 'yes'; it is True or False"),
    ({"stragglers": "drop"}, "stragglers is 'drop'; it is 'fold' or 'restate'"),
    ({"late_refires": "hour"}, "late_refires is 'hour'; it is 'element', 'tick' or 'run'"),
    (
        {"late_refires": "run", "trigger": PurgingTrigger.of(EventTimeTrigger())},
        "late_refires is 'run', but with a purging trigger every firing is a result of its own; leave it out",
    ),
    *(
        ({name: 3600}, f"{name} is 3600; durations are datetime.timedelta, bare numbers have no unit")
        for name in ("slice", "settle")
    ),
    *(
        ({name: -HOUR}, f"{name} is -1 day, 23:00:00; it is at least 0 ms")
        for name in ("allowed_lateness", "max_ahead", "max_behind", "settle")
    ),
    ({"slice": timedelta(0)}, "slice is 0:00:00; it is at least 1 ms"),
    ({"slice": timedelta(microseconds=1500)}, "durations are whole milliseconds"),
    ({"allowed_lateness": timedelta.max - timedelta(microseconds=999_999)}, "it is at most 366,000 days"),
    *(
        ({name: value}, f"the {part} of {name} is [0-9,]+ days; it is at most 366,000 days")
        for name, value, part in (
            ("watermarks", WatermarkStrategy.bounded_out_of_orderness(2000 * YEAR), "out_of_orderness"),
            ("watermarks", WatermarkStrategy.monotonous().with_idleness(2000 * YEAR), "idle_timeout"),
            ("window", EventTimeSessionWindows.with_gap(2700 * YEAR), "gap"),
            ("window", TumblingEventTimeWindows.of(2700 * YEAR), "size"),
            ("window", SlidingEventTimeWindows.of(2700 * YEAR, 300 * YEAR), "size"),
            ("trigger", ContinuousEventTimeTrigger.of(1200 * YEAR), "interval"),
            ("trigger", PurgingTrigger.of(ContinuousEventTimeTrigger.of(1200 * YEAR)), "interval"),
            ("trigger", ProcessingTimeoutTrigger.of(CountTrigger.of(3), 1500 * YEAR), "timeout"),
            (
                "trigger",
                PurgingTrigger.of(
                    ProcessingTimeoutTrigger.of(ContinuousProcessingTimeTrigger.of(1100 * YEAR), HOUR)
                ),
                "interval",
            ),
            ("evictor", TimeEvictor.of(1900 * YEAR), "size"),
        )
    ),
    *(
        ({"max_parallelism": value}, f"max_parallelism is {value!r}; it is 1 to 32768")
        for value in (0, 32769, 1.5, True, "8")
    ),
    *(({"max_catch_up": value}, f"max_catch_up is {value!r}; it is 1 to 1000000") for value in (0, -1, None)),
]


@pytest.mark.parametrize(
    "keys", ["page url", "context.page", ["origin", "Was's", 'the "so-called"', "2_", "a__b"]]
)
def test_a_key_that_needs_quotes_is_refused_with_the_declaration_that_works(keys: object) -> None:
    with pytest.raises(PipelineError) as refusal:
        declare(key_by=keys)
    changes = eval(f"dict({refusal.value.rule.partition('such a name: ')[2]})")
    pipeline = declare(**changes)
    columns = [expression.uses[0].column for _, expression in pipeline.derivations]
    assert columns == [key for key in ([keys] if isinstance(keys, str) else keys) if key != "origin"]


@pytest.mark.parametrize(("changes", "rule"), REFUSED_DECLARATIONS, ids=lambda value: str(value)[:40])
def test_a_pipeline_that_cannot_be_run_is_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=rule) as refusal:
        declare(**changes)
    assert refusal.value.exit_code == 2
    assert refusal.value.subject == f"Pipeline {changes.get('name', 'flights')!r}"
    assert str(refusal.value) == f"{refusal.value.subject}: {refusal.value.rule}"


def test_a_declaration_is_keyword_only() -> None:
    with pytest.raises(TypeError):
        Pipeline("flights")  # type: ignore[call-arg, misc]


def test_windows_without_end_are_declared_like_others() -> None:
    assert declare(window=GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(3))).purges
