"""Declarations of sources: roles of columns, and refusals."""

import re
from typing import Any

import pytest

from slackwater.jobs.pipelines import DeltaSource
from slackwater.jobs.pipelines.errors import PipelineError


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
            "arrival_time is missing; name the timestamp column, or say order='event' where history has none",
        ),
        ({"source_partition": ""}, "source_partition is ''; name a column, or leave it out"),
        ({"order_by": 3}, "order_by is 3; name a column"),
        ({"order": "row"}, "order is 'row'; it is 'arrival' or 'event'"),
    ],
)
def test_a_role_without_a_column_is_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(rule)):
        DeltaSource(**{"table": "t", "event_time": "at", "arrival_time": "in", **changes})
