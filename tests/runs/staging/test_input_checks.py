"""What is expected of the input is judged on the rows of the run, against numbers or the runs before it."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.engine.columnar import ColumnarEngine
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import Pipeline, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging.staged_slice import SliceRejected
from slackwater.windowing import TumblingProcessingTimeWindows
from tests.runs.world import DAILY, HOUR, SCHEMA, Event, World, every_hour, moment


def world_of(folder: Path, *expectations: Any, **settings: Any) -> World:
    return World(folder / "w", replace(DAILY, expect=expectations, **settings), engine=ColumnarEngine())


def hours_of(day: int, count: int, first_row: int = 0) -> list[Event]:
    """`count` rows of one day, all of its first hours."""
    hours = [24 * day + number / 4 for number in range(count)]
    return [Event(hour, hour + 0.1, first_row + 1000 * day + number) for number, hour in enumerate(hours)]


def checks(world: World, seq: int) -> list[tuple[str, bool, str]]:
    """The expectations of the input of a run: title, whether it was met, what was observed."""
    titles = {item.title for item in world.pipeline.input_expectations}
    rows = Inspection(world.pipeline.name, world.tables).checks(seq)
    return [
        (row["expectation"], row["passed"], row["observed"]) for row in rows if row["expectation"] in titles
    ]


def test_numbers_bound_the_rows_of_a_run_at_both_ends(tmp_path: Path) -> None:
    world = world_of(tmp_path, expect.rows(24, 48, severity="warn"))
    for day, count in enumerate([23, 24, 48, 49]):
        world.append(hours_of(day, count))
    rows = world.run(96)
    assert [row.verdict for row in rows] == ["warned", "passed", "passed", "warned"]
    assert checks(world, 1) == [("24 <= rows <= 48", False, "23 rows")]


def test_a_run_that_breaks_one_is_not_published_and_says_what_it_has_seen(tmp_path: Path) -> None:
    world = world_of(tmp_path, expect.rows(24), expect.between("n", min=1))
    world.append(hours_of(0, 23))
    with pytest.raises(SliceRejected, match=re.escape("nothing was moved.\n  24 <= rows: 23 rows\n")):
        world.run(24)
    assert world.ledger.head() is None
    world.append(hours_of(0, 1, first_row=500))
    world.run(24)
    assert checks(world, 1) == [("24 <= rows", True, "24 rows")]


def test_rows_that_the_condition_leaves_out_do_not_count(tmp_path: Path) -> None:
    world = world_of(tmp_path, expect.rows(1, severity="warn"), where="k = 'b'")
    world.append(hours_of(0, 23))
    [row] = world.run(24)
    assert (row.verdict, checks(world, 1)) == ("warned", [("1 <= rows", False, "0 rows")])


def test_shares_are_of_the_rows_of_the_run_and_met_without_rows(tmp_path: Path) -> None:
    """Of 20 rows of the second day two are a day late, and one is five hours ahead."""
    expectations = [
        *(expect.late_share(share, severity="warn") for share in (0.1, 0.099)),
        *(expect.quarantine_share(share, severity="warn") for share in (0.05, 0.049)),
    ]
    world = world_of(tmp_path, *expectations, max_ahead=2 * HOUR)
    late = [Event(1, 40, 1), Event(2, 40, 2)]
    world.append([*hours_of(0, 20), *hours_of(1, 17), *late, Event(45, 40, 3)])
    rows = world.run(72)
    assert [(row.rows_read, row.rows_late, row.rows_quarantined) for row in rows] == [
        (20, 0, 0),
        (20, 2, 1),
        (0, 0, 0),
    ]
    assert checks(world, 2) == [
        ("late share <= 0.1", True, "0.1, 2 of 20 rows"),
        ("late share <= 0.099", False, "0.1, 2 of 20 rows"),
        ("quarantine share <= 0.05", True, "0.05, 1 of 20 rows"),
        ("quarantine share <= 0.049", False, "0.05, 1 of 20 rows"),
    ]
    assert {(is_met, observed) for _, is_met, observed in checks(world, 3)} == {(True, "no rows")}


def test_a_bound_of_the_history_follows_the_median_of_the_last_runs(tmp_path: Path) -> None:
    """Days of 10, 40, 20, 30, 12, 9 rows: the third has two runs before it, which are too few. The medians of
    the last three before the fourth, fifth and sixth are 20, 30, 20.
    """
    world = world_of(tmp_path, expect.rows(min=expect.history(0.5, runs=3), severity="warn"))
    for day, count in enumerate([10, 40, 20, 30, 12, 9]):
        world.append(hours_of(day, count))
    rows = world.run(144)
    assert [row.verdict for row in rows] == ["passed", "passed", "passed", "passed", "warned", "warned"]
    title = "0.5 x median of 3 runs <= rows"
    assert [checks(world, seq)[0] for seq in (1, 3, 4, 5, 6)] == [
        (title, True, "10 rows; 0.5 x median of 3 runs is not known yet"),
        (title, True, "20 rows; 0.5 x median of 3 runs is not known yet"),
        (title, True, "30 rows; 0.5 x median of 3 runs is 10"),
        (title, False, "12 rows; 0.5 x median of 3 runs is 15"),
        (title, False, "9 rows; 0.5 x median of 3 runs is 10"),
    ]


def test_rows_are_compared_in_proportion_to_the_length_of_the_slices(tmp_path: Path) -> None:
    """24 rows a day: two days at once have 48, which is as many as ever."""
    world = world_of(tmp_path, expect.rows(expect.history(0.9, of="mean"), expect.history(1.1, of="mean")))
    world.append(every_hour(0, 168))
    world.run(96)
    [row] = world.run(144, slice_=timedelta(days=2))
    assert checks(world, row.seq)[0][2] == (
        "48 rows; 0.9 x mean of 10 runs is 43.2; 1.1 x mean of 10 runs is 52.8"
    )
    [row] = world.run(168)
    assert checks(world, row.seq)[0][2] == (
        "24 rows; 0.9 x mean of 10 runs is 21.6; 1.1 x mean of 10 runs is 26.4"
    )


def test_a_share_is_compared_with_the_shares_of_runs_that_had_rows(tmp_path: Path) -> None:
    """A tenth of the rows of three days is late, then no rows come, then three tenths are late."""
    world = world_of(tmp_path, expect.late_share(expect.history(2, runs=3), severity="warn"))
    for day in range(1, 4):
        world.append([*hours_of(day, 9), Event(24 * day - 20, 24 * day + 10, day)])
    late = [Event(24 * 4, 24 * 5 + 10, 900 + number) for number in range(3)]
    world.append([*hours_of(5, 7), *late])
    rows = world.run(144)
    assert [row.rows_late for row in rows] == [0, 1, 1, 1, 0, 3]
    assert checks(world, 5)[0][1:] == (True, "no rows; 2 x median of 3 runs is 0.2")
    # Of the three runs before it the last had no rows, and two are too few.
    assert checks(world, 6)[0][1:] == (True, "0.3, 3 of 10 rows; 2 x median of 3 runs is not known yet")


def test_a_restatement_is_compared_with_the_runs_before_its_range(tmp_path: Path) -> None:
    world = world_of(tmp_path, expect.rows(expect.history(0.5, runs=3), severity="warn"))
    for day, count in enumerate([10, 10, 10, 40, 40, 40]):
        world.append(hours_of(day, count))
    world.run(144)
    world.append(hours_of(3, 1, first_row=500))
    world.backfill(72, 96)
    restated = next(row for row in world.ledger.live_runs(world.main) if row.slice_start == moment(72))
    assert restated.seq > 6
    assert checks(world, restated.seq)[0][2] == "41 rows; 0.5 x median of 3 runs is 5"


def test_no_more_of_the_history_is_read_than_a_bound_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path)
    world.append(every_hour(0, 144))
    world.run(144)
    ledger, counts = world.ledger, list[int]()
    live_runs = ledger.live_runs

    def counted(*arguments: Any) -> Any:
        runs = live_runs(*arguments)
        counts.append(len(runs))
        return runs

    monkeypatch.setattr(ledger, "live_runs", counted)
    assert [row.slice_end for row in ledger.last_runs(world.main, 2, moment(96))] == [moment(72), moment(96)]
    assert counts == [2, 2]


def test_the_newest_event_is_measured_against_the_slice_s_end(tmp_path: Path) -> None:
    """The newest event of the first day is of 22:00. No row comes on the second: it is a day older then."""
    world = world_of(
        tmp_path,
        expect.freshness(2 * HOUR, severity="warn"),
        expect.freshness(2 * HOUR - timedelta(milliseconds=1), severity="warn"),
    )
    world.append([Event(21, 21.5, 1), Event(22, 22.5, 2), Event(20, 23, 3)])
    rows = world.run(48)
    of_first_day = "the newest event is of 2013-01-01T22:00:00Z, 2:00:00 before the slice's end"
    assert [item[1:] for item in checks(world, 1)] == [(True, of_first_day), (False, of_first_day)]
    of_second_day = "the newest event is of 2013-01-01T22:00:00Z, 1 day, 2:00:00 before the slice's end"
    assert [item[1:] for item in checks(world, 2)] == [(False, of_second_day)] * 2
    assert [row.verdict for row in rows] == ["warned", "warned"]


def test_an_event_after_the_slice_s_end_is_fresh_and_none_at_all_is_not(tmp_path: Path) -> None:
    world = world_of(tmp_path, expect.freshness(timedelta(0), severity="warn"))
    world.append([Event(48.5, 47, 1)])
    world.run(48)
    assert [checks(world, seq)[0][1:] for seq in (1, 2)] == [
        (False, "no event yet"),
        (True, "the newest event is of 2013-01-03T00:30:00Z, 0:30:00 after the slice's end"),
    ]


def test_of_several_sources_the_stalest_is_told(tmp_path: Path) -> None:
    """The newest event of `events` is of 23:00, in one of its partitions; that of `others` is of 21:00."""
    sources = [replace(DAILY.sources[0], table=table, source_partition="k") for table in ("events", "others")]
    world = world_of(tmp_path, expect.freshness(2 * HOUR, severity="warn"), source=sources)
    world.append([Event(20, 23.4, 1), Event(23, 23.5, 2, key="b")])
    write_deltalake(str(world.folder / "others"), SCHEMA.empty_table())
    world.run(24)
    assert checks(world, 1)[0][1:] == (False, "no event of others yet")
    world.append([Event(47, 47.5, 3)])
    rows = [Event(45, 46, 4).values(), Event(30, 46, 5, key="b").values()]
    write_deltalake(str(world.folder / "others"), pa.Table.from_pylist(rows, SCHEMA), mode="append")
    world.run(48)
    observed = "the newest event of others is of 2013-01-02T21:00:00Z, 3:00:00 before the slice's end"
    assert checks(world, 2)[0][1:] == (False, observed)


def test_a_share_of_late_rows_is_refused_where_no_row_can_be_late() -> None:
    with pytest.raises(PipelineError, match=r"expect.late_share, but no row is ever too late"):
        replace(
            DAILY,
            window=TumblingProcessingTimeWindows.of(HOUR),
            allowed_lateness=timedelta(0),
            expect=[expect.late_share(0.1)],
        )


def test_they_are_free_to_change_and_stand_beside_expectations_of_panes(tmp_path: Path) -> None:
    pipeline: Pipeline = replace(DAILY, expect=[expect.between("n", min=1), expect.rows(1)])
    assert [item.title for item in pipeline.pane_expectations] == ["1 <= n"]
    assert [item.title for item in pipeline.input_expectations] == ["1 <= rows"]
    world = world_of(tmp_path)
    world.append(every_hour(0, 48))
    world.run(24)
    world.declare(expect=pipeline.expect)
    [row] = world.run(48)
    assert (row.verdict, checks(world, row.seq)) == ("passed", [("1 <= rows", True, "24 rows")])
