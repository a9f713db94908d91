"""Many pipelines in one file: a list, a mapping or a generator of them counts, and one command runs all."""

import json
from pathlib import Path

import pytest

from slackwater.pipelines import registry
from tests.cli.own_source import FILE, OwnPipeline, every_hour
from tests.integration.command import here

MANY = """

def of_hours(hours, **changes):
    window = TumblingEventTimeWindows.of(hours * HOUR)
    return Pipeline(**{**declared, "name": f"every_{hours}", "window": window, **changes})
"""


def file_with(folder: Path, text: str) -> Path:
    file = folder / "many.py"
    file.write_text(FILE.format(settings="") + MANY + text)
    return file


@pytest.mark.parametrize(
    "text",
    [
        "made = [of_hours(hours) for hours in (2, 3)]",
        "made = {hours: of_hours(hours) for hours in (2, 3)}",
        "pipelines = (of_hours(hours) for hours in (2, 3))",
    ],
)
def test_collections_of_pipelines_count(tmp_path: Path, text: str) -> None:
    loaded = registry.load(str(file_with(tmp_path, text)), examples=False)
    assert set(loaded) == {"own", "every_2", "every_3"}
    assert len({loaded.code_hash(name) for name in loaded}) == 1
    assert loaded["every_3"].window_ms == 3 * 3_600_000


def test_one_command_runs_all_and_one_that_fails_stops_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnPipeline(tmp_path)
    own.append(every_hour(0, 2))
    missing = 'of_hours(4, source=DeltaSource("sources/nowhere", event_time="e", arrival_time="a"))'
    file = file_with(tmp_path, f"made = [of_hours(2), {missing}]")
    place = ["--warehouse", str(own.warehouse), "--pipelines", str(file)]
    assert here("run", "--all-pipelines", "--to", "2013-01-02", "--output", "json", *place) == 2
    rows = json.loads(capsys.readouterr().out)
    assert [(row["pipeline"], row["slices"], row["rows"]) for row in rows] == [
        ("every_2", 1, 2),
        ("every_4", 0, 0),
        ("own", 1, 2),
    ]
    assert "sources/nowhere" in rows[1]["error"]
    assert here("run", "--all-pipelines", "--to", "2013-01-03", *place) == 2
    text = capsys.readouterr().out
    assert "every_4" in text and "own" in text
    assert here("run", "own", "--all-pipelines", "--to", "2013-01-03", *place) == 2
    assert here("run", "--to", "2013-01-03", *place) == 2
