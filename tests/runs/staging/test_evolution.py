"""Which settings may change between two runs: each declaration has its rule, and a refusal names the exact
difference and the ways out.
"""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline, agg, expect
from slackwater.runs.staging.evolution import (
    RULES,
    SettingsChanged,
    check_lasting,
    check_settings,
    differences,
)
from slackwater.windowing import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

HOUR = timedelta(hours=1)
PURGING = PurgingTrigger.of(EventTimeTrigger())
MIDNIGHT = departures.start_ms


class Own(EventTimeTrigger):
    """A trigger of a user's own."""


class Counting(ProcessWindowFunction):
    """A function of a user's own."""


def strategy(
    bound: timedelta = HOUR, idle: timedelta = HOUR / 2, interval: timedelta = HOUR / 12
) -> WatermarkStrategy:
    return WatermarkStrategy.bounded_out_of_orderness(bound).with_idleness(idle).with_interval(interval)


def changed(**settings: Any) -> Pipeline:
    return replace(departures, **settings)


def converted(before: Pipeline, after: Pipeline, from_ms: int = MIDNIGHT) -> list[str]:
    return [str(item) for item in check_settings(after, before.describe(), 7, from_ms)]


def test_every_declaration_of_a_pipeline_has_a_rule() -> None:
    settings = {item.name for item in fields(Pipeline) if item.init}
    # What the class of a pipeline's own windows declares is recorded beside its settings.
    assert {path.split(".")[0] for path in RULES} == {*settings, "window_columns"}


@pytest.mark.parametrize(
    "settings",
    [
        {"expect": []},
        {"expect": [expect.between("flights", min=2)]},
        {"schedule": None},
        {"timezone": "Europe/Berlin"},
        {"slice": timedelta(hours=6), "max_catch_up": 3, "settle": timedelta(0)},
        {"start": "2013-01-02"},
    ],
    ids=str,
)
def test_what_does_not_touch_state_is_free(settings: dict[str, Any]) -> None:
    assert converted(departures, changed(**settings)) == []


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"allowed_lateness": timedelta(days=2)}, ["allowed_lateness: 4 hours → 2 days"]),
        ({"watermarks": strategy(bound=HOUR * 2)}, ["watermarks.out_of_orderness_ms: 3600000 → 7200000"]),
        (
            {"watermarks": WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(HOUR / 12)},
            ["watermarks.idle_timeout_ms: 1800000 → none"],
        ),
        ({"stragglers": "restate"}, ["stragglers: fold → restate"]),
        ({"where": "dep_delay > 0"}, ["where: none → dep_delay > 0"]),
        (
            {
                "select": {
                    "flights": agg.count(),
                    "max_dep_delay": agg.max("dep_delay"),
                    "late": agg.count(where="dep_delay > 15"),
                },
                "expect": [],
            },
            [
                "select.late: none → count(where=dep_delay > 15)",
                "select.mean_dep_delay: mean(dep_delay) → none",
            ],
        ),
        (
            {"late_refires": "run", "on_error": "quarantine", "pickled_state": True},
            ["late_refires: element → run", "on_error: fail → quarantine", "pickled_state: False → True"],
        ),
        (
            {"watermarks": WatermarkStrategy.monotonous().with_idleness(HOUR / 2).with_interval(HOUR / 12)},
            ["watermarks.out_of_orderness_ms: 3600000 → 0"],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_changes_what_a_run_makes_of_its_elements_is_converted_and_told(
    settings: dict[str, Any], wanted: list[str]
) -> None:
    assert converted(departures, changed(**settings)) == wanted


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"key_by": "carrier", "expect": []}, "key_by: [origin] → [carrier]"),
        ({"key_by": ["origin", "carrier"]}, "key_by: [origin] → [origin, carrier]"),
        ({"window": TumblingEventTimeWindows.of(HOUR * 2)}, "window.size_ms: 3600000 → 7200000"),
        (
            {"window": EventTimeSessionWindows.with_gap(HOUR)},
            "window: TumblingEventTimeWindows(offset_ms=0, size_ms=3600000) → "
            "EventTimeSessionWindows(gap_ms=3600000)",
        ),
        ({"trigger": CountTrigger.of(3)}, "trigger: none → CountTrigger(max_count=3)"),
        (
            {"select": {**departures.select, "flights": agg.count("dep_delay")}},
            "select.flights.column: none → dep_delay",
        ),
        (
            {"select": {**departures.select, "mean_dep_delay": agg.max("dep_delay")}},
            "select.mean_dep_delay.kind: mean → max",
        ),
        ({"source": replace(departures.source, order_by=None)}, "source.order_by: row → none"),
        ({"flink_exact": True}, "flink_exact: False → True"),
        (
            {"watermarks": WatermarkStrategy.no_watermarks().with_interval(HOUR / 12)},
            "watermarks.kind: bounded_out_of_orderness → no_watermarks",
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_parked_state_cannot_follow_is_refused_with_the_difference_and_the_ways_out(
    settings: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(SettingsChanged) as refused:
        check_settings(changed(**settings), departures.describe(), 7, MIDNIGHT)
    text = str(refused.value)
    assert f"\n  {wanted}\n" in text
    assert (
        "run 7" in text
        and "Undo the change" in text
        and "slackwater backfill departures --from 2013-01-01T00:00:00Z" in text
    )
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({}, {"trigger": PURGING}, "trigger: none → PurgingTrigger(trigger=EventTimeTrigger())"),
        (
            {"trigger": PURGING},
            {"trigger": EventTimeTrigger()},
            "trigger: PurgingTrigger(trigger=EventTimeTrigger()) → EventTimeTrigger()",
        ),
        (
            {"trigger": ProcessingTimeoutTrigger.of(PURGING, HOUR)},
            {"trigger": None},
            "trigger: ProcessingTimeoutTrigger(",
        ),
        ({"trigger": Own()}, {}, "trigger: Own() → none"),
        ({}, {"max_parallelism": 64}, "max_parallelism: 128 → 64"),
    ],
    ids=["purges", "purged", "purged by a nested trigger", "may have purged", "key groups"],
)
def test_what_tells_published_rows_apart_lasts_as_long_as_the_lineage(
    before: dict[str, Any], after: dict[str, Any], wanted: str
) -> None:
    for check in (
        lambda: check_lasting(changed(**after), changed(**before).describe(), 7),
        lambda: check_settings(changed(**after), changed(**before).describe(), 7, MIDNIGHT),
    ):
        with pytest.raises(SettingsChanged) as refused:
            check()
        assert f"\n  {wanted}" in str(refused.value)
        assert "Undo the change; or begin a new lineage" in str(refused.value)


def test_a_restatement_from_the_start_may_change_all_else() -> None:
    after = changed(
        window=TumblingEventTimeWindows.of(HOUR * 2),
        trigger=CountTrigger.of(3),
        flink_exact=True,
        allowed_lateness=HOUR,
    )
    check_lasting(after, departures.describe(), 7)
    check_lasting(
        changed(trigger=PurgingTrigger.of(CountTrigger.of(3))), changed(trigger=PURGING).describe(), 7
    )


def test_the_restatement_that_is_named_begins_where_the_lineage_does() -> None:
    with pytest.raises(SettingsChanged, match="--from 1970-01-01T00:00:07Z --to END"):
        check_settings(changed(flink_exact=True), departures.describe(), 7, MIDNIGHT, 7_000)


def test_one_refusal_names_every_difference_that_is_refused_and_no_other() -> None:
    after = changed(key_by="carrier", flink_exact=True, expect=[], allowed_lateness=HOUR)
    with pytest.raises(SettingsChanged) as refused:
        check_settings(after, departures.describe(), 7, MIDNIGHT)
    assert [item.path for item in refused.value.differences] == ["flink_exact", "key_by"]


def test_the_interval_changes_where_a_tick_of_both_lengths_ends() -> None:
    after = changed(watermarks=strategy(interval=HOUR / 4))
    assert converted(departures, after, MIDNIGHT + 900_000) == ["watermarks.interval_ms: 300000 → 900000"]
    for moment in (300_000, 1_000):
        with pytest.raises(
            SettingsChanged,
            match=r"2013-01-01T00:0.*no such moment:\n  watermarks.interval_ms: 300000 → 900000",
        ):
            check_settings(after, departures.describe(), 7, MIDNIGHT + moment)


def test_results_stay_as_they_are_where_an_evictor_keeps_elements_with_what_they_were_read_for() -> None:
    evicting = changed(evictor=CountEvictor.of(3))
    after = replace(evicting, select={**departures.select, "dest": agg.first("dest")})
    with pytest.raises(SettingsChanged, match=r"select.dest: none → first\(dest, by=event_time\)"):
        check_settings(after, evicting.describe(), 7, MIDNIGHT)


def test_columns_of_an_output_are_added_and_removed_and_keep_their_types() -> None:
    def emitting(output: str) -> Pipeline:
        return changed(select={}, process=Counting(), output=output, expect=[])

    before = emitting("origin string, n long, mean double")
    [change] = check_settings(emitting("n long, most double"), before.describe(), 7, MIDNIGHT)
    assert str(change) == "output: origin string, n long, mean double → n long, most double"
    for output in ("n double", "n double, most double"):
        with pytest.raises(SettingsChanged, match="output: "):
            check_settings(emitting(output), before.describe(), 7, MIDNIGHT)


def test_a_run_that_recorded_no_declarations_is_refused_when_its_hash_differs() -> None:
    with pytest.raises(SettingsChanged, match="has not recorded how"):
        check_settings(departures, None, 7, MIDNIGHT)


def test_a_setting_that_an_earlier_release_did_not_know_counts_as_its_default() -> None:
    before = departures.describe()
    del before["trigger"], before["flink_exact"], before["side_outputs"]
    assert differences(before, departures.describe()) == []
    [found] = differences(before, changed(flink_exact=True).describe())
    assert str(found) == "flink_exact: False → True"
