"""`slackwater runs` and `health` where tries have failed, and where nothing has run."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.cli.own_source import OwnPipeline, every_hour
from tests.integration.command import here


def test_the_newest_failures_are_listed_with_their_errors_and_each_is_looked_at_by_its_run_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnPipeline(tmp_path)
    own.append(every_hour(0, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    own.append(every_hour(24, 90))
    rewritten = pa.Table.from_pylist(every_hour(7, 90), schema=own.schema)
    write_deltalake(own.source, rewritten, mode="overwrite")
    for end in ("2013-01-02T06:00", "2013-01-02T07:00", "2013-01-02T08:00"):
        assert own("run", "own", "--to", end) == 2
    error = capsys.readouterr().err
    remedy = error.strip().splitlines()[-1].rsplit(". ", 1)[-1]
    tries = sorted(
        (row for row in own.rows("attempts") if row["outcome"] == "failed"), key=lambda row: row["at"]
    )
    assert len(tries) == 3 and remedy in tries[-1]["error"].strip()
    assert own("runs", "own", "--limit", "2") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "failed" in printed and " ".join(tries[-1]["error"].split()) in printed
    listed = printed.split("attempts that are not committed")[1]
    assert len(re.findall(r"\bfailed – pin\b", listed)) == 2
    assert "–08:00" in listed or "08:00 failed" in listed, listed
    assert "06:00 failed" not in listed
    assert own("runs", "own", tries[0]["run_id"]) == 0
    assert " ".join(tries[0]["error"].split()) in " ".join(capsys.readouterr().out.split())
    [run] = own.rows("runs")
    assert own("runs", "own", run["run_id"]) == 0
    assert "passed" in capsys.readouterr().out
    assert own("runs", "own", "20130101T000000-0") == 2
    assert "no run has the id 20130101T000000-0. Give a seq or a run id" in capsys.readouterr().err
    assert own("health", "own") == 1
    assert remedy in " ".join(capsys.readouterr().out.split())


def test_health_of_a_name_that_is_not_registered_or_of_a_folder_that_is_not_there_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here("health", "nosuch", "--warehouse", tmp_path) == 2
    said = capsys.readouterr().err
    assert "no pipeline is called 'nosuch'; registered: " in said and "departures" in said
    assert "slackwater run nosuch" not in said
    for verb in (("health",), ("health", "departures"), ("health", "nosuch")):
        assert here(*verb, "--warehouse", tmp_path / "away") == 2
        assert f"there is no folder {tmp_path / 'away'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb",
    [
        ("runs", "departurse"),
        ("state", "windows", "departurse"),
        ("sql", "departurse", "SELECT 1"),
        ("history", "departurse", "--key", "JFK"),
        ("explain", "departurse", "--key", "JFK", "--window", "2013-01-01"),
        ("late", "list", "departurse"),
        ("quarantine", "list", "departurse"),
        ("sinks", "list", "departurse"),
        ("diff", "departurse", "departures"),
        ("verify", "departurse", "1"),
    ],
    ids=" ".join,
)
def test_a_verb_answers_a_name_that_nobody_has_registered_with_those_that_are_like_it(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(*verb, "--warehouse", tmp_path) == 2
    error = capsys.readouterr().err
    assert "no pipeline is called 'departurse'; registered: " in error and "Did you mean departures?" in error
    assert "slackwater run departurse" not in error


def test_a_verb_looks_among_the_pipelines_that_its_option_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from dataclasses import replace\nfrom slackwater.examples.departures import departures\n"
        "ferries = replace(departures, name='ferries')\n"
    )
    assert here("runs", "ferris", "--warehouse", tmp_path, "--pipelines", file) == 2
    assert "Did you mean ferries?" in capsys.readouterr().err
    assert here("runs", "ferries", "--warehouse", tmp_path, "--pipelines", file) == 2
    assert "Run it with `slackwater run ferries --to TIME`" in capsys.readouterr().err
