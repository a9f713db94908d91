"""A backfill whose branch another process ends before it has gone on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.runs.restating.backfill import MainMoved
from slackwater.runs.restating.branches import Origin
from slackwater.tables.ledger.writer import LedgerWriter
from tests.runs.world import World, every_hour, perfect


def rival_behind_the_fork(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process does all of the work as soon as the branch has begun."""
    commit = LedgerWriter.commit

    def overtaken(self, branch, parent_seq, rows, *others, **named):
        committed_rows = commit(self, branch, parent_seq, rows, *others, **named)
        if rows[0].kind == "fork":
            monkeypatch.setattr(LedgerWriter, "commit", commit)
            World(world.folder).backfill(24, 48)
        return committed_rows

    monkeypatch.setattr(LedgerWriter, "commit", overtaken)


def rival_on_the_same_branch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process ends a branch that an earlier one has left, when this one has chosen it, too."""
    world.backfill(24, 48, publish=False)
    resumable = Origin.resumable

    def overtaken(self):
        branch = resumable(self)
        monkeypatch.setattr(Origin, "resumable", resumable)
        World(world.folder).backfill(24, 48)
        return branch

    monkeypatch.setattr(Origin, "resumable", overtaken)


@pytest.mark.slow
@pytest.mark.parametrize("meet_rival", [rival_behind_the_fork, rival_on_the_same_branch])
def test_a_branch_that_another_process_has_ended_is_named_and_nothing_is_done_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meet_rival: Callable[[World, pytest.MonkeyPatch], None],
) -> None:
    world = World(tmp_path / "world")
    for day in range(3):
        world.append(every_hour(24 * day, 24 * day + 24))
    world.run(72)
    world.rewrite(24, 48, every_hour(24, 48, x=5))
    meet_rival(world, monkeypatch)
    with pytest.raises(MainMoved, match="was published or dropped meanwhile; run the same command") as error:
        world.backfill(24, 48)
    assert error.value.exit_code == 3
    rows = [row for row in world.ledger.rows(since=3) if row.kind == "run" and row.branch != "main"]
    slices = world.slices(rows)
    assert slices and len(set(slices)) == len(slices), "no slice was replayed twice"
    assert world.left() == perfect(world, tmp_path / "perfect")
