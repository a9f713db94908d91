"""The DAGs of all pipelines, for a DAG file of one line. A pipeline that can't be declared is left out.

Airflow drops every DAG of a file with an import error, so errors are raised by `check`, in a file of its own.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow.sdk import DAG

from slackwater.airflow.restate import restatement_dag
from slackwater.airflow.scheduled import scheduled_dag
from slackwater.airflow.settings import RESTATE, DagOptions, Settings, SettingsError, read
from slackwater.airflow.upkeep import health_dag, maintain_dag
from slackwater.pipelines import Pipeline
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import PipelinesFileError, Registry, load

log = logging.getLogger(__name__)

DEFAULT_OPTIONS = DagOptions()
NO_OPTIONS: Mapping[str, DagOptions] = MappingProxyType({})


class UndeclaredPipelines(Exception):
    """Files or pipelines have no DAGs: the import error, in Airflow, of the file that called `check`."""


def dags(
    pipelines: str | Sequence[str] | None = None,
    warehouse: str | None = None,
    options: DagOptions = DEFAULT_OPTIONS,
    options_of: Mapping[str, DagOptions] = NO_OPTIONS,
    **settings: Any,
) -> dict[str, DAG]:
    """The DAGs by their ids: of every pipeline `NAME`, which replays what has arrived each interval, and
    `NAME__restate`, which restates a range by hand; of the warehouse `slackwater__maintain` and
    `slackwater__health`.

    Args:
        pipelines: a file, a module, a folder of files, or several of them; by default SLACKWATER_PIPELINES.
        warehouse: a folder or a URI; by default SLACKWATER_WAREHOUSE.
        options_of: by the name of a pipeline, in place of `options`.
        settings: as the fields of `Settings`, each in place of its variable.

    Raises:
        SettingsError: a setting can't be used.
        UsageError: `pipelines` is one file or module, and it can't be loaded.
    """
    declaration = _Declaration(
        read(pipelines=pipelines, warehouse=warehouse, **settings), options, options_of
    )
    declared_dags, faults = declaration.declare()
    for fault in faults.values():
        log.error("no DAG for %s", fault)
    return declared_dags


def check(
    pipelines: str | Sequence[str] | None = None,
    warehouse: str | None = None,
    options: DagOptions = DEFAULT_OPTIONS,
    options_of: Mapping[str, DagOptions] = NO_OPTIONS,
    **settings: Any,
) -> None:
    """Raise UndeclaredPipelines, with a paragraph for each file or pipeline that has no DAGs; takes the
    arguments of `dags`. What `dags` raises itself is the import error of its own file.
    """
    try:
        declaration = _Declaration(
            read(pipelines=pipelines, warehouse=warehouse, **settings), options, options_of
        )
        _, faults = declaration.declare()
    except (SettingsError, PipelinesFileError, PipelineError):
        return
    if faults:
        raise UndeclaredPipelines("\n\n".join(["these have no DAGs, all others do:", *faults.values()]))


@dataclass(frozen=True)
class _Declaration:
    settings: Settings
    options: DagOptions
    options_of: Mapping[str, DagOptions]

    def declare(self) -> tuple[dict[str, DAG], dict[str, str]]:
        """The DAGs by id, and by file or pipeline why it has none."""
        settings = self.settings
        registry = load(settings.pipelines, examples=settings.examples)
        declared_dags: dict[str, DAG] = {}
        faults = {name: str(fault) for name, fault in registry.faults.items()}
        if unknown_names := self.options_of.keys() - registry.keys():
            faults["options_of"] = f"options_of names what is no pipeline: {', '.join(sorted(unknown_names))}"
        for name, pipeline in registry.items():
            try:
                declared_dags |= self._dags_of(pipeline, registry)
            # Whatever Airflow refuses, the other pipelines have their DAGs.
            except Exception as error:  # noqa: BLE001
                faults[name] = f"pipeline {name!r}: {type(error).__name__}: {error}"
        for declare, schedule in (
            (maintain_dag, settings.maintain_schedule),
            (health_dag, settings.health_schedule),
        ):
            try:
                dag = declare(settings, self.options)
                dag.validate()
                declared_dags[dag.dag_id] = dag
            except Exception as error:  # noqa: BLE001 - as above
                faults[declare.__name__] = (
                    f"{declare.__name__} at {schedule!r}: {type(error).__name__}: {error}"
                )
        return declared_dags, faults

    def _dags_of(self, pipeline: Pipeline, registry: Registry) -> dict[str, DAG]:
        name, settings = pipeline.name, self.settings
        base = name.removesuffix(RESTATE)
        if base != name and base in registry:
            raise ValueError(f"the restate DAG of {base!r} has this name; give the pipeline another")
        if name.startswith(f"{settings.upkeep}__"):
            raise ValueError(
                f"DAGs of the whole warehouse begin with {settings.upkeep}__; give it another name"
            )
        options = self.options_of.get(name, self.options)
        both = (
            scheduled_dag(pipeline, settings, options, registry.end_of_data(name)),
            restatement_dag(pipeline, settings, options),
        )
        for dag in both:
            dag.validate()  # as Airflow does later, where a refusal takes all DAGs of the file away
        return {dag.dag_id: dag for dag in both}
