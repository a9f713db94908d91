"""`slackwater diff` lists what two pipelines have published differently: the flights in order of arrival
against the flights in order of departure.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import REPLAYED_TO
from tests.integration.command import here
from tests.integration.facts import RESULTS, outcome
from tests.integration.stored import StoredTables
from tests.model import brute_force
from tests.model.flights import departures_rules, flights

FILE = """
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater import agg

by_event = replace(departures, name="by_event", source=replace(departures.source, order="event"), expect=[])
other_key = replace(by_event, name="other_key", key_by="carrier", select={"n": agg.count()})
"""


@pytest.fixture
def both(replayed: StoredTables, without_spark: None, tmp_path: Path) -> tuple[str, ...]:
    """Options that name a warehouse in which `departures` and `by_event` have run over the same days."""
    warehouse = shutil.copytree(replayed.warehouse, tmp_path / "warehouse")
    (tmp_path / "pipelines.py").write_text(FILE)
    where = ("--warehouse", str(warehouse), "--pipelines", str(tmp_path / "pipelines.py"))
    assert here("run", "by_event", "--to", REPLAYED_TO, *where) == 0
    return where


def published_by_event() -> dict:
    """What the model publishes when every flight arrives as it takes off."""
    events = [event._replace(arrival=event.event_time) for event in flights("2013-01-01", "2013-01-06")]
    model = brute_force.replay(events, replace(departures_rules("2013-01-01", REPLAYED_TO)))
    return {
        (pane.key, *pane.window): tuple(pane.results[name] for name in RESULTS) for pane in model.published
    }


@pytest.mark.slow
def test_diff_lists_exactly_the_windows_that_differ(
    both: tuple[str, ...], new_output: Callable[[], str]
) -> None:
    new_output()
    assert here("diff", "departures", "by_event", *both, "--output", "json") == 0
    rows = json.loads(new_output())
    by_arrival = {
        (pane.key, *pane.window): tuple(pane.results[name] for name in RESULTS)
        for pane in outcome(REPLAYED_TO).published
    }
    by_event = published_by_event()
    wanted = {
        window: (by_arrival.get(window), by_event.get(window))
        for window in by_arrival.keys() | by_event.keys()
        if by_arrival.get(window) != by_event.get(window)
    }
    assert {_window(row): (_results(row["left"]), _results(row["right"])) for row in rows} == wanted
    assert len(rows) == len(wanted) > 0
    assert {row["there"] for row in rows} == {"both", "right"}, (
        "late flights are missing on the left, and whole windows wait for them"
    )

    assert here("diff", "departures", "by_event", *both) == 0
    table = new_output()
    assert table.count("2013-01-0") >= len(rows) and " | " in table


@pytest.mark.slow
def test_a_pipeline_differs_from_itself_in_nothing(
    both: tuple[str, ...], new_output: Callable[[], str]
) -> None:
    new_output()
    assert here("diff", "departures", "departures", *both) == 0
    assert "departures and departures have published the same" in new_output()


@pytest.mark.slow
def test_pipelines_with_nothing_in_common_are_refused(
    both: tuple[str, ...], new_output: Callable[[], str]
) -> None:
    assert here("run", "other_key", "--to", "2013-01-01T06:00", *both) == 0
    new_output()
    assert here("diff", "departures", "other_key", *both) == 2
    assert "keys origin and carrier, results in common: none" in new_output()
    assert here("diff", "departures", "never_run", *both) == 2
    assert "no pipeline is called 'never_run'" in new_output()


def _window(row: dict) -> tuple:
    return row["key"]["origin"], *(_ms(row[name]) for name in ("window_start", "window_end"))


def _ms(text: str) -> int:
    from tests.model.flights import ms

    return ms(text.removesuffix("Z"))


def _results(values: dict | None) -> tuple | None:
    return None if values is None else tuple(values[name] for name in RESULTS)
