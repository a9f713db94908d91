"""Derived columns through the verbs: declared, run twice, verified, redriven; and what the quarantine and a
refusal say of them. Expected values are computed in Python.
"""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.own_source import HOUR, OwnPipeline, every_hour, moment

DERIVED = """derive={"day_part": "hour(e) / 6", "who": "upper(k) || day_part", "share": "60 / (x % 5)"},
    key_by=("who", "day_part"), where="k LIKE '_' AND share > 0",
    select={"n": agg.count(), "total": agg.sum("share"), "whole": agg.count(where="60 % share = 0")},
    expect=[expect.between("day_part", 0, 3)]"""


@pytest.fixture
def own_pipeline(tmp_path: Path, without_spark: None) -> OwnPipeline:
    pipeline = OwnPipeline(tmp_path)
    pipeline.declare(DERIVED)
    return pipeline


@pytest.mark.slow
def test_derived_columns_are_keys_and_operands_of_every_verb(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*every_hour(0, 48), *every_hour(0, 48, "b"), *every_hour(0, 48, "left out")]
    very_late = {"e": moment(1), "a": moment(30), "k": "a", "x": 1}
    own_pipeline.append([*rows, very_late])
    assert own_pipeline("run", "own", "--to", "2013-01-02") == 0
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 0
    assert own_pipeline("verify", "own", 1) == own_pipeline("verify", "own", 2) == 0

    counted: Counter[tuple[str, int, object]] = Counter()
    totals: Counter[tuple[str, int, object]] = Counter()
    for row in rows:
        if len(row["k"]) > 1 or row["x"] % 5 == 0:
            continue
        part = row["e"].hour // 6
        place = (row["k"].upper() + str(part), part, row["e"].replace(hour=row["e"].hour // 2 * 2))
        counted[place] += 1
        totals[place] += 60 // (row["x"] % 5)
    published = {
        (row["who"], row["day_part"], row["window_start"]): (row["n"], row["total"], row["whole"])
        for row in own_pipeline.rows("published")
    }
    over = {place for place in counted if place[2] + 2 * HOUR <= moment(47) - timedelta(minutes=20)}
    assert published == {place: (counted[place], totals[place], counted[place]) for place in over}

    failed = [row for row in rows if len(row["k"]) == 1 and row["x"] % 5 == 0]
    quarantined = own_pipeline.rows("quarantine")
    assert len(quarantined) == len(failed)
    assert {(row["reason_code"], row["column_name"]) for row in quarantined} == {
        ("expression_failed", "share")
    }
    assert "day_part" not in quarantined[0]["row_json"]

    [late] = own_pipeline.rows("late_events")
    assert (late["who"], late["day_part"], late["k"], "share" in late) == ("A0", 0, "a", False)
    capsys.readouterr()
    assert own_pipeline("late", "redrive", "own", "--reason", "counts after all") == 0
    printed = capsys.readouterr()
    [command] = [line for line in (printed.out + printed.err).splitlines() if "To re-admit:" in line]
    assert own_pipeline(*command.split("`slackwater ")[1].split("`")[0].split()) == 0
    [redriven] = [
        row
        for row in own_pipeline.rows("published")
        if (row["who"], row["window_start"]) == ("A0", moment(0))
    ]
    assert redriven["n"] == counted["A0", 0, moment(0)] + 1


def test_an_expression_that_does_not_suit_the_source_is_refused_with_its_place(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline.append(every_hour(0, 2))
    for settings, words in {
        'derive={"part": "hour(k) / 6"}': "derive['part'] is 'hour(k) / 6'; at column 1: ",
        'derive={"part": "hour(e) / "}': "at column 10: the text ends; a column, a literal",
        'derive={"x": "hour(e)"}': "derive['x']: the source has a column of this name",
        'derive={"e": "hour(e)"}': "derive has 'e', which is a time",
        'derive={"part": "x / 2.0"}, key_by="part"': "key column 'part' is double",
        'derive={"part": "now()"}': "now differs from run to run",
    }.items():
        own_pipeline.declare(settings)
        assert own_pipeline("run", "own", "--to", "2013-01-02") == 2
        assert words in capsys.readouterr().err


def test_a_change_of_a_derived_column_is_refused_where_state_is_parked(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline.append(every_hour(0, 30))
    assert own_pipeline("run", "own", "--to", "2013-01-02") == 0
    own_pipeline.declare(DERIVED.replace("60 /", "61 /"))
    assert own_pipeline("run", "own", "--to", "2013-01-03") == 2
    assert "derive.share" in capsys.readouterr().err
