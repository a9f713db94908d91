"""A map task that runs once more, since an executor was lost with its output, sends the same bytes: Spark
gives up a job of which it does not.
"""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.engine.replaying import results
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.blobs import to_blobs
from slackwater.engine.transport.in_process import InProcess, MapTask, RangeTask
from slackwater.runs import opened_pipeline
from tests.integration.command import here

OWN = """
from dataclasses import replace
from slackwater import ProcessWindowFunction
from slackwater.examples.departures import departures

class Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield len(list(elements)),

own = replace(departures, name="own", expect=[], select={}, process=Count(), output="flights long")
once = replace(departures, name="once", distinct_by="row")
"""


class MappedTwice(InProcess):
    """Runs each map task twice."""

    def __init__(self) -> None:
        super().__init__(2)
        self.outputs = 0

    def shuffle(self, scan: SliceScan, task: MapTask, ranges: int, reduce: RangeTask) -> list[pa.Table]:
        for group in scan.groups(2):
            first = _bytes_of(task(scan.read(group)))
            assert _bytes_of(task(scan.read(group))) == first
            self.outputs += len(first)
        return super().shuffle(scan, task, ranges, reduce)


def _bytes_of(tables: Iterable[tuple[int, pa.Table]]) -> list[tuple[int, bytes]]:
    return [
        (batch.column("number")[0].as_py(), batch.column("data")[0].as_buffer().to_pybytes())
        for batch in to_blobs(tables)
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("departures", ()),
        pytest.param("departures", ("--engine", "operator"), marks=pytest.mark.slow),
        ("own", ()),
        pytest.param("once", (), marks=pytest.mark.slow),
    ],
)
def test_a_map_task_that_runs_once_more_sends_the_same_bytes(
    name: str, options: tuple[str, ...], warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, peaks = MappedTwice(), count(1 << 20, 1 << 10)
    monkeypatch.setattr(results, "peak_kb", lambda: next(peaks))  # the process has taken more meanwhile
    monkeypatch.setattr(opened_pipeline, "spark_transport", lambda app, here_bytes=None: lambda: transport)
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    arguments = ("run", name, "--to", "2013-01-02", "--on", "spark", "--partitions", "2", *options)
    assert here(*arguments, "--warehouse", warehouse, "--pipelines", file) == 0
    assert transport.outputs >= 3
