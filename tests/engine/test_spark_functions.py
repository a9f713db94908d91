"""A function of Spark's is refused with the line that gives the same value here; what Spark gives is written
down by hand.
"""

import re
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from slackwater.engine.expressions import type_of, values_of
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.expressions import parse_expression
from slackwater.pipelines.spark_functions import LINES

SECOND = 1357092245  # 2013-01-02 02:04:05 UTC
MOMENT = datetime(2013, 1, 2, 2, 4, 5, tzinfo=UTC)
ROW = pa.table(
    {
        "n": [SECOND],
        "ms": [SECOND * 1000],
        "us": [SECOND * 1_000_000],
        "t": pa.array([MOMENT], pa.timestamp("us", tz="UTC")),
        "d": [date(2013, 1, 2)],
        "day": ["31.12.2012"],
        "iso_day": ["2013-01-02"],
        "iso": ["2013-01-02T04:04:05.250+02:00"],
        "text": ["2013-01-02 02:04:05"],
        "tags": ["a|b.c"],
        "value": ['{"a": 5, "user": {"id": "u7"}}'],
        "xs": [[3, 1]],
        "words": [["x", "y"]],
        "name": ["Ann"],
        "digits": ["12"],
        "nothing": pa.array([None], pa.string()),
        "encoded": ["QW5u"],
        "at": ["2013-01-02"],
    }
)
MIDNIGHT = datetime(2013, 1, 2, tzinfo=UTC)
# A call in Spark, the line that is written here, and the value that Spark gives.
CALLS = (
    ("bigint(digits)", "CAST(digits AS BIGINT)", 12),
    ("boolean(n)", "CAST(n AS BOOLEAN)", True),
    ("double(digits)", "CAST(digits AS DOUBLE)", 12.0),
    ("float(digits)", "CAST(digits AS FLOAT)", 12.0),
    ("int(digits)", "CAST(digits AS INTEGER)", 12),
    ("string(n)", "CAST(n AS VARCHAR)", str(SECOND)),
    ("timestamp(text)", "CAST(text AS TIMESTAMP)", MOMENT),
    ("add_months(t, 1)", "t + to_months(1)", datetime(2013, 2, 2, 2, 4, 5, tzinfo=UTC)),
    ("size(array(n))", "[n]", [SECOND]),
    ("size(array(n, 1))", "[n, 1]", [SECOND, 1]),
    ("size(array(n, 1, 2))", "[n, 1, 2]", [SECOND, 1, 2]),
    ("array_join(words, '-')", "array_to_string(words, '-')", "x-y"),
    ("array_size(xs)", "len(xs)", 2),
    ("char_length(name)", "length(name)", 3),
    ("character_length(name)", "length(name)", 3),
    ("date_add(t, 1)", "t + to_days(1)", datetime(2013, 1, 3, 2, 4, 5, tzinfo=UTC)),
    ("date_diff(t, d)", "date_diff('day', d, t)", 0),
    ("date_format(t, 'dd.MM.yy HH:mm')", "strftime(t, '%d.%m.%y %H:%M')", "02.01.13 02:04"),
    ("date_format(t, 'd MMM yyyy h a')", "strftime(t, '%-d %b %Y %-I %p')", "2 Jan 2013 2 AM"),
    ("date_format(t, 'EEE''s'' D')", "strftime(t, '%Y-%m-%d %H:%M:%S')", "2013-01-02 02:04:05"),
    ("date_format(t, pattern)", "strftime(t, '%Y-%m-%d %H:%M:%S')", "2013-01-02 02:04:05"),
    ("date_sub(t, 1)", "t - to_days(1)", datetime(2013, 1, 1, 2, 4, 5, tzinfo=UTC)),
    ("dateadd(t, 1)", "t + to_days(1)", datetime(2013, 1, 3, 2, 4, 5, tzinfo=UTC)),
    ("datediff(t, to_date)", "date_diff('day', to_date, t)", None),
    ("explode(xs)", "explode='xs'", None),
    ("explode_outer(xs)", "explode='xs'", None),
    ("inline(xs)", "explode='xs'", None),
    ("posexplode(xs)", "explode='xs'", None),
    ("filter(xs, x -> x > 1)", "list_filter(xs, lambda x: x > 1)", [3]),
    ("from_json(value, 'a INT, b STRING')", "CAST(value ->> '$.a' AS INTEGER)", 5),
    ("from_json(value, 'user STRING')", "value ->> '$.user'", '{"id":"u7"}'),
    ("from_unixtime(n)", "to_timestamp(n)", MOMENT),
    ("from_unixtime(n, 'yyyy-MM-dd')", "strftime(to_timestamp(n), '%Y-%m-%d')", "2013-01-02"),
    ("from_utc_timestamp(t, 'Asia/Tokyo')", "t AT TIME ZONE 'Asia/Tokyo'", MOMENT.replace(hour=11)),
    ("get_json_object(value, '$.user.id')", "value ->> '$.user.id'", "u7"),
    ("get_json_object(value || '', '$.a')", "json_extract_string(value || '', '$.a')", "5"),
    ("isnotnull(name)", "name IS NOT NULL", True),
    ("isnull(nothing)", "nothing IS NULL", True),
    ("json_object_keys(value)", "json_keys(value)", ["a", "user"]),
    ("lcase(name)", "lower(name)", "ann"),
    ("locate('n', name)", "strpos(name, 'n')", 2),
    ("nvl(nothing, concat('(', name))", "COALESCE(nothing, concat('(', name))", "(Ann"),
    ("nvl2(nothing, 1, 2)", "CASE WHEN nothing IS NOT NULL THEN 1 ELSE 2 END", 2),
    ("name regexp 'n+'", "regexp_matches(name, 'n+')", True),
    ("regexp_like(name, 'n+')", "regexp_matches(name, 'n+')", True),
    ("name RLIKE '^n'", "regexp_matches(name, '^n')", False),
    ("sha(name)", "sha1(name)", "219dc550cd320d69885a529524239d875ad19347"),
    (
        "sha2(name, 256)",
        "sha256(name)",
        "17239b6e250110330eda64a29c610bf146f89883371fab093feda03bec61b646",
    ),
    ("size(xs)", "len(xs)", 2),
    ("sort_array(xs)", "list_sort(xs)", [1, 3]),
    ("split(tags, '\\\\|')", "string_split(tags, '|')", ["a", "b.c"]),
    ("substring_index(tags, '.', 1)", "split_part(tags, '.', 1)", "a|b"),
    ("timestamp_micros(us)", "make_timestamp(us)", MOMENT),
    ("timestamp_millis(ms)", "epoch_ms(ms)", MOMENT),
    ("timestamp_seconds(n)", "to_timestamp(n)", MOMENT),
    ("to_date(iso_day)", "CAST(iso_day AS DATE)", date(2013, 1, 2)),
    ("to_date(day, 'dd.MM.yyyy')", "CAST(strptime(day, '%d.%m.%Y') AS DATE)", date(2012, 12, 31)),
    ("to_timestamp(day, 'd.M.y')", "strptime(day, '%-d.%-m.%Y')", datetime(2012, 12, 31, tzinfo=UTC)),
    (
        "to_timestamp(iso, 'yyyy-MM-dd''T''HH:mm:ss.SSSXXX')",
        "CAST(iso AS TIMESTAMP WITH TIME ZONE)",
        MOMENT.replace(microsecond=250_000),
    ),
    (
        "to_utc_timestamp(timezone('UTC', t), 'Asia/Tokyo')",
        "timezone('UTC', t) AT TIME ZONE 'Asia/Tokyo'",
        datetime(2013, 1, 1, 17, 4, 5, tzinfo=UTC),
    ),
    ("transform(xs, x -> x + 1)", "list_transform(xs, lambda x: x + 1)", [4, 2]),
    ("transform(xs, (x, i) -> x + i)", "list_transform(xs, lambda x, i: x + i)", None),
    ("trunc(t, 'MM')", "date_trunc('month', t)", datetime(2013, 1, 1, tzinfo=UTC)),
    ("try_to_timestamp(name)", "TRY_CAST(name AS TIMESTAMP)", None),
    ("try_to_timestamp(iso_day, 'yyyy-MM-dd')", "try_strptime(iso_day, '%Y-%m-%d')", MIDNIGHT),
    ("ucase(name)", "upper(name)", "ANN"),
    ("unbase64(encoded)", "from_base64(encoded)", None),
    ("unix_micros(t)", "epoch_us(t)", SECOND * 1_000_000),
    ("unix_millis(t)", "epoch_ms(t)", SECOND * 1000),
    ("unix_seconds(t)", "CAST(epoch(t) AS BIGINT)", SECOND),
    ("unix_timestamp(t)", "CAST(epoch(t) AS BIGINT)", SECOND),
    (
        "unix_timestamp(text, 'yyyy-MM-dd HH:mm:ss')",
        "CAST(epoch(strptime(text, '%Y-%m-%d %H:%M:%S')) AS BIGINT)",
        SECOND,
    ),
    ("weekofyear(d)", "week(d)", 1),
)


def line_in(call):
    with pytest.raises(PipelineError) as refusal:
        parse_expression("p", "derive['x']", call)
    words = re.search(r"(\w+)(\(…\))? is Spark's; here write (.*)\n", str(refusal.value))
    assert words is not None, str(refusal.value)
    return words[1], words[3]


@pytest.mark.parametrize(("call", "line", "value"), CALLS, ids=[call for call, _, _ in CALLS])
def test_a_call_is_refused_with_the_line_that_gives_its_value(call, line, value):
    name, words = line_in(call)
    assert words.startswith(line), name
    if value is not None:
        expression = parse_expression("p", "derive['x']", line)
        type_of("p", "derive['x']", expression, ROW.schema, may_be_nested=True)
        assert values_of(expression, ROW).column.to_pylist() == [value]


def test_every_function_of_spark_that_is_known_has_an_example():
    names = {line_in(call)[0].lower() for call, _, _ in CALLS}
    assert names == set(LINES)


@pytest.mark.parametrize(
    "text",
    ["to_timestamp(n)", "trunc(2.5)", 'from_json(value, \'{"a": "BIGINT"}\').a', "date_diff('day', d, t)"],
)
def test_what_duckdb_takes_as_it_stands_is_no_function_of_spark(text):
    type_of("p", "d", parse_expression("p", "d", text), ROW.schema)
