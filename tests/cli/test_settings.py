"""When settings change between two runs, parked state is converted where it can follow, which the run notes;
every other change is refused before the run.
"""

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_equal, facts_of_model, facts_of_tables
from tests.model import brute_force
from tests.model.flights import HOUR_MS, departures_rules, flights, ms

pytestmark = pytest.mark.usefixtures("without_spark")

HOURS = "__import__('datetime').timedelta(hours={})"


def checks(hourly: Hourly, seq: int, new_output: Callable[[], str]) -> dict[str, dict]:
    new_output()
    assert here("runs", "hourly", seq, "--output", "json", *hourly.where) == 0
    [row] = json.loads(new_output())
    return {check["expectation"]: check for check in row["checks"]}


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("hours", [0, 9])
def test_another_lateness_counts_from_the_next_run_on_and_is_noted(
    hourly: Hourly, new_output: Callable[[], str], hours: int
) -> None:
    hourly.begin("2013-01-02T12:00")
    hourly.declare(settings=f"'allowed_lateness': {HOURS.format(hours)}")
    assert hourly.run_here("--to", "2013-01-04") == 0
    changed = checks(hourly, 3, new_output)["setting changed: allowed_lateness"]
    assert (changed["observed"], changed["severity"], changed["passed"]) == (
        f"4 hours → {f'{hours} hours' if hours else '0 s'}",
        "note",
        True,
    )
    assert not any(name.startswith("setting changed") for name in checks(hourly, 4, new_output)), (
        "it is noted once"
    )
    rules = departures_rules("2013-01-01", "2013-01-04")
    model = brute_force.replay(
        flights("2013-01-01", "2013-01-04"),
        rules,
        {ms("2013-01-02T12:00"): {"allowed_lateness": hours * HOUR_MS}},
    )
    assert_equal(facts_of_tables(hourly.stored), facts_of_model(model))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (
            "'window': __import__('slackwater').TumblingEventTimeWindows.of(" + HOURS.format(2) + ")",
            "window.size_ms: 3600000 → 7200000",
        ),
        ("'flink_exact': True", "flink_exact: False → True"),
        ("'max_parallelism': 64", "max_parallelism: 128 → 64"),
    ],
)
def test_what_parked_state_cannot_follow_is_refused_and_changes_nothing(
    hourly: Hourly, new_output: Callable[[], str], settings: str, difference: str
) -> None:
    hourly.begin("2013-01-02")
    before = hourly.stored.ledger()
    hourly.declare(settings=settings)
    new_output()
    assert hourly.run_here("--to", "2013-01-03") == 2
    text = new_output()
    assert f"\n  {difference}\n" in text and "Undo the change" in text
    assert hourly.stored.ledger() == before
    hourly.declare()
    assert hourly.run_here("--to", "2013-01-03") == 0


def test_a_restatement_from_the_start_follows_any_change(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-02")
    hourly.declare(
        settings=f"'window': __import__('slackwater').TumblingEventTimeWindows.of({HOURS.format(2)})"
    )
    assert here("backfill", "hourly", "--from", "2013-01-01", "--to", "2013-01-02", *hourly.where) == 0
    windows = {row["window_end"] - row["window_start"] for row in hourly.stored.rows("published")}
    assert windows == {2 * HOUR_MS}
    assert hourly.run_here("--to", "2013-01-03") == 0
