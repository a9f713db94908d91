"""The guide's own function runs as it is printed there, and emits what the guide says."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.command import here
from tests.integration.stored import ROOT, StoredTables
from tests.model import brute_force
from tests.model.flights import HOUR_MS, departures_rules, flights

TO = "2013-01-03"


def block_of(text: str) -> str:
    """The Python block of the guide that has `text` in it."""
    guide = (ROOT / "docs" / "guides" / "own-code.md").read_text()
    [block] = [
        block for block in re.findall(r"^```python[^\n]*\n(.*?)^```", guide, re.M | re.S) if text in block
    ]
    return block


@pytest.mark.slow
def test_the_guides_process_function_tells_of_silences(
    warehouse: Path, tmp_path: Path, without_spark: None
) -> None:
    (tmp_path / "pipelines.py").write_text(block_of("class Silences"))
    assert (
        here(
            "run",
            "silences",
            "--to",
            TO,
            "--warehouse",
            str(warehouse),
            "--pipelines",
            str(tmp_path / "pipelines.py"),
        )
        == 0
    )
    stored = StoredTables(warehouse, "silences")
    read = flights("2013-01-01", TO)
    kept = [event for event in read if event.values["dest"] != "LAX" and event.values["tailnum"] is not None]
    assert Counter((row["carrier"], row["silent_since"]) for row in stored.rows("published")) == silences(
        kept
    )
    assert sum(row["rows_filtered"] for row in stored.ledger()) == len(read) - len(kept) > 0


def silences(events: list) -> Counter:
    """By hand: a carrier's newest departure, whenever the watermark comes to be two hours beyond it."""
    rules = departures_rules("2013-01-01", TO)
    rises = [(tick_end, "", watermark) for tick_end, watermark in brute_force.replay(events, rules).timeline]
    usable = [event for event in events if brute_force.quarantine_reason(event, rules) is None]
    steps = sorted(
        [*rises, *((event.arrival, "after", event.order, event) for event in usable)],
        key=lambda step: step[:3],
    )
    newest: dict[str, int] = {}
    untold: set[str] = set()
    told: Counter = Counter()
    for step in steps:
        if len(step) == 4:
            event = step[3]
            if event.event_time > newest.get(event.source, -1):
                newest[event.source] = event.event_time
                untold.add(event.source)
            continue
        due = {carrier for carrier in untold if newest[carrier] + 2 * HOUR_MS <= step[2]}
        told.update((carrier, newest[carrier]) for carrier in due)
        untold -= due
    return told


@pytest.mark.slow
def test_the_guides_aggregate_and_trigger_fire_at_the_tenth_element(
    warehouse: Path, tmp_path: Path, without_spark: None
) -> None:
    file = tmp_path / "busy_hours.py"
    file.write_text(block_of("class AtTheTenth"))
    assert here("run", "busy_hours", "--to", TO, "--warehouse", warehouse, "--pipelines", file) == 0
    stored = StoredTables(warehouse, "busy_hours")
    early = [pane for pane in stored.rows("panes") if pane["kind"] == "early"]
    assert early and {pane["elements"] for pane in early} == {10}
    published = stored.rows("published")
    assert published
    assert [row for row in published if row["spread"] != row["greatest"] - row["least"]] == []
    assert any('"seen"' in (row["trigger_state"] or "") for row in stored.rows("window_state"))
