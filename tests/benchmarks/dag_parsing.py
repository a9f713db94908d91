"""`python -m tests.benchmarks.dag_parsing [--pipelines N]`: what a DAG file of many pipelines takes to parse,
beside a file with as many DAGs of as many empty tasks, written by hand.

Each file is imported in a process of its own that has imported Airflow, as its dag-processor has; a figure is
the median of three. Exits with 1 where a file is over its budget, five seconds for a hundred pipelines and
one for one; or where parsing has imported Spark.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BUDGET_OF_A_HUNDRED, BUDGET_OF_ONE = 5.0, 1.0
_REPEATS = 3
PIPELINE = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg, expect

pipeline_{number} = Pipeline(
    name="pipeline_{number}",
    source=DeltaSource("sources/orders", event_time="at", arrival_time="seen", order_by="row"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)),
    key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    select={{"orders": agg.count(), "paid": agg.sum("price")}},
    expect=[expect.between("orders", 1)],
    start="2024-01-01",
)
"""
OURS = """
from slackwater.airflow import dags

globals().update(dags({pipelines!r}, {warehouse!r}))
"""
BY_HAND = """
from datetime import datetime
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

for number in range({pipelines}):
    for name, tasks in ((f"p{{number}}", 5), (f"p{{number}}__restate", 3)):
        with DAG(name, schedule="@daily", start_date=datetime(2024, 1, 1)) as dag:
            chain = [EmptyOperator(task_id=f"t{{task}}") for task in range(tasks)]
            for before, after in zip(chain, chain[1:]):
                before >> after
        globals()[name] = dag
"""
CHILD = """
import json, resource, sys, time
import airflow.sdk
from airflow.sdk import DAG
began = time.perf_counter()
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
seconds = time.perf_counter() - began
print(json.dumps({
    "seconds": seconds,
    "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    "dags": len({value.dag_id for value in names.values() if isinstance(value, DAG)}),
    "spark": "pyspark" in sys.modules,
}))
"""


@dataclass(frozen=True)
class Cost:
    """What a DAG file took: seconds, the greatest resident set, and what came of it."""

    seconds: float
    mb: float
    dags: int
    spark: bool


def cost_of(file: Path) -> Cost:
    """The median of some imports, each in a process of its own."""
    command = [sys.executable, "-c", CHILD, str(file)]
    answers = [
        json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        )
        for _ in range(_REPEATS)
    ]
    seconds, mb = (statistics.median(answer[name] for answer in answers) for name in ("seconds", "mb"))
    return Cost(seconds, mb, answers[0]["dags"], any(answer["spark"] for answer in answers))


def files(folder: Path, pipelines: int) -> dict[str, Path]:
    """The DAG files, by what they are: ours for one pipeline and for all, and one by hand."""
    for count in (1, pipelines):
        of_count = folder / f"pipelines_{count}"
        of_count.mkdir(exist_ok=True)
        for number in range(count):
            (of_count / f"pipeline_{number}.py").write_text(PIPELINE.format(number=number))
    texts = {
        "one pipeline": OURS.format(pipelines=str(folder / "pipelines_1"), warehouse=str(folder)),
        f"{pipelines} pipelines": OURS.format(
            pipelines=str(folder / f"pipelines_{pipelines}"), warehouse=str(folder)
        ),
        f"{pipelines} times two DAGs by hand": BY_HAND.format(pipelines=pipelines),
    }
    dag_files = {}
    for number, (name, text) in enumerate(texts.items()):
        dag_files[name] = folder / f"dag_file_{number}.py"
        dag_files[name].write_text(text)
    return dag_files


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the costs; the exit code says whether they are within their budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=100)
    pipelines = parser.parse_args(arguments).pipelines
    with tempfile.TemporaryDirectory() as folder:
        costs = {name: cost_of(file) for name, file in files(Path(folder), pipelines).items()}
    table = Table("DAG file", "DAGs", "seconds", "MB", "Spark imported")
    for name, cost in costs.items():
        table.add_row(
            name, str(cost.dags), f"{cost.seconds:.2f}", f"{cost.mb:.0f}", "yes" if cost.spark else "no"
        )
    Console().print(table)
    of_one, of_all, _ = costs.values()
    is_over = of_one.seconds > BUDGET_OF_ONE or of_all.seconds > BUDGET_OF_A_HUNDRED * pipelines / 100
    return int(is_over or of_all.spark)


if __name__ == "__main__":
    sys.exit(main())
