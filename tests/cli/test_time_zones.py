"""Bounds of ranges without an offset are times of the pipeline's time zone, as its start is; others are what
their offset says.
"""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.own_source import OwnPipeline, every_hour


@pytest.fixture
def own(tmp_path: Path) -> OwnPipeline:
    return OwnPipeline(tmp_path)


BERLIN = "timezone='Europe/Berlin'"


def slices(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    rows = own.json(capsys, "runs", "own")
    return sorted((row["slice_start"], row["slice_end"]) for row in rows if row["kind"] == "run")


def test_a_day_of_the_zone_ends_at_its_midnight(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    own.declare(BERLIN)
    own.append(every_hour(0, 48))
    [plan] = own.json(capsys, "plan", "own", "--to", "2013-01-02")
    [planned] = plan["slices"]
    # Clocks in Berlin are an hour ahead of UTC in winter; an offset counts, as in the intervals of Airflow.
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert own("run", "own", "--to", "2013-01-02T23:00:00+00:00") == 0
    midnights = ["2012-12-31T23:00:00Z", "2013-01-01T23:00:00Z", "2013-01-02T23:00:00Z"]
    assert (planned["from"], planned["to"]) == (midnights[0], midnights[1])
    assert slices(own, capsys) == list(pairwise(midnights))
    assert own("run", "own", "--to", "2013-01-03T00:00:00+01:00") == 0
    assert len(slices(own, capsys)) == 2, "it is covered already"
    assert own("backfill", "own", "--from", "2013-01-02", "--to", "2013-01-03", "--dry-run") == 0
    assert "moved" not in capsys.readouterr().out


def test_where_clocks_change_a_bound_is_what_they_show(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own.declare(f"{BERLIN}, start='2025-03-29'")
    own.append([])
    assert own("run", "own", "--to", "2025-03-31") == 0
    assert slices(own, capsys) == [
        ("2025-03-28T23:00:00Z", "2025-03-29T23:00:00Z"),
        ("2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z"),
    ]


def test_without_a_zone_they_are_of_utc(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    own.append(every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    assert slices(own, capsys) == [("2013-01-01T00:00:00Z", "2013-01-02T00:00:00Z")]


def test_a_bound_that_no_zone_can_have_is_refused(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own.declare(BERLIN)
    own.append(every_hour(0, 24))
    assert own("run", "own", "--to", "0001-01-01") == 2
    assert "0001-01-01 is too near to the ends" in capsys.readouterr().err
