"""Classes of a user's file, and what they import by name, reach tasks that could find neither."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.pipelines import registry
from slackwater.runtime.packaging import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
from dataclasses import replace

from slackwater.examples.departures import departures

mine = replace(departures, name="mine")


class Greeter:
    def greet(self):
        from greetings_of_mine import GREETING

        return GREETING
"""


@pytest.fixture
def greeter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    (tmp_path / "pipelines.py").write_text(FILE)
    (tmp_path / "greetings_of_mine.py").write_text("GREETING = 'good morning'")
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    path = list(sys.path)
    registry.load(str(tmp_path / "pipelines.py"))
    [module] = [
        module for module in registry.loaded_by_value() if Path(str(module.__file__)).parent == tmp_path
    ]
    yield module.Greeter()
    sys.path[:] = path
    del sys.modules[module.__name__]


def test_a_class_of_a_users_file_and_a_module_beside_it_run_in_a_task(
    spark: "SparkSession", greeter: object
) -> None:
    def run(batches):
        import pyarrow

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"said": [greeter.greet()]})

    ship(spark, registry.loaded_by_value(), registry.loaded_files())
    ship(spark, registry.loaded_by_value(), registry.loaded_files())
    assert spark.range(0, 1, 1, 1).mapInArrow(run, "said string").first().said == "good morning"
