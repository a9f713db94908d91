"""Declarations of sources: roles of columns, and refusals."""

import re
from dataclasses import replace
from typing import Any

import pytest

from slackwater.examples.departures import departures
from slackwater.pipelines import DeltaSource, Pipeline
from slackwater.pipelines.errors import PipelineError


def test_in_order_of_events_a_row_arrives_at_its_event_time() -> None:
    assert DeltaSource("t", event_time="at", order="event").arrival_time == "at"
    assert DeltaSource("t", event_time="at", arrival_time="in", order="event").columns == ("at",)


def test_columns_with_a_role_are_listed_once() -> None:
    source = DeltaSource("t", event_time="at", arrival_time="at", source_partition="carrier", order_by="row")
    assert source.columns == ("at", "carrier", "row")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"table": ""},
            "DeltaSource '': the table is missing; give a path relative to the warehouse, or a URI",
        ),
        ({"table": None}, "the table is missing"),
        ({"event_time": ""}, "DeltaSource 't': event_time is missing; name the timestamp column"),
        (
            {"arrival_time": 3},
            "arrival_time is missing; name the timestamp column, or say arrival_time=COMMIT_TIME where the "
            "table has none, or order='event' for history",
        ),
        ({"source_partition": ""}, "source_partition is ''; name a column, or leave it out"),
        ({"order_by": 3}, "order_by is 3; name a column"),
        ({"order": "row"}, "order is 'row'; it is 'arrival' or 'event'"),
    ],
)
def test_a_role_without_a_column_is_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        DeltaSource(**{"table": "t", "event_time": "at", "arrival_time": "in", **changes})


def clicks(table: str = "sources/clicks", **settings: Any) -> DeltaSource:
    return DeltaSource(table, **{"event_time": "at", "arrival_time": "in", **settings})


@pytest.mark.parametrize(
    ("sources", "rule"),
    [
        ([], "source has 0 sources"),
        (["clicks"], "source has 'clicks'; it is a DeltaSource or ParquetSource, or a list of such"),
        ([clicks(), clicks()], "two sources have the table 'sources/clicks'; each is read once"),
        ([clicks(), clicks("old/clicks")], "two sources are called 'clicks'; give them names"),
        ([clicks(), clicks("views", name="a/b")], "a name has no '/'"),
        ([clicks(rename={"a": "b"})], "a pipeline of one source names its columns as they are"),
        ([clicks(), clicks("views", rename={"at": "when"})], "the first source calls that role 'at'"),
        ([clicks(), clicks("views", order="event")], "all sources have order='event', or none"),
    ],
)
def test_sources_that_can_not_be_told_apart_are_refused(sources: list[Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        replace(departures, source=sources)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"rename": {"a": 3}}, "it maps columns of the source to names that all sources share"),
        ({"lacks": "amount"}, "lacks is 'amount'; it is a list of common columns"),
        ({"name": ""}, "name is ''; give it a name, or leave it out"),
    ],
)
def test_a_mapping_that_is_none_is_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        clicks(**settings)


def test_a_list_of_one_source_is_that_source() -> None:
    assert replace(departures, source=[departures.source]) == departures
    assert replace(departures, source=[departures.source]).describe() == departures.describe()


def test_several_sources_stand_in_the_declaration_in_their_order() -> None:
    declared = replace(departures, source=[clicks(), clicks("views", rename={"url": "page"}, lacks=["n"])])
    assert isinstance(declared, Pipeline)
    assert declared.roles.columns == ("at", "in", "source_partition", "source_order", "source")
    assert [source["table"] for source in declared.describe()["source"]] == ["sources/clicks", "views"]
    assert declared.describe()["source"][1]["rename"] == {"url": "page"}
    assert "rename" not in declared.describe()["source"][0]
    assert declared.describe() != replace(declared, source=declared.sources[::-1]).describe()
