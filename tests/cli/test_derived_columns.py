"""Derived columns through the verbs: declared, run twice, verified, redriven; and what the quarantine and a
refusal say of them. Expected values are computed in Python.
"""

import hashlib
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.own_source import HOUR, TIME, OwnPipeline, every_hour, moment

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
        'derive={"x": "hour(e)"}': "derive['x']: the source has a column 'x'. Give the derived one",
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


NESTED_SCHEMA = pa.schema(
    [
        *(("e", TIME), ("a", TIME), ("k", pa.string()), ("document", pa.binary())),
        ("payload", pa.struct([("user", pa.struct([("id", pa.int64())])), ("raw", pa.binary())])),
        ("items", pa.list_(pa.int64())),
        ("headers", pa.map_(pa.string(), pa.binary())),
        ("user-id", pa.int64()),
    ]
)
DERIVED_WITHIN = """derive={
        "sort": "document ->> '$.kind'",
        "amount": "CAST(document ->> '$.amount' AS BIGINT)",
        "user": "payload.user.id",
        "first": "coalesce(items[1], 0) + len(items)",
        "trace": "headers['trace']",
        "digest": "md5(payload.raw)",
    },
    key_by=("sort", "trace"), where='"user-id" >= 0',
    select={"n": agg.count(), "amounts": agg.sum("amount"), "users": agg.sum("user"),
        "firsts": agg.sum("first"), "digest": agg.max("digest"),
        "green": agg.count(where="(document -> 'tags' ->> 0) = 'grün'")}"""


def nested_rows() -> list[dict[str, Any]]:
    rows = []
    for hour in range(48):
        document = {"kind": f"k{hour % 2}", "amount": hour, "tags": ["grün" if hour % 3 else "red"]}
        text = json.dumps(document, ensure_ascii=False).encode()
        rows.append(
            {
                **{"e": moment(hour), "a": moment(hour), "k": "a", "user-id": hour % 9 - 1},
                "document": {5: text[:-1], 16: text.replace("ü".encode(), b"\xfc")}.get(hour, text),
                "payload": None if hour == 7 else {"user": {"id": hour * 3}, "raw": bytes([hour, 255])},
                "items": [] if hour == 8 else [hour, None],
                "headers": [("trace", b"\xff" if hour == 12 else b"t"), ("noise", b"\xff")],
            }
        )
    return rows


@pytest.mark.slow
def test_columns_derived_from_json_structs_lists_maps_and_bytes_are_the_same_in_both_engines(
    tmp_path: Path, without_spark: None
) -> None:
    published = []
    for engine in ("columnar", "operator"):
        (tmp_path / engine).mkdir()
        own_pipeline = OwnPipeline(tmp_path / engine, NESTED_SCHEMA)
        own_pipeline.declare(DERIVED_WITHIN)
        own_pipeline.append(nested_rows())
        assert own_pipeline("run", "own", "--to", "2013-01-03", "--engine", engine) == 0
        failed = {(row["column_name"], row["arrival_time"]) for row in own_pipeline.rows("quarantine")}
        assert failed == {("sort", moment(5)), ("sort", moment(16)), ("trace", moment(12))}
        rows = [
            {name: row[name] for name in row if name not in ("run_id", "run_seq")}
            for row in own_pipeline.rows("published")
        ]
        published.append(sorted(rows, key=lambda row: (row["window_start"], row["sort"])))
    assert published[0] == published[1]

    expected = {}
    for row in nested_rows():
        hour = (row["e"] - moment(0)) // HOUR
        if hour in (5, 12, 16) or row["user-id"] < 0 or hour > 45:
            continue
        expected[f"k{hour % 2}", moment(hour // 2 * 2)] = (
            *(1, hour, hour * 3 if row["payload"] else None),
            hour + 2 if row["items"] else 0,
            hashlib.md5(bytes([hour, 255])).hexdigest() if row["payload"] else None,
            int(hour % 3 > 0),
        )
    columns = ("n", "amounts", "users", "firsts", "digest", "green")
    got = {(row["sort"], row["window_start"]): tuple(row[name] for name in columns) for row in published[0]}
    assert got == expected
