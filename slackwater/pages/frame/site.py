"""What every page is made from: the warehouse, the pipelines, and who may see them. Pages reach tables only
through here, so none can forget to ask. Whoever mounts the pages says who may see what.
"""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple, cast

from fastapi import Depends, HTTPException, Request

from slackwater.errors import SlackwaterError
from slackwater.inspection.inspection import Inspection
from slackwater.pipelines import Pipeline, registry
from slackwater.pipelines.registry import VARIABLE, Registry
from slackwater.readable import time_text
from slackwater.tables.errors import NoRuns
from slackwater.tables.warehouse import Warehouse

# Raises HTTPException where the sender of a request may not see a pipeline; None stands for the list of those
# that it may see, and for what belongs to no pipeline.
Authorize = Callable[[Request, str | None], None]


class RestateForm(NamedTuple):
    """The form of a DAG that restates a range: its page, and the parameters as JSON for its field `conf`."""

    dag_id: str
    href: str
    conf: str


@dataclass(frozen=True, kw_only=True)
class AirflowLinks:
    """Where the Airflow that shows these pages has its own: the URL of a pipeline's DAG, and the form of its
    restate DAG for the range [from, to) of arrivals; None where there is none.
    """

    dag: Callable[[str], str | None]
    restate_form: Callable[[str, datetime, datetime], RestateForm | None]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One warehouse as pages.

    Attributes:
        authorize: see `Authorize`; None: everyone who reaches the pages may see all.
        examples: whether the examples are registered beside the user's pipelines.
    """

    warehouse_uri: str | None
    pipelines: str | None
    authorize: Authorize | None = None
    airflow: AirflowLinks | None = None
    examples: bool = True

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse.at(self.warehouse_uri)

    @cached_property
    def registry(self) -> Registry:
        return registry.load(self.pipelines, examples=self.examples)

    @property
    def registry_fault(self) -> str | None:
        try:
            _ = self.registry
        except SlackwaterError as error:
            return error.message
        return None

    def declaration(self, name: str) -> Pipeline | None:
        """The declaration of a pipeline; None where it is not registered: its tables can be looked at all the
        same.
        """
        return None if self.registry_fault else self.registry.get(name)

    def names(self) -> list[str]:
        """The pipelines that are registered, and those that have tables in the warehouse, by name."""
        registered_names = [] if self.registry_fault else list(self.registry)
        return sorted({*registered_names, *self._names_of_tables()})

    def _names_of_tables(self) -> list[str]:
        """The pipelines with a ledger in a local warehouse; of an object store only registered ones are
        known.
        """
        root = Path(self.warehouse.root)
        return [folder.parent.parent.name for folder in root.glob("*/runs/_delta_log")]

    def has_tables(self, name: str) -> bool:
        """Whether a local warehouse has a ledger of the pipeline; True where only a read could tell."""
        return "://" in self.warehouse.root or name in self._names_of_tables()

    def may_see(self, request: Request, name: str | None) -> bool:
        try:
            self.check(request, name)
        except HTTPException:
            return False
        return True

    def check(self, request: Request, name: str | None) -> None:
        """Raise the HTTPException of `authorize` where the sender may not see the pipeline."""
        if self.authorize is not None:
            self.authorize(request, name)

    def visible_names(self, request: Request) -> list[str]:
        return [name for name in self.names() if self.may_see(request, name)]

    def pipeline(self, request: Request, name: str) -> "PipelineView":
        """A pipeline for the sender of a request, whose tables are opened on first use. Raises HTTPException
        where the sender may not see it, or there is none.
        """
        self.check(request, name)
        if name not in self.names() and not self.has_tables(name):
            raise HTTPException(404, f"No pipeline is called {name!r} here.")
        return PipelineView(self, name)

    def dag_url(self, name: str) -> str | None:
        return None if self.airflow is None else self.airflow.dag(name)

    def command(self, *words: object) -> str:
        """A command line of ours to copy, with the warehouse and the pipelines file of these pages."""
        arguments = ["slackwater", *map(str, words), "--warehouse", self.warehouse.root]
        pipelines = self.pipelines or os.environ.get(VARIABLE)
        if pipelines and _takes_pipelines(arguments[1]):
            arguments += ["--pipelines", pipelines]
        return shlex.join(arguments)


def _takes_pipelines(verb: str) -> bool:
    return verb not in ("examples", "doctor")


@dataclass(frozen=True)
class PipelineView:
    """One pipeline that the sender of a request may see."""

    site: Site
    name: str

    @cached_property
    def inspection(self) -> Inspection:
        return Inspection(self.name, self.site.warehouse.stored_tables(self.name))

    @cached_property
    def declaration(self) -> Pipeline | None:
        return self.site.declaration(self.name)

    @cached_property
    def example_time(self) -> str:
        """A time of the newest run, as an example for a form; empty where nothing has run."""
        try:
            head = self.inspection.tables.ledger.head()
        except NoRuns:
            return ""
        return "" if head is None or head.slice_start is None else time_text(head.slice_start)

    def command(self, verb: str, *words: object, options: Mapping[str, object] | None = None) -> str:
        """A command line about this pipeline to copy; `verb` may be two words. Options without a value are
        left out.
        """
        values = {name: value for name, value in (options or {}).items() if value not in (None, "")}
        option_words = [word for option in values.items() for word in option]
        return self.site.command(*verb.split(), self.name, *option_words, *words)


def site_of(request: Request) -> Site:
    return cast(Site, request.app.state.site)


def check_sender(request: Request) -> None:
    """Dependency of every route: the sender may see the pipeline in the path, or the list of pipelines."""
    site_of(request).check(request, request.path_params.get("pipeline"))
    request.state.is_sender_checked = True


def is_sender_checked(request: Request) -> bool:
    """Whether `check_sender` has let the request through; it is not asked where no route is found."""
    return getattr(request.state, "is_sender_checked", False)


def _pipeline_view(request: Request, pipeline: str) -> PipelineView:
    return site_of(request).pipeline(request, pipeline)


# The pipeline in a route's path: `def page(request: Request, view: PipelineInPath) -> Response`.
PipelineInPath = Annotated[PipelineView, Depends(_pipeline_view)]
