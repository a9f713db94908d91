"""The benchmark of DAG files: both files have the DAGs that it says, and none imports Spark."""

from pathlib import Path

import pytest

from tests.benchmarks.dag_parsing import cost_of, files


@pytest.mark.slow
def test_every_file_has_its_dags(tmp_path: Path) -> None:
    costs = {name: cost_of(file) for name, file in files(tmp_path, 3).items()}
    upkeep = 2
    assert {name: cost.dags for name, cost in costs.items()} == {
        "one pipeline": 2 + upkeep,
        "3 pipelines": 6 + upkeep,
        "3 times two DAGs by hand": 6,
    }
    assert not any(cost.spark for cost in costs.values())
    assert all(cost.seconds > 0 and cost.mb > 0 for cost in costs.values())
