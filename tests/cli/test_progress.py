"""What a verb is doing is told in one line on a terminal, and by a line for each long step elsewhere."""

import io
import logging
import time
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console

from slackwater.cli import options
from slackwater.cli.progress import LongSteps, ProgressLine
from slackwater.runs.staging.run import Phases

SLICE = "[2013-01-01T00:00:00Z, 2013-01-02T00:00:00Z)"


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """The protocol's logger, with all levels on, and as it was afterwards."""
    logger = logging.getLogger("slackwater")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers = []
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def test_the_line_names_slice_and_step_and_counts_rows(log: logging.Logger) -> None:
    terminal = io.StringIO()
    line = ProgressLine(Console(file=terminal, force_terminal=True, width=100))
    log.addHandler(line)
    log.debug("slices", extra={"slices": 4})
    phases = Phases("departures", "r1", SLICE)
    with phases.phase("session"):
        assert line.text == "departures 2013-01-01 starts Spark"
    with phases.phase("validate"):
        assert line.text.endswith("validates")
        time.sleep(0.6)
    log.debug("staged", extra={"rows": 12_000})
    assert 0 < float(line.text.split()[-2].replace(",", "")) <= 12_000 / 0.6
    assert line.text.endswith("rows/s")
    log.warning("source is idle")
    line.close()
    screen = terminal.getvalue()
    assert "departures 2013-01-01 validates" in screen
    assert "0/4" in screen
    assert "source is idle" in screen


def test_a_verb_that_ends_at_once_shows_no_line(log: logging.Logger) -> None:
    terminal = io.StringIO()
    line = ProgressLine(Console(file=terminal, force_terminal=True))
    log.addHandler(line)
    with Phases("departures", "r1", SLICE).phase("claim"):
        pass
    line.close()
    time.sleep(0.6)
    assert terminal.getvalue() == ""


def test_elsewhere_a_long_step_is_told_again_and_again_and_a_short_one_is_not(log: logging.Logger) -> None:
    written = io.StringIO()
    lines = logging.StreamHandler(written)
    lines.setLevel(logging.INFO)
    log.handlers = [LongSteps(lines, seconds=0.05, again_seconds=0.3), lines]
    phases = Phases("departures", "r1", SLICE)
    with phases.phase("claim"):
        pass
    with phases.phase("session"):
        time.sleep(0.5)
    time.sleep(0.1)
    still = "session goes on: starts Spark, 0 s"
    assert written.getvalue().splitlines() == ["claim", still, still, "session"]


def test_a_short_log_says_where_a_slice_is_replayed_by_the_clocks_of_the_pipeline(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in Airflow, whose tasks ask for progress on no terminal."""
    options.log_to_stderr("progress")
    day_in_berlin = "[2026-01-01T23:00:00Z, 2026-01-02T23:00:00Z)"
    phases = Phases("sales", "r1", day_in_berlin, ZoneInfo("Europe/Berlin"))
    log.info("the slice is replayed by threads: 12 kB", extra={**phases.facts, "place": "threads"})
    assert capsys.readouterr().err == "2026-01-02 Europe/Berlin  the slice is replayed by threads: 12 kB\n"


def test_the_line_on_a_terminal_names_the_slice_by_the_clocks_of_the_pipeline(log: logging.Logger) -> None:
    line = ProgressLine(Console(file=io.StringIO(), force_terminal=True, width=100))
    log.addHandler(line)
    half_a_day = "[2026-07-01T22:00:00Z, 2026-07-02T10:00:00Z)"
    with Phases("sales", "r1", half_a_day, ZoneInfo("Europe/Berlin")).phase("claim"):
        text = line.text
    line.close()
    assert text == "sales 2026-07-02 00:00–12:00 Europe/Berlin takes the lease"
