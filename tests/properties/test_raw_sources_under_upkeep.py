"""A source whose times and keys are derived, and whose lists are exploded, is appended to, compacted,
vacuumed and changed between runs: as for stored columns each row is read once, and no change goes unnoticed.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.raw_columns import TEXTS, TIMES, ZONE, Shape
from tests.properties.search import searched
from tests.properties.test_sources_under_upkeep import TABLES, Lineage, check_lineage
from tests.runs.world import DAILY, Event, ms


@dataclass
class RawLineage(Lineage):
    """The event time, the arrival, the key and the source partition are held in `shapes`, the arrival by way
    of another derived column; with `explodes` each row has none, one or two items, of which the event time is
    one's own.
    """

    shapes: tuple[Shape, Shape, Shape, Shape] = (TIMES[0], TIMES[0], TEXTS[0], TEXTS[0])
    explodes: bool = False

    def __post_init__(self) -> None:
        event, arrival, key, partition = self.shapes
        derive = {
            "e": event.expression.replace("{c}", "item.raw" if self.explodes else "raw_e"),
            "seen": arrival.expression.replace("{c}", "raw_a"),
            "a": "seen",
            "who": key.expression.replace("{c}", "raw_k"),
            "part": partition.expression.replace("{c}", "raw_k_of_part"),
        }
        source = replace(
            DAILY.sources[0],
            derive=derive,
            zone=ZONE if event.is_local or arrival.is_local else None,
            explode="items" if self.explodes else None,
            source_partition="part",
        )
        self.pipeline = replace(DAILY, source=source, key_by="who")

    def stored(self, rows: list[Event]) -> pa.Table:
        event, arrival, key, partition = self.shapes
        events = [event.encode(ms(row.event)) for row in rows]
        # Without an arrival there is none, one that can't be read, or one in which no slice lies.
        beyond = arrival.encode(300_000_000_000_000) if arrival.kind != pa.string() else None
        arrivals = [
            (None, arrival.broken, beyond)[row.row % 3]
            if row.arrival is None
            else arrival.encode(ms(row.arrival))
            for row in rows
        ]
        items = [[{"raw": value}] * (row.row % 3) for row, value in zip(rows, events, strict=True)]
        return pa.table(
            {
                "row": pa.array([row.row for row in rows], pa.int64()),
                "k": pa.array([row.key for row in rows]),
                "x": pa.array([row.x for row in rows], pa.int64()),
                "raw_a": pa.array(arrivals, arrival.kind),
                "raw_k": pa.array([key.encode(row.key) for row in rows], key.kind),
                "raw_k_of_part": pa.array([partition.encode(row.key) for row in rows], partition.kind),
                **(
                    {"items": pa.array(items, pa.list_(pa.struct([("raw", event.kind)])))}
                    if self.explodes
                    else {"raw_e": pa.array(events, event.kind)}
                ),
            }
        )

    def elements_of(self, number: int) -> list[Any]:
        return [(number, item) for item in range(1, number % 3 + 1)] if self.explodes else [number]

    def name_of(self, element: Any) -> Any:
        return (element["row"], element["item_number"]) if self.explodes else element["row"]


@pytest.mark.first_fast
@pytest.mark.parametrize("explodes", [False, True], ids=["rows", "items"])
@given(
    TABLES,
    st.tuples(*[st.sampled_from(TIMES)] * 2, *[st.sampled_from(TEXTS)] * 2),
    st.data(),
)
@searched(3, long=60)
def test_runs_read_each_raw_row_once_and_name_each_change_whatever_upkeep_does(
    explodes: bool,
    table: tuple[dict[str, str | None], list[str] | None],
    shapes: tuple[Shape, Shape, Shape, Shape],
    data: st.DataObject,
) -> None:
    with TemporaryDirectory() as folder:
        check_lineage(RawLineage(Path(folder), *table, shapes=shapes, explodes=explodes), data)
