"""The examples that we ship: data, the loader that writes it as a source, and the pipeline that reads it.

Standard library only at import: the command line lists examples without Arrow, and DAG files read their
pipelines through this package.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from types import MappingProxyType

from slackwater.errors import PermanentError, RetryableError, UsageError


class UnknownExample(UsageError):
    """No example has that name."""


class BadRange(UsageError):
    """An empty or reversed range to load, one without a time zone, or outside the example's data."""


class SourceDiffers(UsageError):
    """The table at the source's path has other columns."""


class ExampleDataMissing(PermanentError):
    """The package that holds the example's data is not installed."""


class SourceBusy(RetryableError):
    """Other loads kept committing to the source first; nothing was written."""


class NoRedisServer(PermanentError):
    """A Redis server is not installed, or does not start."""


@dataclass(frozen=True)
class LoadedRange:
    """The result of one load.

    Attributes:
        path: folder or URI of the source's Delta table.
        version: the table's version after the load.
        rows_written: rows that this load committed; 0 (and no commit) when it had nothing to add.
        rows_present: rows of the range that the table had before.
        days: number of UTC days of arrival that got rows.
    """

    path: str
    version: int
    rows_written: int
    rows_present: int
    days: int


@dataclass(frozen=True)
class Example:
    """Data that `load` writes as a source, and the pipeline that reads it.

    Attributes:
        source: the source's table, relative to the warehouse.
        pipeline: name of the pipeline, declared in `pipeline_module`.
        loader: ``module:function`` of the loader, imported only by `load`.
    """

    name: str
    description: str
    source: str
    pipeline: str
    pipeline_module: str
    loader: str

    def load(self, warehouse: str, start: datetime, end: datetime) -> LoadedRange:
        """Write what arrived in [start, end) to the source, except rows that it has. Raises the loader's
        errors.
        """
        module, function = self.loader.split(":")
        loaded_range: LoadedRange = getattr(import_module(module), function)(warehouse, start, end)
        return loaded_range


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "departures": Example(
            name="departures",
            description="336,776 flights that left New York in 2013, each arriving as it lands: up to eleven "
            "hours out of order",
            source="sources/departures",
            pipeline="departures",
            pipeline_module="slackwater.examples.departures",
            loader="slackwater.examples.flights:load_departures",
        ),
        "turnarounds": Example(
            name="turnarounds",
            description="the same flights by aircraft: sessions that cross midnight, joined by what reports "
            "late",
            source="sources/departures",
            pipeline="turnarounds",
            pipeline_module="slackwater.examples.turnarounds",
            loader="slackwater.examples.flights:load_departures",
        ),
        "tollgates": Example(
            name="tollgates",
            description="vehicles that pass five tollgates, two a second as long as you like, from 2024 on: "
            "JSON from Kafka, up to ten minutes out of order, counted into Redis",
            source="sources/vehicles",
            pipeline="tollgates",
            pipeline_module="slackwater.examples.tollgates",
            loader="slackwater.examples.vehicles:load_vehicles",
        ),
        **{
            name: Example(
                name=name,
                description=f"Nexmark's {query}: an auction's bids, a hundred events a second as long as you "
                "like, from 2024 on",
                source="sources/nexmark",
                pipeline=name,
                pipeline_module="slackwater.examples.nexmark",
                loader="slackwater.examples.auctions:load_auctions",
            )
            for name, query in (
                ("nexmark_q5", "hot items"),
                ("nexmark_q7", "highest bid"),
                ("nexmark_q11", "user sessions"),
                ("nexmark_q12", "processing time windows"),
            )
        },
    }
)


def find_example(name: str) -> Example:
    """The example of that name; UnknownExample, with the names there are, if there is none."""
    if name not in EXAMPLES:
        raise UnknownExample(
            f"no example is called {name!r}; there are: {', '.join(sorted(EXAMPLES))}.", name=name
        )
    return EXAMPLES[name]
