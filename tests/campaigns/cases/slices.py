"""Slices that hold no usable row, rows that come twice, and ranges that can't be run."""

from collections.abc import Iterator
from functools import partial

from tests.campaigns.cases.rows import GOOD, publishes_all
from tests.campaigns.cases.world import SETTINGS, Case, World, assert_equal, row
from tests.cli.own_source import moment


def cases() -> Iterator[Case]:
    """All of them."""
    for name, expects, act in (
        ("an empty slice", "right result", _empty_slice),
        ("a source without rows", "right result", _no_rows),
        ("a slice of late rows alone", "right result", _late_alone),
        ("a slice of null rows alone", "quarantine", _nulls_alone),
        ("all rows in quarantine", "quarantine", _all_quarantined),
        ("a range before the lineage's start", "right result", _before_the_start),
        ("rows that come twice in one file", "right result", partial(publishes_all, rows=[*GOOD, *GOOD])),
        ("rows that come twice, told apart", "right result", _distinct),
        ("rows that come again a day later", "right result", _again_later),
        ("50,000 rows of one moment", "right result", partial(publishes_all, rows=[row(1, x=1)] * 50_000)),
        ("rows in reverse order", "right result", partial(publishes_all, rows=GOOD[::-1])),
    ):
        yield Case("slices and duplicates", name, expects, act)
    for name, options, words in (
        ("an end before its beginning", ["--from", "2013-01-02", "--to", "2013-01-01"], "2013-01-0"),
        ("an empty range", ["--from", "2013-01-02", "--to", "2013-01-02"], "2013-01-02"),
        ("a gap", ["--from", "2013-01-05", "--to", "2013-01-06"], "2013-01-0"),
        ("more slices than max_catch_up", ["--to", "2013-06-01"], "--all"),
        ("no time", ["--to", "tomorrow"], "tomorrow"),
        ("the thirtieth of February", ["--to", "2013-02-30"], "2013-02-30"),
        ("the year 0", ["--to", "0000-01-01"], "0000-01-01"),
        ("the year 10000", ["--to", "10000-01-01"], "10000-01-01"),
        ("an empty text", ["--to", ""], "--to"),
        ("microseconds", ["--to", "2013-01-02T00:00:00.000001"], "--to"),
    ):
        act = partial(_refused_range, options=options, words=words)
        yield Case("slices and duplicates", f"a range: {name}", "error", act)


def _empty_slice(world: World) -> None:
    world.fill(GOOD)
    world.runs("2013-01-05")
    world.publishes_what_duckdb_counts(GOOD)
    assert_equal(
        [one["rows_read"] for one in sorted(world.rows("runs"), key=lambda r: r["seq"])],
        [5, 1, 0, 0],
        "rows read",
    )


def _no_rows(world: World) -> None:
    world.write([])
    world.runs("2013-01-03")
    assert_equal(world.rows("published"), [], "published")


def _late_alone(world: World) -> None:
    world.declare("allowed_lateness=timedelta(0)")
    world.write([*GOOD, row(23, "zz-last")])
    world.write([{**row(hour), "a": moment(30 + hour)} for hour in (0, 1)])
    world.runs()
    world.publishes_what_duckdb_counts(GOOD)
    assert_equal(len(world.rows("late_events")), 2, "late rows")


def _before_the_start(world: World) -> None:
    world.fill(GOOD)
    assert "nothing to do" in world.runs("2012-12-01")
    assert_equal(world.ledger_rows(), 0, "rows of the ledger")


def _nulls_alone(world: World) -> None:
    world.fill(GOOD)
    world.runs()
    world.write([{"e": None, "a": moment(50 + hour), "k": None, "x": None} for hour in range(5)])
    text = world.runs("2013-01-04")
    assert "all 5 rows were quarantined" in text, text
    world.publishes_what_duckdb_counts(GOOD)
    world.quarantines({"null_key": 5})


def _all_quarantined(world: World) -> None:
    world.write([row(hour, None) for hour in range(9)])
    text = world.runs()
    assert "rows were quarantined" in text, text
    world.quarantines({"null_key": 9})
    assert_equal(world.rows("published"), [], "published")


def _distinct(world: World) -> None:
    world.declare(f"{SETTINGS}, distinct_by='x'")
    world.fill([*GOOD, *GOOD])
    world.runs()
    world.publishes_what_duckdb_counts(GOOD)


def _again_later(world: World) -> None:
    world.fill(GOOD)
    world.runs()
    world.write(GOOD)  # the same arrivals, in a file that no run has read: stragglers
    world.runs("2013-01-04")
    world.publishes_what_duckdb_counts([*GOOD, *GOOD])


def _refused_range(world: World, options: list[str], words: str) -> None:
    world.fill(GOOD)
    world.runs("2013-01-02")
    world.refuses(["run", "own", *options], words)
