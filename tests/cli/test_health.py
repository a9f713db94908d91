"""`slackwater health`: its table, JSON, Prometheus' text, and exit codes. The answer to each question is
tested in tests/inspection/health.
"""

import json
import re
from collections.abc import Callable

import pytest

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.stored import StoredTables

# A sample of the text exposition format: a name, labels, a number.
SAMPLE = re.compile(r'slackwater_[a-z_]+\{[a-z]+="[a-z_]+"(?:,[a-z]+="[a-z_]+")*\} -?[0-9.e+-]+')


def test_a_healthy_pipeline_is_green_with_the_figures_of_its_tables(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    where = ("--warehouse", replayed.warehouse)
    new_output()
    assert here("health", *where, "--output", "json") == 0
    (health,) = json.loads(new_output())
    assert (health["pipeline"], health["health"], health["reasons"]) == ("departures", "green", [])
    assert health["head"] == "2013-01-04T00:00:00Z"
    assert health["windows_open"] == len(replayed.parked("window_state"))
    assert here("health", *where) == 0
    assert re.search(r"^departures +green +– +2013-01-04 00:00 ", new_output(), flags=re.MULTILINE)


def test_metrics_are_in_the_text_format_of_prometheus(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    new_output()
    assert here("health", "--warehouse", replayed.warehouse, "--output", "prometheus") == 0
    lines = new_output().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    assert 'slackwater_health{pipeline="departures"} 0' in samples
    assert (
        f'slackwater_windows_open{{pipeline="departures"}} {len(replayed.parked("window_state"))}' in samples
    )
    names = [line.split("{")[0] for line in samples]
    types = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert types == list(dict.fromkeys(names)), "each metric is typed once, before its samples"


@pytest.mark.usefixtures("without_spark")
def test_a_rejected_run_makes_a_pipeline_red_and_does_not_hide_the_others(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-02")
    (hourly.stored.warehouse / "broken" / "runs" / "_delta_log").mkdir(parents=True)
    hourly.declare(expect='expect.between("flights", max=1)')
    assert hourly.run_here("--to", "2013-01-03") == 4
    new_output()
    assert here("health", *hourly.where, "--output", "json") == 1
    healths = {health["pipeline"]: health for health in json.loads(new_output())}
    assert healths["hourly"]["health"] == healths["broken"]["health"] == "red"
    (reason,) = healths["hourly"]["reasons"]
    assert reason.startswith("the run of 2013-01-02 was rejected: flights")
    assert here("health", "hourly", *hourly.where) == 1
    text = new_output()
    assert "was a run rejected, did one fail, was one left unfinished, were all" in text
    assert "slackwater runs hourly" in text
