"""`slackwater doctor`: checks that everything is there that a run needs. Starts no JVM, unless asked for the
executors of a cluster.
"""

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.errors import SlackwaterError, UsageError
from slackwater.inspection.answer_tables import Column

if TYPE_CHECKING:
    from slackwater.pipelines import Pipeline
    from slackwater.runtime.executors import ExecutorPython
    from slackwater.tables.warehouse import Warehouse

_PACKAGES = ("slackwater", "deltalake", "pyarrow", "duckdb", "pyspark", "delta-spark", "great-expectations")
_PATIENCE_S = 60  # a cluster that must start machines first takes minutes; then its operator asks again


@click.command("doctor")
@click.option(
    "--cluster",
    is_flag=True,
    help="also start Spark on the cluster of SLACKWATER_MASTER, and compare its executors with this Python",
)
@options.warehouse
@options.pipelines
@printing.output
def command(cluster: bool, warehouse: str | None, pipelines: str | None, output: Output) -> None:
    """Check Python, packages, Java, the Delta jars, the pipelines, the warehouse, and that each pipeline's
    tables there hold every row once; with --cluster also the Python and the packages of the executors, by
    host. Exits 1 when something is missing or wrong.

    \b
    Examples: slackwater doctor
              slackwater doctor --cluster
    """
    checks = [
        _check("python", lambda: sys.version.split()[0]),
        *(_check(name, partial(importlib.metadata.version, name)) for name in _PACKAGES),
        _check("java", _java),
        _check("delta jars", _jars),
        _check("pipelines", lambda: _pipelines(pipelines)),
        _check("warehouse", lambda: _warehouse(warehouse)),
        *_checks_of_rows(warehouse, pipelines),
        *(_executors() if cluster else ()),
    ]
    printing.show(checks, [Column("check"), Column("ok"), Column("found", "text")], output, empty="")
    if not all(check["ok"] for check in checks):
        raise click.exceptions.Exit(1)


def _check(name: str, look: Callable[[], str | None]) -> dict[str, Any]:
    """One row of the report: what `look` returns, or its error as the finding."""
    try:
        return {"check": name, "ok": True, "found": look()}
    except importlib.metadata.PackageNotFoundError:
        return {"check": name, "ok": False, "found": f"not installed; install slackwater[spark] ({name})"}
    except (SlackwaterError, OSError) as error:
        return {"check": name, "ok": False, "found": str(error)}


def _java() -> str:
    from slackwater.runtime.java import java_home

    return str(java_home())


def _jars() -> str:
    from slackwater.runtime.jars import jars

    return ", ".join(Path(jar).name for jar in jars())


def _executors() -> list[dict[str, Any]]:
    """A row for the executors on each host, or one that says why there are none."""
    try:
        pythons = [(python, python.fault()) for python in _pythons_of_executors()]
    except (SlackwaterError, OSError) as error:
        return [{"check": "cluster", "ok": False, "found": str(error)}]
    return [
        {"check": f"executors on {python.host}", "ok": fault is None, "found": fault or python.summary}
        for python, fault in pythons
    ]


def _pythons_of_executors() -> "list[ExecutorPython]":
    from slackwater.runtime.executors import await_executors, pythons_of_executors
    from slackwater.runtime.session import session
    from slackwater.runtime.settings import chosen_master, is_local

    if is_local(chosen_master()):
        raise UsageError(
            f"Spark's master is {chosen_master()}, which is no cluster. Name one in SLACKWATER_MASTER, such "
            "as spark://host:7077, yarn or k8s://https://host:443."
        )
    spark = session("slackwater doctor")
    await_executors(spark, _PATIENCE_S)
    return pythons_of_executors(spark)


def _pipelines(pipelines: str | None) -> str:
    from slackwater.pipelines import registry

    pipelines_by_name = registry.load(pipelines)
    if pipelines_by_name.faults:
        raise UsageError("; ".join(map(str, pipelines_by_name.faults.values())))
    return ", ".join(pipelines_by_name)


def _warehouse(warehouse: str | None) -> str:
    from slackwater.tables.errors import WarehouseNotWritable
    from slackwater.tables.warehouse import Warehouse

    root = Warehouse.at(warehouse).root
    if "://" in root:
        return root
    nearest = next(path for path in (Path(root), *Path(root).parents) if path.exists())
    if not os.access(nearest, os.W_OK) or not nearest.is_dir():
        raise WarehouseNotWritable(
            f"{root}: can't be written (permissions of {nearest}); choose another with --warehouse."
        )
    return root if Path(root).exists() else f"{root} (will be made)"


def _checks_of_rows(warehouse: str | None, pipelines: str | None) -> Iterator[dict[str, Any]]:
    """A row for each registered pipeline that has tables in the warehouse."""
    from slackwater.pipelines import registry
    from slackwater.tables.warehouse import Warehouse

    try:
        all_pipelines, location = list(registry.load(pipelines).values()), Warehouse.at(warehouse)
    except (SlackwaterError, OSError):  # said by the checks of the pipelines and of the warehouse
        return
    for pipeline in all_pipelines:
        check = _check(f"rows of {pipeline.name}", partial(_rows_stand_once, location, pipeline))
        if check["found"] is not None:
            yield check


def _rows_stand_once(warehouse: "Warehouse", pipeline: "Pipeline") -> str | None:
    """The finding; None where the pipeline has never run."""
    from slackwater.runs.publishing.roll_forward import RollForward
    from slackwater.tables.errors import NoRuns

    try:
        tables = warehouse.stored_tables(pipeline.name, pipeline.side_columns)
    except NoRuns:
        return None
    RollForward.from_stored(pipeline, tables).uniqueness.require()
    return "every row of runs, corrections and published is there once"
