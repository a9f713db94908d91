"""The contenders that replay a workload: the project itself, and the systems it is measured against. One file
each; `CONTENDERS` finds it by name.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from slackwater.bench.cases import BenchmarkCase


class Contender(Protocol):
    """One way to replay a case, in a process of its own. The caller measures `run`, and not `prepare`. Both
    may be called any number of times; `start` once, before them.
    """

    def start(self, case: BenchmarkCase) -> None:
        """Start what serves all runs, e.g. a Spark session."""

    def prepare(self, case: BenchmarkCase) -> None:
        """Remove the results of an earlier run."""

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        """Replay, and leave the results where `slackwater.bench.checks` looks for them. Returns facts
        for the record; `wall_s` and `cpu_s` among them replace those that the caller measured.
        """


CONTENDERS: Mapping[str, str] = MappingProxyType(
    {
        "slackwater": "slackwater.bench.contenders.slackwater:Slackwater",
        "floor": "slackwater.bench.contenders.floor:Floor",
        "slackwater_last_eighth": "slackwater.bench.contenders.slackwater:LastEighth",
        "spark_native": "slackwater.bench.contenders.spark_native:SparkNative",
        "duckdb": "slackwater.bench.contenders.duckdb_group_by:DuckDb",
        "flink": "slackwater.bench.contenders.flink:Flink",
        "apply_in_arrow": "slackwater.bench.contenders.spark_own_code:ApplyInArrow",
        "apply_in_pandas": "slackwater.bench.contenders.spark_own_code:ApplyInPandas",
        "transform_with_state_batch": "slackwater.bench.contenders.spark_own_code:BatchWithState",
    }
)


def make(name: str, engine: str | None) -> Contender:
    """The contender called `name`; `engine` overrides the planner's choice for the project's own."""
    module, kind = CONTENDERS[name].split(":")
    maker = getattr(import_module(module), kind)
    contender: Contender = maker(engine) if name.startswith("slackwater") else maker()
    return contender
