"""A source that is appended to, compacted, vacuumed, changed, and of which the log is cut, between runs: a
run reads each row of its slice, and each row that came late, exactly once, and refuses what was changed of
rows that runs have read. Held by a model of rows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.rows.judge import Judge
from slackwater.engine.source.pinned_source import DeltaPlace, PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.row_changes import kept_row_by_row
from slackwater.engine.source.scan import SliceScan
from slackwater.pipelines import Pipeline
from tests.runs.world import DAILY, SCHEMA, Event, ms

DAY = 24.0
UNDATED_EVENT = 0.0
KINDS = (
    *("append", "append", "compact", "compact", "z_order"),
    *("delete", "update", "move", "overwrite", "vacuum", "lose_log"),
)


@dataclass
class Lineage:
    """A source, the rows that are in it, and those that runs have read.

    Attributes:
        configuration, partition_by: of the table.
        pipeline: reads the source; its arrival is the column `a`.
        rows: number → the row.
        read_rows: likewise, as runs have read them.
        end: up to which hour runs have read.
        is_vacuumed, has_lost_log, has_brief_rows: since the last run.
    """

    folder: Path
    configuration: dict[str, str | None]
    partition_by: list[str] | None
    pipeline: Pipeline = DAILY
    rows: dict[int, Event] = field(default_factory=dict)
    read_rows: dict[int, Event] = field(default_factory=dict)
    before: PinnedSource | None = None
    end: float = 0
    count: int = 0
    is_vacuumed: bool = False
    has_lost_log: bool = False
    has_brief_rows: bool = False

    @property
    def uri(self) -> str:
        return str(self.folder / "source")

    def pin(self) -> PinnedSource:
        return self.pin_at(None)

    def pin_at(self, version: int | None) -> PinnedSource:
        place = DeltaPlace(self.uri, str(self.folder / "record"))
        return pin(self.pipeline.sources[0], place, version)

    def stored(self, rows: list[Event]) -> pa.Table:
        """The rows as the source has them; it has the columns `row`, `k` and `x` as they are."""
        return pa.Table.from_pylist([row.values() for row in rows], schema=SCHEMA)

    def elements_of(self, number: int) -> list[Any]:
        """The names, as `name_of` gives them, of what becomes of a row of the source."""
        return [number]

    def name_of(self, element: Mapping[str, Any]) -> Any:
        return element["row"]

    def write(self, rows: list[Event], mode: str, predicate: str | None = None) -> None:
        write_deltalake(
            self.uri,
            self.stored(rows),
            mode=mode,  # type: ignore[arg-type]
            predicate=predicate,
            partition_by=self.partition_by,
            configuration=self.configuration,
        )

    # --- what happens to the source

    def append(self, arrivals: list[float | None], key: str) -> None:
        rows = []
        for arrival in arrivals:
            self.count += 1
            rows.append(Event(UNDATED_EVENT if arrival is None else arrival, arrival, self.count, key))
        self.rows |= {row.row: row for row in rows}
        self.write(rows, "append")

    def compact(self) -> None:
        DeltaTable(self.uri).optimize.compact()

    def z_order(self) -> None:
        DeltaTable(self.uri).optimize.z_order(["row"])

    def note_brief_row(self, number: int) -> None:
        """A row that came with an early arrival after the last run is about to change: a comparison of
        commits can't tell that no run has read it.
        """
        row = self.rows.get(number)
        self.has_brief_rows |= row is not None and number not in self.read_rows and self.is_before(row)

    def delete(self, number: int) -> None:
        self.note_brief_row(number)
        self.rows.pop(number, None)
        DeltaTable(self.uri).delete(f"row = {number}")

    def update(self, number: int) -> None:
        self.note_brief_row(number)
        if (row := self.rows.get(number)) is not None:
            self.rows[number] = Event(row.event, row.arrival, number, row.key, row.x + 1)
        DeltaTable(self.uri).update(predicate=f"row = {number}", updates={"x": "x + 1"})

    def move(self, number: int) -> None:
        """The row gets an arrival ten hours later."""
        self.note_brief_row(number)
        if (row := self.rows.get(number)) is not None and row.arrival is not None:
            self.rows[number] = replace(row, arrival=row.arrival + 10)
            self.write([self.rows[number]], "overwrite", f"row = {number}")

    def overwrite(self, key: str) -> None:
        """Write the rows of a key again, as they are."""
        rows = [row for row in self.rows.values() if row.key == key]
        if rows:
            self.write(rows, "overwrite", f"k = '{key}'")

    def vacuum(self) -> None:
        DeltaTable(self.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)
        self.is_vacuumed = True

    def lose_log(self) -> None:
        table = DeltaTable(self.uri)
        table.create_checkpoint()
        for path in (Path(self.uri) / "_delta_log").glob("*.json"):
            if int(path.stem) < table.version():
                path.unlink()
        self.has_lost_log = True

    # --- what a run does

    def run(self, to: float) -> None:
        """A run of the slice up to the hour `to`; a refusal is followed by a restatement of everything."""
        now = self.pin()
        lost_rows = {number for number, row in self.read_rows.items() if self.rows.get(number) != row}
        try:
            if self.before is not None:
                now = kept_row_by_row(now, self.before, ms(self.end), "a")
        except SourceRewritten as error:
            # Of commits that the log has lost, rows that were only added count as changed, too.
            is_vague = self.is_vacuumed or self.has_lost_log or self.has_brief_rows
            assert lost_rows or is_vague, f"nothing that was read has changed: {error}"
            least_ms, greatest_ms = error.facts["least_ms"], error.facts["greatest_ms"]
            if (
                lost_rows
                and not self.is_vacuumed
                and isinstance(least_ms, int)
                and isinstance(greatest_ms, int)
            ):
                arrivals = [self.read_rows[number].arrival or 0.0 for number in lost_rows]
                new_rows = [self.rows[number] for number in lost_rows if number in self.rows]
                arrivals += [row.arrival or 0.0 for row in new_rows if self.is_before(row)]
                assert least_ms <= ms(min(arrivals)) and ms(max(arrivals)) <= greatest_ms
                if not is_vague:
                    assert [least_ms, greatest_ms] == [ms(min(arrivals)), ms(max(arrivals))]
            self.before, self.end, self.read_rows = None, 0, {}
        else:
            if now.notes:
                assert self.has_lost_log and self.is_vacuumed
                self.read_rows = {number: row for number, row in self.rows.items() if self.is_before(row)}
            else:
                assert not lost_rows, "a change of rows that were read went unnoticed"
        assert sorted(self.read(now, to)) == sorted(
            name
            for number, row in self.rows.items()
            if number not in self.read_rows and (row.arrival is None or row.arrival < to)
            for name in self.elements_of(number)
        )
        now.record_files("a")
        self.read_rows = {
            number: row for number, row in self.rows.items() if row.arrival is None or row.arrival < to
        }
        self.before, self.end = now, to
        self.is_vacuumed = self.has_lost_log = self.has_brief_rows = False

    def is_before(self, row: Event) -> bool:
        return row.arrival is None or row.arrival < self.end

    def read(self, now: PinnedSource, to: float) -> list[Any]:
        """The names of the rows that a run takes, those without an arrival included."""
        before = None if self.before is None else self.pin_at(self.before.version)
        files = now.files(ms(self.end), ms(to), "a", before)
        scan = SliceScan(
            now, tuple(files), tuple(now.schema.names), "a", ms(self.end), ms(to), ms(0), before=before
        )
        assert scan.why_not_direct() is None
        judge, rows = Judge.of(self.pipeline, scan), []
        for batch in scan.read(files):
            judged_batch = judge.judge_batch(batch)
            rows += judged_batch.elements.to_pylist()
            rows += map(json.loads, judged_batch.quarantine_rows.column("row_json").to_pylist())
        return [self.name_of(row) for row in rows]


TABLES = st.tuples(
    st.sampled_from([{}, {"delta.dataSkippingStatsColumns": "row"}]), st.sampled_from([None, ["k"]])
)


def check_lineage(lineage: Lineage, data: st.DataObject) -> None:
    keys = st.sampled_from("ab")
    lineage.append([1.0, 20.0, 30.0], "a")
    for day in range(1, data.draw(st.integers(2, 4))):
        for _ in range(data.draw(st.integers(0, 4))):
            kind = data.draw(st.sampled_from(KINDS))
            if kind == "append":
                arrivals = st.integers(0, int(DAY) * 5).map(float)
                lineage.append(
                    data.draw(st.lists(st.none() | arrivals, min_size=1, max_size=3)), data.draw(keys)
                )
            elif kind in ("delete", "update", "move"):
                getattr(lineage, kind)(data.draw(st.integers(1, lineage.count)))
            elif kind == "overwrite":
                lineage.overwrite(data.draw(keys))
            else:
                getattr(lineage, kind)()
        if not lineage.rows:
            return  # an empty source is refused
        lineage.run(day * DAY)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TABLES, st.data())
def test_runs_read_each_row_once_and_name_each_change_whatever_upkeep_does(
    table: tuple[dict[str, str | None], list[str] | None], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        check_lineage(Lineage(Path(folder), *table), data)
