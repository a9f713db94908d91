"""A pipeline that its source's asset starts, a DAG downstream that runs for the days that changed, which is
the example of the guide, and a callback for runs that are overdue.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.docs.blocks import blocks_of
from tests.integration.airflow.conftest import Airflow, Task, await_, start
from tests.integration.airflow.orders import HOUR, START, TIME

PIPELINES = """
from datetime import timedelta
from slackwater import DeltaSource, Health, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg

orders = Pipeline(
    name="orders",
    source=DeltaSource("sources/orders", event_time="at", arrival_time="seen"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)), key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(hours=6)), allowed_lateness=timedelta(days=2),
    select={"orders": agg.count()}, start="2024-01-01",
    settle=timedelta(0), health=Health(overdue=(timedelta(0), timedelta(0))),
)
"""
DAG_FILE = """
from airflow.sdk import SyncCallback
from slackwater.airflow import DagOptions, dags

options = DagOptions(by_sources=True, on_overdue=SyncCallback("tell_overdue.tell"))
globals().update(dags({pipelines!r}, {warehouse!r}, options))
"""
CALLBACK = """
def tell(context=None, **kwargs):
    with open({file!r}, "a") as file:
        print(context["dag_run"]["dag_id"] if context else "", file=file)
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assets") / "warehouse"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("dags")
    pipelines = folder.with_name("orders_pipelines.py")
    pipelines.write_text(PIPELINES)
    (folder / "slackwater_dags.py").write_text(
        DAG_FILE.format(pipelines=str(pipelines), warehouse=str(warehouse))
    )
    (folder / "tell_overdue.py").write_text(CALLBACK.format(file=str(warehouse.with_name("overdue"))))
    (report,) = [block for block in blocks_of("docs/guides/schedule.md") if "orders_report" in block.text]
    (folder / "orders_report.py").write_text(report.text.replace("s3://lake/warehouse", warehouse.as_uri()))
    yield from start(
        tmp_path_factory.mktemp("airflow") / "home",
        AIRFLOW__CORE__DAGS_FOLDER=str(folder),
        SLACKWATER_WAREHOUSE=str(warehouse),
    )


def load(warehouse: Path, first: int, last: int) -> None:
    """Append an order an hour, of these hours after the start."""
    rows = [
        {"at": START + hour * HOUR, "seen": START + hour * HOUR, "shop": "a"} for hour in range(first, last)
    ]
    schema = pa.schema([("at", TIME), ("seen", TIME), ("shop", pa.string())])
    write_deltalake(warehouse / "sources" / "orders", pa.Table.from_pylist(rows, schema), mode="append")


def tell(airflow: Airflow, extra: dict[str, Any]) -> None:
    """An event of the source's asset, as by whoever loads it."""
    (asset,) = airflow.ask("assets?name_pattern=sources/orders")["assets"]
    airflow.ask("assets/events", {"asset_id": asset["id"], "extra": extra})


def next_run(airflow: Airflow, dag: str, earlier_runs: set[str]) -> str:
    """The id of a run that is none of the earlier ones, once it has ended."""
    run = await_(lambda: next(iter(airflow.runs(dag).keys() - earlier_runs), None), f"a run of {dag}")
    airflow.ended(dag, run)
    return run


def reported_days(airflow: Airflow) -> list[str]:
    runs = airflow.ask("dags/orders_report/dagRuns?order_by=run_after")["dag_runs"]
    return [run["partition_key"] for run in runs if run["state"] == "success"]


def published(warehouse: Path) -> dict[int, int]:
    """Hour of a window's start, after the start → orders."""
    rows = DeltaTable(warehouse / "orders" / "published").to_pyarrow_table().to_pylist()
    return {int((row["window_start"] - START) / HOUR): row["orders"] for row in rows}


def test_an_event_of_the_source_runs_the_pipeline_up_to_where_it_says(
    airflow: Airflow, warehouse: Path
) -> None:
    load(warehouse, 0, 40)
    for dag in ("orders", "orders_report"):
        await_(lambda dag=dag: airflow.ask(f"dags/{dag}"), "the DAGs")  # type: ignore[misc]
        airflow.ask(f"dags/{dag}", {"is_paused": False}, method="PATCH")
    tell(airflow, {"arrival_until": "2024-01-02T00:00:00Z", "rows": 40})
    run = next_run(airflow, "orders", set())
    assert airflow.runs("orders") == {run: "success"}, airflow.log("orders", run, "replay")
    # Up to the end of the first day; its last window waits for an element behind it.
    assert published(warehouse) == {0: 6, 6: 6, 12: 6}


def test_the_dag_downstream_runs_for_the_days_that_changed(airflow: Airflow, warehouse: Path) -> None:
    await_(lambda: reported_days(airflow) or None, "the report")
    assert reported_days(airflow) == ["2024-01-01"]
    earlier_runs = set(airflow.runs("orders"))
    load(warehouse, 40, 60)
    tell(airflow, {"arrival_until": "2024-01-03"})
    run = next_run(airflow, "orders", earlier_runs)
    assert airflow.runs("orders")[run] == "success", airflow.log("orders", run, "replay")
    assert published(warehouse) == {0: 6, 6: 6, 12: 6, 18: 6, 24: 6, 30: 6, 36: 6}
    await_(lambda: True if len(reported_days(airflow)) > 2 else None, "both reports")
    assert sorted(reported_days(airflow)) == ["2024-01-01", "2024-01-01", "2024-01-02"]


def test_an_event_that_does_not_say_how_far_is_refused_and_the_next_makes_up_for_it(
    airflow: Airflow, warehouse: Path
) -> None:
    earlier_runs = set(airflow.runs("orders"))
    tell(airflow, {"rows": 20})
    refused_run = next_run(airflow, "orders", earlier_runs)
    assert airflow.runs("orders")[refused_run] == "failed"
    assert airflow.tasks("orders", refused_run)["replay"] == Task("failed", 1), "it is not tried again"
    assert "arrival_until" in airflow.log("orders", refused_run, "replay")
    load(warehouse, 60, 80)
    tell(airflow, {"arrival_until": "2024-01-04T00:00:00Z"})
    run = next_run(airflow, "orders", earlier_runs | {refused_run})
    assert airflow.runs("orders")[run] == "success"
    assert len(published(warehouse)) == 11


def test_a_run_that_is_overdue_is_told(warehouse: Path) -> None:
    """Here every run is: it may take no time at all."""
    file = warehouse.with_name("overdue")
    assert await_(lambda: file.read_text() if file.exists() else None, "the callback").startswith("orders")
