"""Columns of a source that do not suit are refused, and the refusal ends with a line that works."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.errors import UsageError
from slackwater.pipelines import DeltaSource, agg
from slackwater.pipelines.errors import PipelineError
from tests.runs.world import DAILY, World, moment, ms

NOON = moment(12)
VALUES = {
    "ms": [ms(12)],
    "seconds": [ms(12) // 1000],
    "text": ["2013-01-01T12:00:00Z"],
    "day": [NOON.date()],
    "meta": [{"made": NOON, "user": {"id": "ann", "n": 5}, "tags": ["x"]}],
    "at": [NOON],
    "k": ["ann"],
    "share": [0.5],
    "raw": [b"ann"],
    "document": ['{"items": [1]}'],
    "props": [[("a", "b")]],
    "n_text": ["5"],
    "Number": [5],
}
TYPES = pa.schema(
    {"ms": pa.int64(), "seconds": pa.int64(), "text": pa.string(), "day": pa.date32()}
    | {
        "meta": pa.struct(
            {
                "made": pa.timestamp("us", tz="UTC"),
                "user": pa.struct({"id": pa.string(), "n": pa.int64()}),
                "tags": pa.list_(pa.string()),
            }
        )
    }
    | {"at": pa.timestamp("us", tz="UTC"), "k": pa.string(), "share": pa.float64(), "raw": pa.binary()}
    | {"document": pa.string(), "props": pa.map_(pa.string(), pa.string()), "n_text": pa.string()}
    | {"Number": pa.int64()}
)
# A declaration, and what it says once the last words of its refusal are written into it.
MENDED_BY_THE_LINE = (
    ({"event_time": "ms"}, {"derive": {"event_at": "epoch_ms(ms)"}, "event_time": "event_at"}),
    (
        {"arrival_time": "seconds"},
        {"derive": {"arrived_at": "to_timestamp(seconds)"}, "arrival_time": "arrived_at"},
    ),
    (
        {"event_time": "text"},
        {"derive": {"event_at": "CAST(text AS TIMESTAMP WITH TIME ZONE)"}, "event_time": "event_at"},
    ),
    ({"event_time": "day"}, {"derive": {"event_at": "CAST(day AS TIMESTAMP)"}, "event_time": "event_at"}),
    ({"event_time": "meta"}, {"derive": {"event_at": "meta.made"}, "event_time": "event_at"}),
    ({"event_time": "meta.made"}, {"derive": {"meta_made": "meta.made"}, "event_time": "meta_made"}),
    ({"key_by": "raw"}, {"derive": {"raw_text": "CAST(raw AS VARCHAR)"}, "key_by": ["raw_text"]}),
    (
        {"key_by": ["k", "share"]},
        {"derive": {"share_text": "CAST(share AS VARCHAR)"}, "key_by": ["k", "share_text"]},
    ),
    ({"key_by": "meta"}, {"derive": {"meta_text": "CAST(meta.made AS VARCHAR)"}, "key_by": ["meta_text"]}),
    (
        {"distinct_by": ["raw"]},
        {"derive": {"raw_text": "CAST(raw AS VARCHAR)"}, "distinct_by": ["raw_text"]},
    ),
    (
        {"source_partition": "raw"},
        {
            "derive": {"source_partition_text": "CAST(raw AS VARCHAR)"},
            "source_partition": "source_partition_text",
        },
    ),
    ({"explode": "meta"}, {"explode": "meta.tags"}),
    ({"explode": "props"}, {"explode": "map_entries(props)"}),
    ({"explode": "document -> '$.items'"}, {"explode": "CAST(document -> '$.items' AS JSON[])"}),
    ({"derive": {"k": "upper(k)"}}, {"derive": {"k_derived": "upper(k)"}}),
    ({"key_by": {"k": "upper(k)"}}, {"key_by": {"k_derived": "upper(k)"}}),
    ({"zone": "Europe/Berln"}, {"zone": "Europe/Berlin"}),
    ({"zone": "+02:00"}, {"zone": "Europe/Berlin"}),
)


def _name(value: object) -> str:
    return re.sub(r"[^a-z0-9]+", " ", str(value).lower()).strip()[:40]


def run_of(folder: Path, declaration: dict[str, Any]) -> World:
    own = {name: declaration[name] for name in ("key_by", "distinct_by", "select") if name in declaration}
    source_settings = {"event_time": "at", "arrival_time": "at"}
    source_settings |= {name: value for name, value in declaration.items() if name not in own}
    pipeline = replace(
        DAILY, **{"source": DeltaSource("raw", **source_settings), "select": {"n": agg.count()}, **own}
    )
    world = World(folder, pipeline)
    write_deltalake(world.source, pa.table(VALUES, schema=TYPES), mode="append")
    world.run(24)
    return world


@pytest.mark.parametrize(("declaration", "line"), MENDED_BY_THE_LINE, ids=_name)
def test_a_refusal_ends_with_the_line_that_works(
    tmp_path: Path, declaration: dict[str, Any], line: dict[str, Any]
) -> None:
    with pytest.raises((PipelineError, UsageError)) as refused:
        run_of(tmp_path / "refused", declaration)
    words = re.search(r"\b(?:derive|key_by|explode|zone)=[^.]*(?:\.[^ ][^.]*)*$", str(refused.value))
    assert words is not None, str(refused.value)
    assert eval(f"dict({words[0]})") == line
    world = run_of(tmp_path / "mended", {**declaration, **line})
    assert (world.main.rows_read, world.main.rows_accepted) == (1, 1)


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ({"select": {"n": agg.sum("n_text")}}, "derive={'n_text_number': 'CAST(n_text AS DOUBLE)'}"),
        (
            {"select": {"n": agg.sum("meta.user.n")}},
            "derive={'meta_user_n': 'meta.user.n'}, and name 'meta_user_n'.",
        ),
        ({"key_by": "meta.user.id"}, "a field of a struct, write key_by={'meta_user_id': 'meta.user.id'}."),
        ({"select": {"n": agg.sum("number")}}, "Write 'Number'."),
        ({"derive": {"x": "hour(text)"}}, "a text that is a time is cast, CAST(… AS TIMESTAMP)"),
        ({"derive": {"x": "to_timestamp(text)"}}, "a text that is a time is cast, CAST(… AS TIMESTAMP)"),
        ({"derive": {"x": "from_unixtime(seconds)"}}, "here write to_timestamp(seconds)"),
        ({"derive": {"x": "epoch_ms(n_text)"}}, "a text that is a number is cast first, CAST(… AS BIGINT)"),
        ({"derive": {"x": "meta.user.name"}}, "meta.user has no field name; it has id, n"),
        ({"derive": {"x": "document.items"}}, "a member of JSON is written document ->> 'items'"),
        (
            {"derive": {"x": "hour(meta.made AT TIME ZONE 'Europe/Berln')"}},
            "one is written e.g. 'Europe/Berlin'",
        ),
    ],
    ids=_name,
)
def test_a_refusal_says_what_to_write(tmp_path: Path, declaration: dict[str, Any], words: str) -> None:
    with pytest.raises((PipelineError, UsageError)) as refused:
        run_of(tmp_path, declaration)
    assert words in str(refused.value)
