"""A pipeline over a source of the test's own, driven by the command line in this process. Asserts nothing
about the output of verbs.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.command import here

START = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("e", TIME), ("a", TIME), ("k", pa.string()), ("x", pa.int64())])
FILE = """
from datetime import timedelta

from slackwater import DeltaSource, EventTimeSessionWindows, Pipeline, TumblingEventTimeWindows
from slackwater import WatermarkStrategy, agg, expect

HOUR = timedelta(hours=1)
declared = dict(
    name="own",
    source=DeltaSource("sources/own", event_time="e", arrival_time="a"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=10)).with_interval(timedelta(minutes=10)),
    key_by="k",
    window=TumblingEventTimeWindows.of(2 * HOUR),
    allowed_lateness=HOUR,
    select={{"n": agg.count(), "total": agg.sum("x")}},
    start="2013-01-01",
    schedule=None,
)
own = Pipeline(**{{**declared, **dict({settings})}})
"""


@dataclass
class OwnPipeline:
    """The pipeline `own` over the table `sources/own`: windows of two hours, an hour of lateness, slices of a
    day.
    """

    root: Path
    schema: pa.Schema = SCHEMA

    def __post_init__(self) -> None:
        self.declare()

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"

    @property
    def file(self) -> Path:
        return self.root / "own_pipelines.py"

    @property
    def source(self) -> str:
        return str(self.warehouse / "sources" / "own")

    def declare(self, settings: str = "") -> None:
        """Declare the pipeline anew, with other arguments than those above."""
        self.file.write_text(FILE.format(settings=settings))

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """One commit."""
        self.append_table(pa.Table.from_pylist(list(rows), schema=self.schema))

    def append_table(self, rows: pa.Table) -> None:
        """One commit of rows that may hold values that Python can't express."""
        write_deltalake(self.source, rows, mode="append")

    def __call__(self, *verb: object) -> int:
        """Run `slackwater VERB …` of the pipeline; gives the exit code."""
        return here(*verb, "--warehouse", self.warehouse, "--pipelines", self.file)

    def json(self, capsys: pytest.CaptureFixture[str], *verb: object) -> list[dict[str, Any]]:
        """What a verb prints as JSON."""
        capsys.readouterr()
        assert self(*verb, "--output", "json") == 0
        printed = capsys.readouterr().out
        return list(json.loads(printed[: printed.rindex("]") + 1]))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of one of its tables."""
        return DeltaTable(str(self.warehouse / "own" / table)).to_pyarrow_table().to_pylist()


def moment(hours: float) -> datetime:
    """So many hours after the pipeline's start."""
    return START + hours * HOUR


def every_hour(first: int, last: int, key: str = "a") -> list[dict[str, Any]]:
    """A row an hour that arrives at once; `x` is its hour."""
    return [{"e": moment(hour), "a": moment(hour), "k": key, "x": hour} for hour in range(first, last)]
