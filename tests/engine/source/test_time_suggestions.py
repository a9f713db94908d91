"""Suggestions of times: an expression of pipelines makes of each value the moment that it means, by hand."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.expressions import values_of
from slackwater.engine.source.time_suggestions import suggest_time, suggest_times
from slackwater.pipelines.expressions import parse_expression

# 2024-02-29 13:05:06 UTC: day 19,782 since 1970 and 47,106 s.
SECONDS = 19_782 * 86_400 + 47_106
MOMENT = datetime(2024, 2, 29, 13, 5, 6, tzinfo=UTC)
MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)

VALUES = [
    (SECONDS, "to_timestamp(c)", MOMENT),
    (SECONDS * 1000 + 7, "epoch_ms(c)", MOMENT + timedelta(milliseconds=7)),
    (SECONDS * 1_000_000 + 7, "make_timestamp(c)", MOMENT + timedelta(microseconds=7)),
    (SECONDS * 1_000_000_000 + 7_999, "make_timestamp(c // 1000)", MOMENT + timedelta(microseconds=7)),
    (SECONDS + 0.5, "to_timestamp(c)", MOMENT + timedelta(milliseconds=500)),
    (SECONDS * 1000.0, "epoch_ms(CAST(c AS BIGINT))", MOMENT),
    (Decimal(SECONDS * 1000), "epoch_ms(CAST(c AS BIGINT))", MOMENT),
    (str(SECONDS * 1000), "epoch_ms(CAST(c AS BIGINT))", MOMENT),
    (f"{SECONDS}.25", "to_timestamp(CAST(c AS DOUBLE))", MOMENT + timedelta(milliseconds=250)),
    (date(2024, 2, 29), "CAST(c AS TIMESTAMP)", MIDNIGHT),
    (20240229, "strptime(CAST(c AS VARCHAR), '%Y%m%d')", MIDNIGHT),
    (20240229130506, "strptime(CAST(c AS VARCHAR), '%Y%m%d%H%M%S')", MOMENT),
    ("20240229", "strptime(c, '%Y%m%d')", MIDNIGHT),
    ("2024-02-29 13:05:06", "CAST(c AS TIMESTAMP)", MOMENT),
    ("2024-02-29T13:05:06.250", "CAST(c AS TIMESTAMP)", MOMENT + timedelta(milliseconds=250)),
    ("2024-02-29", "CAST(c AS TIMESTAMP)", MIDNIGHT),
    ("2024-02-29T13:05:06Z", "CAST(c AS TIMESTAMP WITH TIME ZONE)", MOMENT),
    ("2024-02-29T15:05:06+02:00", "CAST(c AS TIMESTAMP WITH TIME ZONE)", MOMENT),
    ("2024-02-29 15:05:06 +0200", "strptime(c, '%Y-%m-%d %H:%M:%S %z')", MOMENT),
    ("20240229T130506Z", "timezone('UTC', strptime(c, '%Y%m%dT%H%M%SZ'))", MOMENT),
    ("29.02.2024 13:05:06", "strptime(c, '%d.%m.%Y %H:%M:%S')", MOMENT),
    ("29.02.2024 13:05", "strptime(c, '%d.%m.%Y %H:%M')", MOMENT - timedelta(seconds=6)),
    ("29/02/2024 13:05:06", "strptime(c, '%d/%m/%Y %H:%M:%S')", MOMENT),
    ("2/29/2024 1:05:06 PM", "strptime(c, '%m/%d/%Y %I:%M:%S %p')", MOMENT),
    ("29/Feb/2024:13:05:06 +0000", "strptime(c, '%d/%b/%Y:%H:%M:%S %z')", MOMENT),
    ("Thu, 29 Feb 2024 13:05:06 GMT", "strptime(c, '%a, %d %b %Y %H:%M:%S %Z')", MOMENT),
    ("29 February 2024", "strptime(c, '%d %B %Y')", MIDNIGHT),
    (f'{{"n": 1, "ts": {SECONDS * 1000}}}', "epoch_ms(CAST(c ->> '$.ts' AS BIGINT))", MOMENT),
    ('{"trip": {"at": "29.02.2024"}}', "strptime(c ->> '$.trip.at', '%d.%m.%Y')", MIDNIGHT),
    (
        '{"the \'time\'": "2024-02-29T13:05:06Z"}',
        "CAST(c ->> '$.\"the ''time''\"' AS TIMESTAMP WITH TIME ZONE)",
        MOMENT,
    ),
    ({"n": 1, "at": SECONDS}, 'to_timestamp(c."at")', MOMENT),
    ({"trip": {"begin": MOMENT}}, "c.trip.begin", MOMENT),
]


@pytest.mark.parametrize(("value", "expression", "moment"), VALUES, ids=[text for _, text, _ in VALUES])
def test_suggestion_is_computed_as_the_moment_that_is_meant(
    value: Any, expression: str, moment: datetime
) -> None:
    column = pa.array([value, None])
    suggestion = suggest_time("c", column)
    assert suggestion is not None
    assert suggestion.expression == expression
    rows = pa.table({"c": column})
    values = values_of(parse_expression("source", "derive['at']", expression), rows)
    assert values.is_failed is None
    assert values.column.cast(pa.timestamp("us", "UTC")).to_pylist() == [moment, None]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 3]),
        pa.array([0.5, float("nan")]),
        pa.array(["ann", "bob"]),
        pa.array(["", None]),
        pa.array([b"\xff"]),
        pa.array([True]),
        pa.array([None, None]),
        pa.array([], pa.int64()),
        pa.array(["[1]", '"x"']),
        pa.array([["2024-01-01"]]),
        pa.array([MOMENT]),
        pa.array(["2024-13-45x"]),
        # Identifiers over the whole range of 32 bits.
        pa.array([17, 1_700_000_000, 3_000_000_000, 900_000_000, 4_294_967_295]),
    ],
    ids=str,
)
def test_values_that_are_no_times_get_no_suggestion(column: pa.Array) -> None:
    assert suggest_time("c", column) is None


def test_names_that_are_not_plain_are_quoted() -> None:
    for name, text in [
        ("user time", '"user time"'),
        ('a"b', '"a""b"'),
        ("order", '"order"'),
        ("at_ms", "at_ms"),
    ]:
        suggestion = suggest_time(name, pa.array([SECONDS]))
        assert suggestion is not None and suggestion.expression == f"to_timestamp({text})"


def test_reason_says_what_the_values_are() -> None:
    suggestion = suggest_time("ms", pa.array([1_690_000_000_000, 1_700_000_000_000]))
    assert suggestion is not None
    assert suggestion.reason == (
        "64-bit numbers between 1.69e12 and 1.70e12: epoch milliseconds, 2023-07-22 to 2023-11-14"
    )
    mixed = suggest_time(
        "at", pa.array(["2024-02-29"] + [f"2024-02-{day:02}" for day in range(1, 10)] + ["?"])
    )
    assert mixed is not None and mixed.reason.endswith("without a zone (90 % of the values)")


def test_day_and_month_that_can_not_be_told_apart_are_said() -> None:
    unsure, sure = (
        suggest_time("d", pa.array(["01/02/2024"])),
        suggest_time("d", pa.array(["01/02/2024", "01/13/2024"])),
    )
    assert unsure is not None and unsure.reason.endswith("check which comes first")
    assert sure is not None and sure.expression == "strptime(d, '%m/%d/%Y')"
    assert "check" not in sure.reason


def test_fields_named_like_times_come_first_and_all_are_found() -> None:
    texts = ['{"id": 1700000000, "eventTime": 1700000000, "trip": {"end": "2024-01-01"}}']
    for sample in (pa.array(texts), pa.array([texts[0].encode()]), pa.chunked_array([texts, texts])):
        assert [found.field for found in suggest_times("v", sample)] == ["eventTime", "id", "trip.end"]
    dictionary = pa.array(["2024-01-01"] * 2).dictionary_encode()
    assert suggest_time("v", dictionary) is not None
