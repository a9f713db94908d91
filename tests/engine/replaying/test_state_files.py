"""A range opens the files of the parent's snapshot that hold keys of its own, and no others, also where
ranges divide key groups.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying import results, snapshot_rows
from slackwater.engine.replaying.replay import Engine
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from tests.runs.world import DAILY, Event, World, ms

RANGES = 8


def published(world: World, ranges: int, hours: int) -> list[dict[str, Any]]:
    """What stands after a run up to `hours`, in so many ranges."""
    request = CatchUpRequest(world.pipeline.name, ms(hours), everything=True)
    CatchUp(request, lambda: world.runner(ranges=ranges), world.said.append).run()
    rows = world.tables["published"].read(["k", "window_start", "n", "total"]).to_pylist()
    return sorted(rows, key=lambda row: (row["k"], row["window_start"]))


@pytest.mark.parametrize("max_parallelism", [pytest.param(2, marks=pytest.mark.slow), 128])
@pytest.mark.parametrize("engine", [ColumnarEngine(), OperatorEngine()], ids=["columnar", "operator"])
def test_each_file_is_opened_by_the_ranges_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, max_parallelism: int
) -> None:
    monkeypatch.setattr(results, "DRIVER_BYTES", 0)  # each range writes files of its own
    pipeline = replace(DAILY, max_parallelism=max_parallelism)
    in_many, in_one = (World(tmp_path / name, pipeline, engine=engine) for name in ("many", "one"))
    for world in (in_many, in_one):
        world.append([Event(23, 23.5, number, f"key {number}") for number in range(100)])
        world.append([Event(23.2, 24.5, 100 + number, f"key {number}") for number in range(100)])
        world.append([Event(47, 47.5, 200 + number, f"key {number}") for number in range(100)])
    published(in_many, RANGES, 24)
    published(in_one, 1, 24)
    openings: Counter[str] = Counter()
    open_file = snapshot_rows.open_verified

    def count(uri: str, files: Any, path: str) -> Any:
        openings[path] += 1
        return open_file(uri, files, path)

    monkeypatch.setattr(snapshot_rows, "open_verified", count)
    rows = published(in_many, RANGES, 48)
    # To see how large a file is, and to read it.
    assert len(openings) >= RANGES and max(openings.values()) <= 2
    assert rows == published(in_one, 1, 48) and len(rows) == 100 and {row["n"] for row in rows} == {2}
