"""What `run` says where it has nothing to do, and rows of the source have changed since it was done."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from slackwater.args import Manifest, read_manifest
from slackwater.runs.staging.slices import iso
from slackwater.windowing.times import to_ms
from tests.cli.own_source import OwnPipeline, every_hour, moment

DAY = 24


@pytest.fixture
def three_days(tmp_path: Path) -> OwnPipeline:
    """Days 0 to 2 have run, each from its own commit."""
    own = OwnPipeline(tmp_path)
    for day in range(3):
        own.append(every_hour(day * DAY, (day + 1) * DAY))
        assert own("run", "own", "--to", iso_of(day + 1)) == 0
    return own


def iso_of(day: int) -> str:
    return iso(to_ms(moment(day * DAY)))


def again(own: OwnPipeline) -> Manifest:
    """What is handed on by a run for which there is nothing to do."""
    file = own.root / "manifest.json"
    assert own("run", "own", "--to", iso_of(3), "--no-publish", "--manifest", file) == 0
    manifest = read_manifest(file)
    assert manifest.outcome == "nothing"
    return manifest


def days(manifest: Manifest) -> list[tuple[int, int]]:
    """The stale ranges in days after the pipeline's start."""
    ranges = [[datetime.fromisoformat(text) for text in item] for item in manifest.stale]
    return [((start - moment(0)).days, (end - moment(0)).days) for start, end in ranges]


def test_a_source_that_is_as_it_was_is_not_mentioned(three_days: OwnPipeline) -> None:
    three_days.append(every_hour(3 * DAY, 4 * DAY))  # of a slice that has not run
    manifest = again(three_days)
    assert (manifest.stale, manifest.message) == (
        (),
        f"nothing to do: the lineage covers everything up to {iso_of(3)}",
    )


def test_rows_that_came_into_slices_of_before_are_told_with_their_days(
    three_days: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    three_days.append([every_hour(5, 6)[0], every_hour(2 * DAY, 2 * DAY + 1)[0]])
    manifest = again(three_days)
    assert days(manifest) == [(0, 1), (2, 3)]
    advice = f"`slackwater backfill own --from {iso_of(0)} --to {iso_of(3)}`"
    assert "2 rows appeared after their slices were run" in manifest.message
    assert manifest.message.endswith(advice)
    assert three_days("run", "own", "--to", iso_of(3)) == 0
    assert advice in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "stale_days"),
    [
        (lambda table: table.update({"x": "x + 1000"}, predicate=f"x = {DAY + 3}"), [(1, 2)]),
        (lambda table: table.delete(f"x in ({DAY + 3}, {2 * DAY + 3})"), [(1, 3)]),
    ],
)
def test_rows_that_were_changed_or_removed_are_told_with_their_days(
    three_days: OwnPipeline, change: Any, stale_days: list[tuple[int, int]]
) -> None:
    change(DeltaTable(three_days.source))
    manifest = again(three_days)
    assert days(manifest) == stale_days
    assert "were changed or removed" in manifest.message and "slackwater backfill own" in manifest.message


@pytest.mark.slow
def test_after_the_restatement_there_is_nothing_to_say(three_days: OwnPipeline) -> None:
    DeltaTable(three_days.source).update({"x": "x + 1000"}, predicate=f"x = {DAY + 3}")
    ((start, end),) = again(three_days).stale
    assert three_days("backfill", "own", "--from", start, "--to", end) == 0
    assert again(three_days).stale == ()
    assert json.dumps(again(three_days).message).count(";") == 0
