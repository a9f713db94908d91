"""Pages of rows: each row once, in order, forwards and backwards, whatever is null or equal; and files of all
rows.
"""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.inspection.rows.row_exports import csv_pieces, json_pieces, parquet_pieces
from slackwater.inspection.rows.row_pages import (
    STATE_TABLES,
    NotAPlace,
    PagedView,
    RowFilter,
    RowPage,
    RowPlace,
)
from slackwater.inspection.sql.locked_database import RowBatches
from slackwater.inspection.sql.views import LineageViews
from slackwater.tables.named_keys import NotAKey
from tests.warehouses.earlier import unpacked


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(unpacked(tmp_path_factory.mktemp("pages")))


@pytest.fixture(scope="module")
def views(warehouse: str) -> Iterator[LineageViews]:
    with LineageViews.of("readings", warehouse) as views:
        yield views


def walk(paged: PagedView, row_filter: RowFilter, page_rows: int) -> list[RowPage]:
    """Every page from the first to the last; places go through their text, as in URLs."""
    pages = [paged.page(row_filter, None, page_rows)]
    while (place := pages[-1].next_place) is not None:
        pages.append(paged.page(row_filter, RowPlace.from_text(place.to_text()), page_rows))
    return pages


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize(
    ("view", "order", "page_rows"),
    [
        ("panes_live", ("window_start", "site", "firing"), 20),
        ("panes_live", ("kind",), 20),  # most rows are equal
        ("quarantine_live", ("arrival_time", "reason_code"), 4),
        ("late_live", ("arrival_time",), 4),
    ],
)
def test_every_row_is_on_one_page_in_order(
    views: LineageViews, view: str, order: tuple[str, ...], page_rows: int, is_descending: bool
) -> None:
    paged = PagedView(views, view, order, is_descending)
    pages = walk(paged, RowFilter(), page_rows)
    rows = [row for page in pages for row in page.rows.to_pylist()]
    everything = views.query(f"FROM {view}").to_pylist()
    assert len(pages) > 2 and {page.total for page in pages} == {len(everything)}
    assert [page.is_first for page in pages] == [True] + [False] * (len(pages) - 1)
    places = [tuple((row[name] is not None, row[name]) for name in order) for row in rows]
    assert places == sorted(places, reverse=is_descending)
    if len(order) > 1:
        assert sorted(map(repr, rows)) == sorted(map(repr, everything))
    else:
        assert len(rows) == len(everything)


@pytest.mark.parametrize("is_descending", [False, True])
def test_rows_without_a_value_are_on_one_page_too(warehouse: str, is_descending: bool) -> None:
    """Rows of the ledger: those that are no run have no slice."""
    with LineageViews.of("readings", warehouse) as views:
        paged = PagedView(views, "runs", ("slice_start", "engine", "seq"), is_descending)
        pages = walk(paged, RowFilter(), 2)
        rows = [row for page in pages for row in page.rows.to_pylist()]
        back = [page.previous_place for page in pages[1:]]
        starts = [row["slice_start"] for row in rows]
        assert None in starts and len({row["seq"] for row in rows}) == len(rows) == pages[0].total
        assert (starts[-1] is None) is is_descending and (starts[0] is None) is not is_descending
        for place, before in zip(back, pages, strict=False):
            assert place is not None
            assert paged.page(RowFilter(), place, 2).rows == before.rows


def test_pages_backwards_are_those_of_forwards(views: LineageViews) -> None:
    paged = PagedView(views, "panes_live", ("window_start", "site", "firing"))
    pages = walk(paged, RowFilter(), 25)
    for before, page in pairwise(pages):
        place = page.previous_place
        assert place is not None and place.is_backward
        text = place.to_text()
        back = paged.page(RowFilter(), RowPlace.from_text(text, is_backward=True), 25)
        assert back.rows == before.rows


def test_rows_are_filtered_by_key_and_time(views: LineageViews) -> None:
    start, end = datetime(2024, 3, 2, tzinfo=UTC), datetime(2024, 3, 3, tzinfo=UTC)
    for table in STATE_TABLES.values():
        paged = table.paged_view(views)
        row_filter = RowFilter(key="north", time_column=table.time_column, start=start, end=end)
        rows = [row for page in walk(paged, row_filter, 5) for row in page.rows.to_pylist()]

        def is_wanted(row: dict, time: str | None = table.time_column) -> bool:
            key = row["site"] if "site" in row else json.loads(row["row_json"])["site"]
            return key == "north" and (time is None or (row[time] is not None and start <= row[time] < end))

        wanted = [row for row in views.query(f"FROM {table.view}").to_pylist() if is_wanted(row)]
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted)), table.name
    assert rows, "quarantine has such rows"


def test_what_names_no_place_or_key_is_refused(views: LineageViews) -> None:
    paged = PagedView(views, "panes_live", ("window_start",))
    for text in ("", "x", "{}", "[1]", '[[1],"x"]', "[[[]],0]", '[["2024"],-1]'):
        with pytest.raises(NotAPlace):
            RowPlace.from_text(text)
    with pytest.raises(NotAPlace):
        paged.page(RowFilter(), RowPlace(("a", "b"), 0))
    with pytest.raises(NotAKey):
        paged.page(RowFilter(key='["a", "b"]'), None)


ROWS = pa.table(
    {
        "text": ['a,"b"\nc', "", None],
        "n": pa.array([1, None, 3], pa.int64()),
        "x": [0.5, float("nan"), None],
        "whole": pa.array([10, 2, None], pa.decimal128(38, 0)),
        "at": pa.array([0, 1_500, 2**63 - 1], pa.timestamp("us", tz="UTC")),
        "windows": [[{"start": 1}], [], None],
        "flag": [True, None, False],
    }
)


def stream() -> RowBatches:
    return RowBatches(ROWS.schema, iter(ROWS.to_batches(max_chunksize=2)))


def test_csv_and_json_have_every_value() -> None:
    records = list(csv.reader(io.StringIO(b"".join(csv_pieces(stream())).decode())))
    assert records == [
        ROWS.schema.names,
        ['a,"b"\nc', "1", "0.5", "10", "1970-01-01T00:00:00Z", '[{"start": 1}]', "true"],
        ["", "", "nan", "2", "1970-01-01T00:00:00.0015Z", "[]", ""],
        ["", "3", "", "", "infinity", "", "false"],
    ]
    first, second, third = json.loads("".join(json_pieces(stream())))
    assert first == {
        **{"text": 'a,"b"\nc', "n": 1, "x": 0.5, "whole": 10, "at": "1970-01-01T00:00:00Z"},
        **{"windows": [{"start": 1}], "flag": True},
    }
    assert second["x"] is None and third["at"] == "infinity"


def test_parquet_has_the_same_rows() -> None:
    rows = pq.read_table(io.BytesIO(b"".join(parquet_pieces(stream()))))
    assert rows.schema.equals(ROWS.schema)
    assert str(rows.drop_columns("at").to_pydict()) == str(ROWS.drop_columns("at").to_pydict())


def test_no_rows_are_a_file_without_rows() -> None:
    def empty() -> RowBatches:
        return RowBatches(ROWS.schema, iter(()))

    assert b"".join(csv_pieces(empty())).decode().count("\n") == 1
    assert json.loads("".join(json_pieces(empty()))) == []
    assert pq.read_table(io.BytesIO(b"".join(parquet_pieces(empty())))).schema.names == ROWS.schema.names
