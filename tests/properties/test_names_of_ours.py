"""A source whose columns are named as columns of our own tables, and as names in our SQL, gives through each
verb what the same source with plain names gives.
"""

import io
import json
import keyword
import random
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater.pages.app import create_app
from slackwater.stored_columns import RESERVED_NAMES
from slackwater.tables import schemas
from tests.integration.command import here
from tests.integration.stored import ROOT
from tests.pages.page_reader import PageReader

START = datetime(2024, 5, 6, tzinfo=UTC)
_TIME = pa.timestamp("us", tz="UTC")
_FILE = """
from datetime import timedelta

from slackwater import ChangeFeedSink, DeltaSource, Pipeline, ProcessWindowFunction, SqlSink
from slackwater import TumblingEventTimeWindows, WatermarkStrategy, agg, expect

HOUR = timedelta(hours=1)


class Totals(ProcessWindowFunction):
    def process(self, key, context, elements):
        values = [getattr(element, {value!r}) for element in elements]
        if len(values) > 2:
            context.output("large", {{"greatest_value": max(values)}})
        yield {{"total_of_rows": len(values), "total": sum(values), "twice": max(values) * 2}}


def source_at(uri):
    return DeltaSource(
        uri, event_time={event!r}, arrival_time={arrival!r}, source_partition={partition!r},
        order_by={order!r},
    )


named = Pipeline(
    name="named",
    watermarks=WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=30)),
    derive={{"doubled": '"{value}" * 2'}},
    key_by={key!r},
    where='"{value}" <> 13',
    window=TumblingEventTimeWindows.of(3 * HOUR),
    allowed_lateness=2 * HOUR,
    expect=[expect.between("total_of_rows", min=1)],
    sinks=[ChangeFeedSink("feed", "feeds/named"), SqlSink("db", "sqlite:///{folder}/db.sqlite", "target")],
    start="2024-05-06",
    slice=12 * HOUR,
    {shape},
)
"""
_SOURCE = 'source=source_at("sources/named")'
_SELECT = 'select={"total_of_rows": agg.count(), "total": agg.sum("{value}"), "twice": agg.max("doubled")}'
SHAPES = {
    "aggregates": f"{_SOURCE}, {_SELECT}",
    "repeated rows": f'{_SOURCE}, {_SELECT}, distinct_by="{{distinct}}"',
    "several sources": f'source=[source_at("sources/named"), source_at("sources/others")], {_SELECT}',
    "a function": f'{_SOURCE}, process=Totals(), output="total_of_rows long, total long, twice long", '
    'side_outputs={"large": "greatest_value long"}',
}
_ROLES = ("event", "arrival", "partition", "order", "value", "distinct", "key")
PLAIN = {role: f"plain_{role}" for role in _ROLES}
_NAMED_IN_SQL = re.compile(r"\b(?:AS|FROM|JOIN|WITH|lambda) \"?([A-Za-z_]\w*)")
# What differs from run to run, and what depends on the bytes of a source's files or on a pipeline's code.
_CHANGING = re.compile(
    r"run_id|table_id|_at$|^at$|second|bytes|hash|files?$|version|uri$|place"
    r"|^fixed$|^removed$|^compacted$|^recorded$|^replayed$|^stored$"
)
_CHANGING_TEXT = re.compile(r"(?:\w+-)?\d{8}T\d{6}-[0-9a-f]+|\d[\d.,]* (?:[kMG]?B|m?s)\b|seconds=\S+|/\S+")
_PAGES = (
    "named",
    "named/late",
    "named/history?key=a",
    "named/window?key=a&start=2024-05-06T06:00&elements=on",
    "named/state/windows",
    "named/state/timers",
    "named/diff",
    "named/runs/2",
    "named/sql?statement=FROM+late_live",
)
_ADVICE = ("late advise", "--elements")  # which can't tell rows that are repeated from others
_VERBS = (
    ("run", "--to", "2024-05-07T12:00"),
    ("plan", "--to", "2024-05-08T12:00"),
    ("late list",),
    ("late report",),
    ("late advise",),
    _ADVICE,
    ("quarantine list",),
    ("explain", "--key", "b", "--window", "2024-05-06T09:00", "--elements"),
    ("explain", "--key", "b", "--window", "2024-05-07T09:00", "--elements"),
    ("history", "--key", "a"),
    ("history", "--key", "a", "--window", "2024-05-06T06:00", "--elements"),
    ("state windows",),
    ("state timers",),
    ("state keyed",),
    ("state watermarks",),
    ("state diff", "1", "2"),
    ("sinks list",),
    ("late redrive", "--key", "c", "--reason", "they count"),
    ("backfill", "--from", "2024-05-06", "--to", "2024-05-07T12:00"),
    ("verify", "1"),
    ("verify", "--tables"),
    ("run", "--to", "2024-05-08T12:00"),
    ("DELETE", '"{key}" = \'b\' OR "{value}" = 17'),
    ("erase", "--key", "b", "--reason", "they asked"),
    ("erase", "--column", "{value}=17", "--reason", "they asked"),
    ("sinks deliver",),
    ("runs",),
    ("runs", "3"),
    ("health",),
    ("maintain",),
    ("sql", "SELECT * FROM published ORDER BY ALL"),
    ("sql", "SELECT * FROM late_live ORDER BY ALL"),
    ("sql", "SELECT * FROM quarantine_live ORDER BY ALL"),
)


def names_of_ours() -> list[str]:
    """Columns of all tables, and what queries of the product call by a name; each once, whatever its case.
    Names with two underscores are ours, and refused; other columns are attributes of an element.
    """
    tables = (schemas.RUNS, schemas.ATTEMPTS, schemas.QUARANTINE, schemas.VALIDATIONS, schemas.OVERRIDES)
    columns = {name for table in tables for name, *_ in table}
    in_sql = {
        name
        for folder in ("inspection", "runs", "sinks", "engine", "tables")
        for file in (ROOT / "slackwater" / folder).rglob("*.py")
        for name in _NAMED_IN_SQL.findall(file.read_text())
    }
    by_lower_case = {name.lower(): name for name in sorted(columns | in_sql | RESERVED_NAMES)}
    return [
        name
        for name in sorted(by_lower_case.values())
        if "__" not in name and not name.startswith("_") and not keyword.iskeyword(name)
    ]


@dataclass
class NamedSource:
    """A source and the pipeline over it in a warehouse of their own: columns by their roles, and others."""

    folder: Path
    names: Mapping[str, str]
    others: tuple[str, ...] = ()
    shape: str = "aggregates"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        shape = SHAPES[self.shape]
        for role, name in self.names.items():
            shape = shape.replace(f"{{{role}}}", name)
        text = _FILE.format(**self.names, folder=self.folder, shape=shape)
        (self.folder / "named.py").write_text(text)
        rows = self._rows()
        cut = rows.num_rows // 2
        write_deltalake(self.folder / "sources" / "named", rows.slice(0, cut))
        rest = "others" if self.shape == "several sources" else "named"
        write_deltalake(self.folder / "sources" / rest, rows.slice(cut), mode="append")

    def _rows(self) -> pa.Table:
        """Three rows an hour; some late, some too late, some without a key, some doubled."""
        numbers = range(3 * 60)
        arrivals = [START + timedelta(minutes=20 * number) for number in numbers]
        lates = (9 if number % 17 == 5 else 4 if number % 10 == 3 else 0 for number in numbers)
        events = [arrival - timedelta(hours=late) for arrival, late in zip(arrivals, lates, strict=True)]
        columns = {
            "event": pa.array(events, _TIME),
            "arrival": pa.array(arrivals, _TIME),
            "partition": pa.array([f"p{number % 2}" for number in numbers]),
            "order": pa.array(numbers, pa.int64()),
            "value": pa.array([number % 50 for number in numbers], pa.int64()),
            "distinct": pa.array([number // 2 * 2 if number % 7 == 0 else number for number in numbers]),
            "key": pa.array([None if number % 41 == 40 else "abc"[number % 3] for number in numbers]),
        }
        kinds = (
            pa.array([-number for number in numbers], pa.int64()),
            pa.array([f"text {number}" for number in numbers]),
            pa.array([START - timedelta(days=number) for number in numbers], _TIME),
            pa.nulls(len(numbers), pa.float64()),
            # Lists of structs are handed to functions by the other engine.
            pa.array(
                [number % 5 == 0 if self.shape == "a function" else [{"start": number}] for number in numbers]
            ),
        )
        unread = {name: kinds[number % len(kinds)] for number, name in enumerate(self.others)}
        return pa.table({**{self.names[role]: column for role, column in columns.items()}, **unread})

    def ask(self, *verb: str) -> tuple[int, Any]:
        """How a verb ends, and its answer as JSON, or as text where it gives no JSON. DELETE is no verb: it
        deletes rows of the source.
        """
        first, *options = (word.format(**self.names) for word in verb)
        if first == "DELETE":
            deleted = (DeltaTable(folder).delete(options[0]) for folder in self.folder.glob("sources/*"))
            return 0, sum(metrics["num_deleted_rows"] for metrics in deleted)
        stdout, stderr = io.StringIO(), io.StringIO()
        where = ("--warehouse", self.folder, "--pipelines", self.folder / "named.py", "--output", "json")
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code = here(*first.split(), "named", *options, *where)
        try:
            return code, json.loads(stdout.getvalue())
        except json.JSONDecodeError:
            return code, stdout.getvalue() or stderr.getvalue()

    def pages(self) -> dict[str, tuple[int, int]]:
        """The status of each page, and how many rows its tables have."""
        app = create_app(str(self.folder), str(self.folder / "named.py"))
        client = PageReader(app).client
        answers = {page: client.get(f"/{page}") for page in _PAGES}
        return {page: (answer.status_code, answer.text.count("<tr")) for page, answer in answers.items()}

    def targets(self) -> dict[str, list[str]]:
        """What the sinks hold."""
        feed = DeltaTable(self.folder / "feeds" / "named").to_pyarrow_table().to_pylist()
        with closing(sqlite3.connect(self.folder / "db.sqlite")) as database:
            table = database.execute("SELECT * FROM target").fetchall()
        images = ([row[name] for name in row if name not in ("run_id", "at")] for row in feed)
        return {"feed": sorted(map(str, images)), "table": sorted(map(str, table))}


def differences(plain: Any, named: Any, names: Mapping[str, str], place: str = "") -> Iterator[str]:
    """Where an answer is not the plain one; columns that only the other source has are left out."""
    if isinstance(plain, dict) and isinstance(named, dict):
        for key, value in plain.items():
            other = names.get(key, key)
            is_ours = other != key and other.lower() in schemas.LATE_EVENT_NAMES
            if not _CHANGING.search(key) and not is_ours:
                yield from differences(value, named.get(other, "no such key"), names, f"{place}.{key}")
    elif isinstance(plain, list) and isinstance(named, list) and len(plain) == len(named):
        for number, pair in enumerate(zip(plain, named, strict=True)):
            yield from differences(*pair, names, f"{place}[{number}]")
    elif isinstance(plain, str) and plain.startswith(("{", "[{")) and isinstance(named, str):
        yield from differences(json.loads(plain), json.loads(named), names, place)
    elif isinstance(plain, str) and isinstance(named, str):
        for plain_name, name in names.items():
            plain = plain.replace(plain_name, name)
        if _CHANGING_TEXT.sub("…", plain) != _CHANGING_TEXT.sub("…", named):
            yield f"{place}: {plain!r} became {named!r}"
    elif plain != named:
        yield f"{place}: {plain!r} became {named!r}"


def assert_equal_answers(plain: NamedSource, named: NamedSource) -> None:
    names = {PLAIN[role]: name for role, name in named.names.items()}
    for verb in _VERBS:
        (code, answer), (named_code, named_answer) = plain.ask(*verb), named.ask(*verb)
        is_refused = plain.shape == "repeated rows" and verb == _ADVICE
        assert code == (2 if is_refused else 0), (verb, answer)
        assert named_code == code, (verb, named.names, named_answer)
        assert list(differences(answer, named_answer, names)) == [], (verb, named.names)
    pages = plain.pages()
    assert {status for status, _ in pages.values()} == {200}
    assert named.pages() == pages
    assert named.targets() == plain.targets()
    assert all(plain.targets().values())


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_columns_that_nobody_reads_may_have_any_name_of_ours(tmp_path: Path, shape: str) -> None:
    others = names_of_ours()
    assert len(others) > 200 and {"run_seq", "seq", "reason", "branch", "windows"} <= set(others)
    plain = NamedSource(tmp_path / "plain", PLAIN, shape=shape)
    assert_equal_answers(plain, NamedSource(tmp_path / "named", PLAIN, tuple(others), shape))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_a_pipeline_reads_may_have_names_of_ours(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    shape = list(SHAPES)[seed % len(SHAPES)]
    drawn = chance.sample(names_of_ours(), 40)
    key = next(name for name in drawn if name.lower() not in RESERVED_NAMES)
    others = [name.upper() if chance.random() < 0.2 else name for name in drawn if name != key]
    names = {**dict(zip(_ROLES, others, strict=False)), "key": key}
    plain = NamedSource(tmp_path / "plain", PLAIN, shape=shape)
    rest = tuple(others[len(_ROLES) :])
    assert_equal_answers(plain, NamedSource(tmp_path / "named", names, rest, shape))
