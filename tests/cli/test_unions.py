"""A pipeline over several sources by the command line: declared, run, refused, restated."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.own_source import TIME, OwnPipeline, every_hour, moment

SHOP = pa.schema(
    [("sold", TIME), ("seen", TIME), ("till", pa.int64()), ("who", pa.string()), ("price", pa.int32())]
)
SOURCES = """source=[
    DeltaSource("sources/own", event_time="e", arrival_time="a"),
    DeltaSource("sources/shop", event_time="sold", arrival_time="seen", source_partition="till",
                rename={"who": "k", "price": "x"}),
]"""


@pytest.fixture
def own(tmp_path: Path) -> OwnPipeline:
    pipeline = OwnPipeline(tmp_path)
    pipeline.declare(SOURCES)
    return pipeline


def sell(
    own: OwnPipeline, *hours: float, who: str | None = "a", delay: float = 0.25, price: int = 100
) -> None:
    rows = [
        {
            "sold": moment(hour),
            "seen": moment(hour + delay),
            "till": int(hour) % 2,
            "who": who,
            "price": price,
        }
        for hour in hours
    ]
    write_deltalake(
        str(own.warehouse / "sources" / "shop"), pa.Table.from_pylist(rows, schema=SHOP), mode="append"
    )


def published(own: OwnPipeline) -> dict[tuple[str, int], tuple[int, int]]:
    """(key, hour of the window's start) → its results."""
    return {
        (row["k"], (row["window_start"] - moment(0)) // timedelta(hours=1)): (row["n"], row["total"])
        for row in own.rows("published")
    }


def inputs(own: OwnPipeline, seq: int) -> list[dict[str, Any]]:
    [row] = [row for row in own.rows("runs") if row["seq"] == seq]
    return [dict(item) for item in row["inputs"]]


def test_rows_of_two_sources_meet_in_one_window_and_the_slower_source_holds_the_watermark_back(
    own: OwnPipeline,
) -> None:
    own.append(every_hour(0, 24))
    sell(own, *range(6))
    assert own("run", "own", "--to", "2013-01-02") == 0
    # A window of two hours holds two rows of each source. The shop's first till has come to four o'clock:
    # less ten minutes, only the first window is over, though the other source is at eleven in the evening.
    assert published(own) == {("a", 0): (4, 201)}
    progress = {row["source_partition"]: row["max_event_time"] for row in own.rows("source_progress")}
    assert progress == {None: None, "own": moment(23), "shop/0": moment(4), "shop/1": moment(5)}
    assert [(item["table"], item["version"], item["rows"]) for item in inputs(own, 1)] == [
        ("sources/own", 0, 24),
        ("sources/shop", 0, 6),
    ]


def test_late_and_unusable_rows_name_the_source_that_has_them(own: OwnPipeline) -> None:
    own.append(every_hour(0, 24))
    sell(own, *range(24))
    sell(own, 22, who=None)
    sell(own, 3, who="late", delay=20)
    assert own("run", "own", "--to", "2013-01-02") == 0
    [late] = own.rows("late_events")
    assert (late["source"], late["source_partition"], late["k"]) == ("shop", "shop/1", "late")
    [unusable] = own.rows("quarantine")
    assert unusable["source_file"].startswith("sources/shop/part-")
    assert (unusable["reason_code"], unusable["source_version"]) == ("null_key", 2)
    assert '"shop"' in unusable["row_json"]


@pytest.mark.slow
def test_stragglers_of_one_source_are_folded_in_and_its_rewrite_is_refused_by_its_name(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own.append(every_hour(0, 24))
    sell(own, *range(24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    sell(own, 22, 22, price=1)
    assert own("plan", "own", "--to", "2013-01-03") == 0
    assert "2 rows appeared after the slice of their arrival was run" in capsys.readouterr().out
    own.append(every_hour(24, 48))
    sell(own, *range(24, 48))
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert published(own)["a", 22] == (6, 22 + 23 + 200 + 2)
    assert [item["rows"] for item in inputs(own, 2)] == [24, 26]
    DeltaTable(str(own.warehouse / "sources" / "shop")).delete("price = 1")
    capsys.readouterr()
    assert own("run", "own", "--to", "2013-01-04") == 2
    refusal = capsys.readouterr().err
    assert "sources/shop: rows that runs have already read were changed or removed" in refusal
    assert "2 rows, arrivals from 2013-01-01T22:15:00Z to 2013-01-01T22:15:00Z" in refusal
    assert "slackwater backfill own --from 2013-01-01T22:15:00Z --to 2013-01-01T22:15:00.001Z" in refusal
    assert own("backfill", "own", "--from", "2013-01-01T22:15:00Z", "--to", "2013-01-01T22:15:00.001Z") == 0
    assert published(own)["a", 22] == (4, 22 + 23 + 200)
    assert own("run", "own", "--to", "2013-01-04") == 0


def test_sources_may_have_no_rows_yet(own: OwnPipeline) -> None:
    sell(own)
    own.append([])
    assert own("run", "own", "--to", "2013-01-01T01:00") == 0
    own.append(every_hour(1, 24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    sell(own, *range(24, 48))
    own.append(every_hour(24, 48))
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert published(own)["a", 30] == (4, 30 + 31 + 200)


@pytest.mark.parametrize(
    ("rename", "sentence"),
    [
        ('{"who": "k"}', "source 'sources/shop' has no column 'x', which the pipeline reads"),
        ('{"who": "k", "cost": "x"}', "source 'sources/shop' has no column 'cost'"),
        ('{"who": "k", "price": "x", "till": "e"}', "two of its columns, 'sold' and 'till', are called 'e'"),
        ('{"who": "x", "price": "k"}', "column 'k' is string in source 'sources/own' and int32"),
        (
            '{"who": "k", "price": "x", "till": "source"}',
            "its column 'till' is called as a column that rows of",
        ),
    ],
)
def test_columns_that_do_not_come_together_are_refused(
    own: OwnPipeline, capsys: pytest.CaptureFixture[str], rename: str, sentence: str
) -> None:
    own.declare(SOURCES.replace('{"who": "k", "price": "x"}', rename))
    own.append(every_hour(0, 1))
    sell(own, 0)
    assert own("run", "own", "--to", "2013-01-02") == 2
    assert sentence in capsys.readouterr().err


def test_a_lineage_keeps_its_sources(own: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    own.append(every_hour(0, 48))
    sell(own, *range(24))
    own.declare()
    assert own("run", "own", "--to", "2013-01-02") == 0
    own.declare(SOURCES)
    assert own("run", "own", "--to", "2013-01-03") == 2
    assert "these settings can't change while what run 1 has parked is carried on" in capsys.readouterr().err
    assert own("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02") == 0
    assert own.rows("published")[0]["window_start"] == datetime(2013, 1, 1, tzinfo=UTC)
    assert published(own)["a", 2] == (4, 205)


@pytest.mark.slow
def test_runs_over_several_sources_repeat_to_the_same_hashes(own: OwnPipeline) -> None:
    own.append(every_hour(0, 48))
    sell(own, *range(24))
    assert own("run", "own", "--to", "2013-01-02") == 0
    sell(own, *range(20, 48))
    assert own("run", "own", "--to", "2013-01-03") == 0
    assert [own("verify", "own", seq) for seq in (1, 2)] == [0, 0]
