"""A source that was dropped and made again is never taken for the old one: it is refused, restated from, or
declared the same after a check of its rows."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.source.pinning import SourceReplaced
from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.adoption import Adoption, AdoptionResult, OnlyCounted, OtherRows
from slackwater.runs.lineage.recorded_run import CannotRepeat
from slackwater.runs.lineage.verify import Verifier
from slackwater.runs.publishing.roll_forward import RollForward
from tests.runs.world import SCHEMA, Event, World, every_hour, perfect

EVENTS = every_hour(0, 48)


def reload(world: World, *parts: Sequence[Event]) -> None:
    """Drop the source and make it again, with one commit for each part."""
    shutil.rmtree(world.source)
    for part in parts:
        world.append(part)


def thirds(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Three parts of which each holds rows of all arrivals, so that none is of one slice alone."""
    return [events[place::3] for place in range(3)]


def values_of(world: World) -> dict[str, int]:
    """The rows and the sum over all published windows: what is counted of the source."""
    rows = world.published()
    return {"rows": sum(row["n"] for row in rows), "total": sum(row["total"] for row in rows)}


def adopt(world: World, accept: str | None = None) -> AdoptionResult | None:
    runner = world.runner()
    tables = runner.prepare().tables
    roll_forward = RollForward.of(world.pipeline, tables, runner.prepare().shape)
    return Adoption(world.warehouse, world.pipeline, tables, roll_forward, "0").run(accept)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two days in two commits, both run."""
    made = World(tmp_path / "w")
    made.append(EVENTS[:24])
    made.append([*EVENTS[24:], *every_hour(48, 72)])
    made.run(24)
    made.run(48)
    return made


RELOADS = {
    "the same rows": (EVENTS, every_hour(48, 72)),
    "half of the rows": (EVENTS[::2], every_hour(48, 72)),
    "other values": ([replace(event, x=event.x + 1) for event in EVENTS], every_hour(48, 72)),
}


class TestRefusal:
    @pytest.mark.parametrize("kind", RELOADS)
    def test_a_source_that_was_made_again_is_refused_whatever_its_version(
        self, world: World, kind: str
    ) -> None:
        before, left = world.main, values_of(world)
        rows, later = RELOADS[kind]
        reload(world, *thirds(rows), later)
        assert DeltaTable(world.source).version() >= before.inputs[0].version
        with pytest.raises(SourceReplaced, match="dropped and made again") as refused:
            world.run(72)
        assert refused.value.exit_code == 2
        for way in (
            "backfill daily --from 2013-01-01T00:00:00Z --to 2013-01-03T00:00:00Z`",
            "`slackwater state adopt daily`",
        ):
            assert way in str(refused.value)
        assert (world.main, values_of(world)) == (before, left)

    def test_one_whose_newest_version_is_below_the_pinned_one_is_told_as_such_too(self, world: World) -> None:
        reload(world, [*EVENTS, *every_hour(48, 72)])
        with pytest.raises(SourceReplaced, match="slackwater state adopt daily"):
            world.run(72)

    def test_runs_that_read_the_old_table_cannot_be_repeated(self, world: World) -> None:
        reload(world, *thirds(EVENTS), every_hour(48, 72))
        verifier = Verifier(world.warehouse, world.pipeline, world.code, OperatorEngine(), InProcess())
        for seq in (1, 2):
            with pytest.raises(CannotRepeat, match=f"run {seq} can't be repeated.*dropped and made again"):
                verifier.verify(seq)

    def test_a_table_that_only_grows_is_the_same(self, world: World) -> None:
        world.append(every_hour(72, 73))
        world.run(72)
        ids = {item.table_id for row in world.ledger.rows() for item in row.inputs}
        assert ids == {str(DeltaTable(world.source).metadata().id)}


class TestRestatement:
    @pytest.mark.first_fast
    @pytest.mark.parametrize("kind", RELOADS)
    def test_everything_is_restated_from_the_new_table_and_runs_go_on(
        self, world: World, tmp_path: Path, kind: str
    ) -> None:
        rows, later = RELOADS[kind]
        reload(world, *thirds(rows), later)
        world.backfill(0, 48)
        world.run(72)
        assert world.left() == perfect(world, tmp_path / "other")

    def test_no_run_that_read_the_old_table_stays_behind_the_branch(
        self, world: World, tmp_path: Path
    ) -> None:
        reload(world, *thirds([*EVENTS[:24], *(replace(event, x=7) for event in EVENTS[24:])]))
        world.backfill(0, 24)
        assert any("has read another table as events" in sentence for sentence in world.said)
        assert world.left() == perfect(world, tmp_path / "other")

    def test_a_part_that_rests_on_the_old_table_is_refused(self, world: World) -> None:
        reload(world, *thirds(EVENTS))
        with pytest.raises(SourceReplaced):
            world.backfill(24, 48)


class TestAdoption:
    def test_as_many_rows_as_were_read_have_to_be_accepted_where_the_old_table_is_gone(
        self, world: World, tmp_path: Path
    ) -> None:
        reload(world, *thirds(EVENTS), every_hour(48, 72))
        with pytest.raises(
            OnlyCounted, match=r"48 in all.*whether the values are the same can't be known.*--accept REASON"
        ) as refused:
            adopt(world)
        assert refused.value.exit_code == 4 and world.main.kind == "run"
        adopted = adopt(world, "copied by hand")
        assert adopted is not None and (adopted.rows, adopted.by_values) == (48, False)
        assert (world.main.kind, world.main.verdict) == (
            "adopt",
            "adopted: numbers of rows compared; accepted: copied by hand",
        )
        world.run(72)
        assert world.left() == perfect(world, tmp_path / "other")
        assert adopt(world) is None

    @pytest.mark.parametrize("kind", ["half of the rows", "one row more", "a row in another slice"])
    def test_other_numbers_of_rows_are_not_adopted_whatever_is_accepted(
        self, world: World, kind: str
    ) -> None:
        rows = {
            "half of the rows": EVENTS[::2],
            "one row more": [*EVENTS, Event(3, 3.5, 99)],
            "a row in another slice": [replace(EVENTS[0], arrival=30), *EVENTS[1:]],
        }[kind]
        before = world.main
        reload(world, *thirds(rows))
        with pytest.raises(
            OtherRows, match=r"2013-01-01.*Nothing was changed.*slackwater backfill daily --from 2013-01-01"
        ):
            adopt(world, "it will do")
        assert world.main == before

    def test_rows_that_were_folded_and_rows_without_an_arrival_are_counted_too(self, tmp_path: Path) -> None:
        lost, straggler, later = Event(5, None, 98), Event(3, 3.5, 99), every_hour(48, 72)
        world, twin = World(tmp_path / "w"), World(tmp_path / "twin")
        for one in (world, twin):
            one.append([*EVENTS[:24], lost])
            one.run(24)
            one.append([*EVENTS[24:], straggler])
            one.run(48)
        assert [row.rows_folded for row in world.ledger.rows()] == [0, 1]
        reload(world, *thirds([*EVENTS, straggler]))
        with pytest.raises(OtherRows, match="rows without an arrival time"):
            adopt(world, "it will do")
        reload(world, *thirds([*EVENTS, straggler, lost]), later)
        assert adopt(world, "copied by hand") is not None
        twin.append(later)
        for one in (world, twin):
            one.run(72)
        assert world.left() == twin.left()

    def test_what_comes_late_after_an_adoption_is_folded_once(self, world: World) -> None:
        reload(world, *thirds(EVENTS), every_hour(48, 72))
        adopt(world, "copied by hand")
        world.append([Event(47, 47.6, 99)])
        world.run(72)
        world.run(73)
        assert [row.rows_folded for row in world.ledger.rows() if row.kind == "run"][2:] == [1, 0]

    def test_values_are_compared_where_the_old_table_can_still_be_read(
        self, world: World, tmp_path: Path
    ) -> None:
        replaced_in_place(world, [*EVENTS, *every_hour(48, 72)])
        adopted = adopt(world)
        assert adopted is not None and (adopted.rows, adopted.by_values) == (48, True)
        world.run(72)
        assert world.left() == perfect(world, tmp_path / "other")

    def test_other_values_are_not_adopted_where_the_old_table_can_still_be_read(self, world: World) -> None:
        replaced_in_place(world, [*EVENTS[:30], replace(EVENTS[30], x=9), *EVENTS[31:]])
        with pytest.raises(
            OtherRows, match=r"differ in \[2013-01-02T00:00:00Z, 2013-01-03T00:00:00Z\)\. Nothing"
        ):
            adopt(world, "it will do")

    def test_a_range_is_restated_behind_adopted_runs(self, world: World, tmp_path: Path) -> None:
        reload(world, *thirds(EVENTS), every_hour(48, 72))
        adopt(world, "copied by hand")
        world.run(72)
        world.append([Event(26, 26.6, 99)])
        world.backfill(24, 48)
        assert world.left() == perfect(world, tmp_path / "other")


def replaced_in_place(world: World, events: Sequence[Event]) -> None:
    """As Spark's REPLACE TABLE does it: a version behind the old ones, with another id."""
    table = pa.Table.from_pylist([event.values() for event in events], schema=SCHEMA)
    write_deltalake(
        world.source,
        table,
        mode="overwrite",
        schema_mode="overwrite",
        configuration={"delta.appendOnly": "false"},
    )
    log = Path(world.source) / "_delta_log" / f"{DeltaTable(world.source).version():020d}.json"
    first = json.loads(
        next(line for line in (log.parent / f"{0:020d}.json").read_text().splitlines() if "metaData" in line)
    )
    lines = [line for line in log.read_text().splitlines() if "metaData" not in line]
    first["metaData"]["id"] = "made-again"
    log.write_text("\n".join([*lines, json.dumps(first)]) + "\n")
