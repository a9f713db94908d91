"""Each recipe of the guide "Your data" runs on raw rows of its kind, and its pipeline publishes what plain
Python counts over the same rows.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from slackwater.engine.columnar import ColumnarEngine
from slackwater.pipelines import ParquetSource, Pipeline, agg
from slackwater.pipelines.sources import Source
from slackwater.runs.lineage.moves import close
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from tests.architecture.tracked import ROOT
from tests.docs.blocks import blocks_of
from tests.docs.raw import fields, texts
from tests.docs.raw.tables import Expected, RawTable, brute_force, moment_in_berlin
from tests.engine.source.commit_logs import CommitLog
from tests.runs.world import DAILY, HOUR, START, World

PAGE = "docs/guides/your-data.md"
LONGEST = 15
YEAR = timedelta(days=365)
END = (datetime(2026, 1, 1, tzinfo=UTC) - START) / HOUR
HOURLY = replace(
    DAILY,
    # No row is late: nothing fires before the lineage is closed.
    watermarks=WatermarkStrategy.bounded_out_of_orderness(YEAR).with_interval(timedelta(days=1)),
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    allowed_lateness=timedelta(0),
    select={"events": agg.count(), "total": agg.sum("amount")},
    start="2025-01-01",
)

CASES: Mapping[str, Callable[[], RawTable | list[RawTable]]] = {
    "Epoch numbers": texts.epoch_numbers,
    "ISO text": texts.iso_texts,
    "Other formats of text": texts.other_formats,
    "JSON text": texts.json_text,
    "JSON in bytes": texts.json_in_bytes,
    "A Kafka topic": texts.kafka_topic,
    "Debezium": texts.debezium,
    "No arrival column": lambda: fields.times("visited_at", None),
    "No arrival column, in a folder": lambda: fields.times("visited_at", None),
    "History only": fields.archive,
    "Local times": fields.local_times,
    "A time in a struct": fields.time_in_a_struct,
    "A nested key": fields.nested_key,
    "Maps": fields.maps,
    "Arrays of structs": fields.arrays_of_structs,
    "Arrays in JSON": fields.arrays_in_json,
    "Names with spaces, dots and capitals": fields.odd_names,
    "UUIDs and hashes": fields.identities,
    "Several shapes": fields.web_and_till,
}


@dataclass(frozen=True)
class Section:
    """A recipe: its heading, its text, and the names that its block defines."""

    heading: str
    text: str

    @property
    def names(self) -> dict[str, Any]:
        names: dict[str, Any] = {"key_by": "user_id", "where": None}
        exec(compile(self.block, f"{PAGE}: {self.heading}", "exec"), names)
        return names

    @property
    def block(self) -> str:
        [block] = re.findall(r"^```python\n(.*?)^```$", self.text, flags=re.M | re.S)
        return str(block)

    @property
    def pipeline(self) -> Pipeline:
        names = self.names
        return replace(HOURLY, source=names["source"], key_by=names["key_by"], where=names["where"])


def sections() -> dict[str, Section]:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.M)[1:]
    return {heading: Section(heading, body) for heading, body in zip(parts[::2], parts[1::2], strict=True)}


SECTIONS = sections()


def tables_in(text: str) -> list[list[str]]:
    """The cells of each row of a page's tables, without headings."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    rules = [number for number, row in enumerate(rows) if set("".join(row)) <= set("-: ")]
    return [
        [cell.strip() for cell in row]
        for number, row in enumerate(rows)
        if number not in rules and number + 1 not in rules
    ]


def write(world: World, number: int, source: Source, table: RawTable) -> None:
    """The rows in two commits or files, which arrive at the end of March if they have no column for it."""
    arrival = datetime(2025, 3, 31, tzinfo=UTC)
    place, middle = world.place(number), len(table.rows) // 2
    for part, rows in enumerate((table.rows[:middle], table.rows[middle:])):
        values = pa.Table.from_pylist(list(rows), schema=table.schema)
        if isinstance(source, ParquetSource):
            os.makedirs(place, exist_ok=True)
            pq.write_table(values, f"{place}/{part}.parquet")
            os.utime(f"{place}/{part}.parquet", (arrival.timestamp() + part,) * 2)
            continue
        write_deltalake(place, values, mode="append")
        if source.arrives_by_commit:
            log = CommitLog(world.folder)
            log.uri = place
            log.stamp((arrival - START) / HOUR + part)


def run(folder: Path, pipeline: Pipeline, tables: Sequence[RawTable]) -> World:
    world = World(folder, pipeline, engine=ColumnarEngine())
    for number, (source, table) in enumerate(zip(pipeline.sources, tables, strict=True)):
        write(world, number, source, table)
    world.run(END, slice_=YEAR)
    close(Evaluator(world.runner(), world.said.append))
    return world


def published_by(world: World) -> Expected:
    keys = world.pipeline.keys
    results = {
        (tuple(row[key] for key in keys), row["window_start"]): (row["events"], row["total"])
        for row in world.published()
    }
    reasons = Counter(row["reason_code"] for row in world.live("quarantine"))
    return Expected(
        results, reasons, sum(row.rows_filtered or 0 for row in world.ledger.live_runs(world.main))
    )


def raw_tables(heading: str) -> list[RawTable]:
    tables = CASES[heading]()
    return tables if isinstance(tables, list) else [tables]


@pytest.mark.parametrize("heading", CASES)
def test_a_recipe_publishes_what_python_counts(heading: str, tmp_path: Path) -> None:
    tables = raw_tables(heading)
    expected = brute_force(tables)
    assert 12 <= sum(len(table.rows) for table in tables) <= 100
    assert len(expected.results) > 9
    assert expected.quarantined
    assert published_by(run(tmp_path, SECTIONS[heading].pipeline, tables)) == expected


@pytest.mark.parametrize("unit", texts.UNITS)
def test_the_expression_of_a_unit_reads_numbers_of_it(unit: str, tmp_path: Path) -> None:
    expressions = dict(tables_in(SECTIONS["Epoch numbers"].text))
    assert expressions.keys() == texts.UNITS.keys()
    pipeline = SECTIONS["Epoch numbers"].pipeline
    [source] = pipeline.sources
    derive = {**source.derive, "event_time": expressions[unit].strip("`")}
    table = texts.epoch_numbers(texts.UNITS[unit])
    pipeline = replace(pipeline, source=replace(source, derive=derive))
    assert published_by(run(tmp_path, pipeline, [table])) == brute_force([table])


def test_the_table_of_local_times_is_right() -> None:
    rows = tables_in(SECTIONS["Local times"].text)
    assert len(rows) == 6
    assert [datetime.fromisoformat(row[3] + "Z") for row in rows] == [
        moment_in_berlin(datetime.fromisoformat(row[0])) for row in rows
    ]
    for local, _, meaning, moment in rows:
        clock = re.search(r"(\d\d:\d\d) of (summer|winter) time", meaning)
        assert clock is not None, local
        offset = {"summer": 2, "winter": 1}[clock[2]]
        assert f"{datetime.fromisoformat(moment) + offset * HOUR:%H:%M}" == clock[1], local


def test_each_recipe_has_a_case_and_is_short() -> None:
    assert SECTIONS.keys() == CASES.keys()
    lengths = {heading: section.block.count("\n") for heading, section in SECTIONS.items()}
    assert {heading: lines for heading, lines in lengths.items() if lines > LONGEST} == {}


def test_the_page_begins_with_a_look_and_its_table_leads_to_every_recipe() -> None:
    assert blocks_of(PAGE)[0].commands == ["slackwater sources look sources/departures"]
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition("\n## ")[0]
    rows = tables_in(text)
    assert {len(row) for row in rows} == {2}
    anchors = [re.search(r"\(#([a-z-]+)\)$", row[1]) for row in rows]
    assert None not in anchors
    headings = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in SECTIONS]
    assert sorted(anchor[1] for anchor in anchors if anchor) == sorted(headings)
    first_words = " ".join(row[0] for row in rows)
    places = [
        first_words.find(word)
        for word in (
            "epoch",
            "JSON",
            "Kafka",
            "Debezium",
            "no arrival column",
            "local times",
            "nested",
            "arrays",
        )
    ]
    assert places == sorted(places)
    assert -1 not in places
