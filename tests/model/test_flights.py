"""The model over the flights of January 2013: the figures that were once computed by other means.

Covers `tests.model.flights`, and that the model imports nothing of what it checks.
"""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.model.brute_force import replay
from tests.model.flights import all_flights, departures_rules, flights, ms


@pytest.mark.parametrize(
    ("to", "figures", "watermark"),
    [
        (
            "2013-02-01",
            {
                "read": 26_677,
                "quarantined": 512,
                "on_time": 1_732,
                "refired": 3_959,
                "late": 60,
                "published": 1_734,
                "open": 22,
            },
            "2013-01-31T20:24:59.999",
        ),
        ("2013-01-05", {"read": 3_308, "published": 203, "open": 24}, "2013-01-04T20:45:59.999"),
    ],
)
def test_model_gives_the_known_figures_of_the_flights(to, figures, watermark):
    outcome = replay(flights("2013-01-01", to), departures_rules("2013-01-01", to))
    found = {
        "read": outcome.counts.read,
        "quarantined": outcome.counts.quarantined,
        "on_time": sum(pane.kind == "on_time" for pane in outcome.panes),
        "refired": sum(pane.kind == "late" for pane in outcome.panes),
        "late": len(outcome.late),
        "published": len(outcome.published),
        "open": len(outcome.open_windows),
    }
    assert {name: found[name] for name in figures} == figures
    assert outcome.watermark == ms(watermark)
    assert outcome.unassigned == ()
    assert asdict(outcome.counts)["accepted"] == found["read"] - found["quarantined"] - found["late"]


def test_first_flight_is_read_as_its_line_says():
    """Line 2 of the file: UA 1545 EWR–IAH, scheduled 05:15 New York = 10:15 UTC, two minutes late, 227
    minutes in the air.
    """
    first = all_flights()[0]
    assert len(all_flights()) == 336_776
    assert first[:5] == (ms("2013-01-01T10:17"), ms("2013-01-01T14:04"), "UA", 0, "EWR")
    assert first.values == {"dest": "IAH", "flight": 1545, "tailnum": "N14228", "dep_delay": 2}


def test_cancelled_flight_arrives_at_its_scheduled_time_without_an_event_time():
    """The last line: MQ 3531, 2013-09-30 08:40 New York = 12:40 UTC, never left."""
    last = all_flights()[-1]
    assert last[:5] == (None, ms("2013-09-30T12:40"), "MQ", 336_775, "LGA")


def test_model_imports_nothing_of_what_it_checks():
    """A fresh interpreter loads the whole model; the model's own modules must be there, ours must not."""
    program = "import sys, tests.model.flights, tests.model.brute_force; print(*sorted(sys.modules))"
    root = Path(__file__).parents[2]
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root
    ).stdout.split()
    assert {"tests.model.flights", "tests.model.brute_force", "tests.model.records"} <= set(loaded)
    assert not [
        name
        for name in loaded
        if name.split(".")[0] in ("slackwater", "windowing", "jobs", "dags", "pyarrow", "deltalake")
    ]
