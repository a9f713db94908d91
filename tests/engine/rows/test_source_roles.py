"""Which columns of a source can play the roles that a pipeline gives them."""

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.rows.columns_read import SourceColumnError, check_roles
from slackwater.pipelines import DeltaSource
from tests.engine.source.arrivals import TIME

SCHEMA_OF_ROLES = pa.schema(
    [
        ("e", TIME),
        ("a", pa.timestamp("us")),
        ("text", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("list", pa.list_(pa.int64())),
    ]
)


class TestRoles:
    def roles(self, **changes: Any) -> DeltaSource:
        return DeltaSource(
            **{
                "table": "t",
                "event_time": "e",
                "arrival_time": "a",
                "source_partition": "text",
                "order_by": "n",
                **changes,
            }
        )

    def test_columns_that_can_play_their_roles_are_accepted(self) -> None:
        check_roles(self.roles(), SCHEMA_OF_ROLES, ("x", "list"))
        check_roles(self.roles(source_partition=None, order_by="x"), SCHEMA_OF_ROLES, ())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"event_time": "when"}, "source 't' has no column 'when'; it has e, a, text, n, x, list. Mend"),
            ({"event_time": "text"}, "event_time is column 'text' of type string; it must be a timestamp"),
            ({"arrival_time": "n"}, "arrival_time is column 'n' of type int64; it must be a timestamp"),
            (
                {"source_partition": "list"},
                "source_partition is column 'list' .*; it must be text, an integer, a boolean or a date",
            ),
            ({"source_partition": "x"}, "source_partition is column 'x' of type double"),
            (
                {"order_by": "list"},
                "order_by is column 'list' .*; it must be a plain column, whose values have an order",
            ),
        ],
    )
    def test_others_are_refused_with_what_the_source_has(self, changes: dict[str, str], message: str) -> None:
        with pytest.raises(SourceColumnError, match=message) as error:
            check_roles(self.roles(**changes), SCHEMA_OF_ROLES, ())
        assert error.value.column in changes.values()  # type: ignore[attr-defined]

    def test_columns_of_aggregates_must_be_there_too(self) -> None:
        with pytest.raises(SourceColumnError, match="no column 'delay'"):
            check_roles(self.roles(), SCHEMA_OF_ROLES, ("delay",))
