"""The first rows of a view are those of all its rows, however few runs are read for them."""

from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.jobs.inspection.rows.top_rows import top_rows
from slackwater.jobs.inspection.sql.views import LineageViews
from tests.warehouses.earlier import unpacked

ORDER = ("run_seq", "arrival_time")


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineageViews]:
    """Runs 1, 2 and 3 have two, four and nine late rows."""
    with LineageViews.of("peaks", str(unpacked(tmp_path_factory.mktemp("warehouse")))) as views:
        yield views


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ORDER) for row in rows]


@pytest.mark.parametrize("run_seq", [None, 2])
@pytest.mark.parametrize("key", [None, "south", "nowhere"])
def test_the_first_late_rows_are_those_of_all(
    views: LineageViews, key: str | None, run_seq: int | None
) -> None:
    late_rows = [
        row
        for row in views.query("FROM late_live").to_pylist()
        if key in (None, row["site"]) and run_seq in (None, row["run_seq"])
    ]
    assert len({row["run_seq"] for row in late_rows}) == {None: 3, "south": 1, "nowhere": 0}[key] or run_seq
    for limit in (1, 2, 7, None):
        top = top_rows(views, "late_live", ORDER, limit=limit, key=key, run_seq=run_seq)
        assert top.total == len(late_rows)
        assert places(top.rows) == sorted(places(late_rows))[:limit]
        assert all(row in late_rows for row in top.rows)
