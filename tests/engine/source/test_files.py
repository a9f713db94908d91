"""Which files of a source a slice reads: pruning loses no row, rows without an arrival are told once, and a
wrong source says why.
"""

import json
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.coverage import ReadRange
from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import pin
from slackwater.windowing.times import to_datetime, to_ms
from tests.engine.source.arrivals import (
    MICROSECOND,
    SCHEMA,
    SOURCE,
    START,
    TIME,
    after,
    commit,
    ms,
    rows_read,
    table_of,
)


def test_milliseconds_are_floored_and_come_back() -> None:
    assert [to_ms(START + n * MICROSECOND) - to_ms(START) for n in (-1, 0, 999, 1000)] == [-1, 0, 0, 1]
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_datetime(to_ms(after(5))) == after(5)


# Statistics may be missing, cut to milliseconds (as Spark writes them), or exact; a file may lie in a
# partition or hold several days.
moments = st.none() | st.integers(-3_000, 3_000).map(
    lambda n: START + timedelta(hours=n / 60, microseconds=n % 7)
)


@st.composite
def commits(draw: st.DrawFn) -> list[list[datetime | None]]:
    return draw(st.lists(st.lists(moments, min_size=1, max_size=5), min_size=1, max_size=4))


def forget_statistics(uri: str, how: str) -> None:
    """Rewrite the log as another writer might have written it."""
    for entry in sorted((Path(uri) / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            if "add" in line and how == "none":
                line["add"].pop("stats", None)
            elif "add" in line and how == "milliseconds":
                stats = json.loads(line["add"]["stats"])
                for bounds in (stats["minValues"], stats["maxValues"]):
                    if "a" in bounds:
                        moment = datetime.fromisoformat(bounds["a"])
                        bounds["a"] = (
                            moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
                        )
                line["add"]["stats"] = json.dumps(stats)
        entry.write_text("".join(json.dumps(line) + "\n" for line in lines))


@settings(max_examples=40)
@given(
    commits(),
    st.sampled_from([None, ["day"], ["a"]]),
    st.sampled_from(["exact", "milliseconds", "none"]),
    st.lists(st.integers(-3_000, 3_000), min_size=2, max_size=4, unique=True),
)
def test_slices_together_read_every_row_of_theirs_once(
    written: list[list[datetime | None]], partition_by: list[str] | None, statistics: str, cuts: list[int]
) -> None:
    with TemporaryDirectory() as uri:
        arrivals: dict[int, datetime | None] = {}
        for number, part in enumerate(written):
            rows = {number * 10 + position: moment for position, moment in enumerate(part)}
            arrivals |= rows
            write_deltalake(uri, table_of(rows), mode="append", partition_by=partition_by)
        if statistics != "exact":
            forget_statistics(uri, statistics)
        source = pin(SOURCE, uri)
        bounds = [START + timedelta(hours=cut / 60) for cut in sorted(cuts)]
        before = None
        for low, high in pairwise(bounds):
            inside, without = rows_read(source, low, high, before)
            assert inside == sorted(
                row
                for row, moment in arrivals.items()
                if moment is not None and low <= to_datetime(ms(moment)) < high
            )
            assert without == (
                sorted(row for row, moment in arrivals.items() if moment is None) if before is None else []
            )
            before = source


class TestPruning:
    def test_files_outside_the_slice_are_not_read(self, tmp_path: Path) -> None:
        for day in range(3):
            source = commit(tmp_path, {day: after(24 * day), 10 + day: after(24 * day + 23)})
        assert [rows_read(source, after(24 * day), after(24 * day + 24))[0] for day in range(3)] == [
            [0, 10],
            [1, 11],
            [2, 12],
        ]
        assert [
            len(source.files(ms(after(low)), ms(after(high)), "a", None))
            for low, high in ((0, 24), (12, 36), (23.5, 24), (24, 48))
        ] == [1, 2, 0, 1]

    def test_a_table_partitioned_by_the_arrival_itself_is_pruned_by_it(self, tmp_path: Path) -> None:
        source = commit(tmp_path, {1: after(1), 2: after(2), 3: None}, partition_by=["a"])
        chosen = source.files(ms(after(1)), ms(after(2)), "a", source)
        assert [
            read_columns(source.uri, file, source.schema, ("row", "a")).to_pylist() for file in chosen
        ] == [[{"row": 1, "a": after(1)}]]

    def test_a_greatest_arrival_that_the_log_cuts_to_milliseconds_loses_no_row(self, tmp_path: Path) -> None:
        late = after(1) + 1500 * MICROSECOND
        commit(tmp_path, {1: after(0), 2: late})
        forget_statistics(str(tmp_path), "milliseconds")
        source = pin(SOURCE, str(tmp_path))
        assert rows_read(source, after(1) + 1000 * MICROSECOND, after(2))[0] == [2]
        assert source.files(ms(after(1)) + 2, ms(after(2)), "a", None) == []

    @pytest.mark.parametrize(
        "far", [datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
    )
    def test_arrivals_at_the_ends_of_the_calendar_are_no_trouble(self, tmp_path: Path, far: datetime) -> None:
        source = commit(tmp_path, {1: far, 2: after(1)})
        assert rows_read(source, after(0), after(24))[0] == [2]

    def test_times_without_a_zone_are_utc(self, tmp_path: Path) -> None:
        rows = table_of({1: after(1), 2: after(30)})
        naive = rows.set_column(0, "a", rows.column("a").cast(pa.timestamp("us")))
        for start in (0, 1):
            write_deltalake(str(tmp_path), naive.slice(start, 1), mode="append")
        source = pin(SOURCE, str(tmp_path))
        assert [len(source.files(ms(after(low)), ms(after(low + 24)), "a", None)) for low in (0, 24, 48)] == [
            1,
            1,
            0,
        ]

    def test_files_come_in_the_order_of_their_paths(self, tmp_path: Path) -> None:
        for row in range(4):
            source = commit(tmp_path, {row: after(row)})
        paths = [file.path for file in source.files(ms(after(0)), ms(after(9)), "a", None)]
        assert len(paths) == 4 and paths == sorted(paths)
        assert all(
            (file.rows, file.bytes) == (1, (tmp_path / file.path).stat().st_size)
            for file in source.files(0, 2**50, "a", None)
        )


class TestRowsWithoutAnArrival:
    def test_they_are_told_in_the_first_version_that_has_them_and_no_later_one(self, tmp_path: Path) -> None:
        first = commit(tmp_path, {1: after(1), 2: None})
        second = commit(tmp_path, {3: after(25), 4: None, 5: None})
        third = commit(tmp_path, {6: after(49)})
        assert rows_read(first, after(0), after(24)) == ([1], [2])
        assert rows_read(second, after(24), after(48), before=first) == ([3], [4, 5])
        assert rows_read(third, after(48), after(72), before=second) == ([6], [])
        assert rows_read(third, after(0), after(72)) == ([1, 3, 6], [2, 4, 5])

    def test_a_file_of_nothing_else_is_read_for_them_alone(self, tmp_path: Path) -> None:
        first = commit(tmp_path, {1: after(1)})
        second = commit(tmp_path, {2: None})
        assert rows_read(second, after(900), after(901), before=first) == ([], [2])
        assert second.files(ms(after(900)), ms(after(901)), "a", second) == []

    def test_compaction_brings_no_new_rows(self, tmp_path: Path) -> None:
        commit(tmp_path, {1: after(1), 2: None})
        before = commit(tmp_path, {3: after(2)})
        DeltaTable(str(tmp_path)).optimize.compact()
        later = commit(tmp_path, {4: after(30), 5: None})
        later.check_kept(before, ms(after(24)), "a")
        assert rows_read(later, after(24), after(48), before=before) == ([4], [5])


class TestRowsThatComeAfterTheirSlice:
    def unread(self, source: PinnedSource, low: datetime, high: datetime, before: PinnedSource) -> list[int]:
        """Row numbers in files that may hold unread rows."""
        files = [file for file in source.files(ms(low), ms(high), "a", before) if file.may_hold_unread]
        return sorted(
            row
            for file in files
            for row in read_columns(source.uri, file, source.schema, ("row",)).column("row").to_pylist()
        )

    def test_their_files_are_read_by_the_next_run_and_no_later_one(self, tmp_path: Path) -> None:
        first = commit(tmp_path, {1: after(1)})
        second = commit(tmp_path, {2: after(2), 3: after(30)})
        third = commit(tmp_path, {4: after(50)})
        assert self.unread(second, after(24), after(48), first) == [2, 3]
        assert self.unread(third, after(48), after(72), second) == []

    def test_a_file_of_the_slice_itself_or_of_later_ones_is_none_of_them(self, tmp_path: Path) -> None:
        first = commit(tmp_path, {1: after(1)})
        second = commit(tmp_path, {2: after(30), 3: after(90)})
        assert self.unread(second, after(24), after(48), first) == []

    def test_where_the_log_is_gone_new_files_are_told_by_the_lists_of_both_versions(
        self, tmp_path: Path
    ) -> None:
        first = commit(tmp_path, {1: after(1)})
        second = commit(tmp_path, {2: after(2)})
        DeltaTable(str(tmp_path)).create_checkpoint()
        (tmp_path / "_delta_log" / f"{second.version:020d}.json").unlink()
        second = pin(SOURCE, str(tmp_path))
        assert second.is_certain_since(first)
        assert self.unread(second, after(24), after(48), first) == [2]

    def test_rows_that_runs_have_read_may_not_be_removed(self, tmp_path: Path) -> None:
        before = commit(tmp_path, {1: after(1)})
        commit(tmp_path, {2: after(2)})
        DeltaTable(str(tmp_path)).delete("row = 1")
        later = pin(SOURCE, str(tmp_path))
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T01:00:00Z on") as error:
            later.check_kept(before, ms(after(24)), "a")
        assert error.value.least_ms == ms(after(1))  # type: ignore[attr-defined]
        later.check_kept(before, ms(after(0)), "a")  # no run has read that far

    def test_what_a_restatement_has_read_of_a_new_file_is_not_read_again(self, tmp_path: Path) -> None:
        before = commit(tmp_path, {1: after(1)})
        reread_source = commit(tmp_path, {2: after(2), 3: None})
        later = commit(tmp_path, {4: after(3), 5: None})
        newer_reads = [ReadRange(ms(after(0)), ms(after(24)), reread_source.version)]
        files = later.files(ms(after(48)), ms(after(72)), "a", before, newer_reads=newer_reads)
        assert [
            (read_columns(later.uri, file, later.schema, ("row",)).column("row").to_pylist(), file.read_to_ms)
            for file in files
        ] == [([4, 5], None)]
        wider = commit(tmp_path, {6: after(5), 7: after(30), 8: None})
        newer_reads = [ReadRange(ms(after(0)), ms(after(24)), wider.version)]
        [file] = wider.files(ms(after(48)), ms(after(72)), "a", before, newer_reads=newer_reads)
        assert (file.may_hold_unread, file.read_to_ms) == (True, ms(after(24))), "row 7 alone is left"

    def test_a_removed_file_that_was_restated_since_is_no_loss(self, tmp_path: Path) -> None:
        before = commit(tmp_path, {1: after(1)})
        commit(tmp_path, {2: after(30)})
        DeltaTable(str(tmp_path)).delete("row = 1")
        later = pin(SOURCE, str(tmp_path))
        later.check_kept(before, ms(after(48)), "a", [ReadRange(ms(after(0)), ms(after(24)), later.version)])
        with pytest.raises(SourceRewritten):
            later.check_kept(
                before, ms(after(48)), "a", [ReadRange(ms(after(24)), ms(after(48)), later.version)]
            )

    def test_what_only_a_restatement_has_read_may_not_be_removed_either(self, tmp_path: Path) -> None:
        before = commit(tmp_path, {1: after(1)})
        reread_source = commit(tmp_path, {2: after(2)})
        DeltaTable(str(tmp_path)).delete("row = 2")
        later = pin(SOURCE, str(tmp_path))
        later.check_kept(before, ms(after(48)), "a")
        with pytest.raises(SourceRewritten, match="arrivals from 2013-01-01T02:00:00Z on"):
            later.check_kept(
                before, ms(after(48)), "a", [ReadRange(ms(after(0)), ms(after(24)), reread_source.version)]
            )


class TestReadingAFile:
    def read_all(self, source: PinnedSource, *columns: str) -> list[dict[str, Any]]:
        return [
            row
            for file in source.files(0, 2**50, "a", None)
            for row in read_columns(source.uri, file, source.schema, columns).to_pylist()
        ]

    def test_columns_come_in_the_order_asked_partition_columns_filled_in(self, tmp_path: Path) -> None:
        source = commit(tmp_path, {1: after(1), 2: after(30)}, partition_by=["day"])
        assert self.read_all(source, "day", "row") == [
            {"day": date(2013, 1, 1), "row": 1},
            {"day": date(2013, 1, 2), "row": 2},
        ]
        [file, _] = source.files(0, 2**50, "a", None)
        assert read_columns(source.uri, file, source.schema, ("row", "day")).schema.equals(
            pa.schema([("row", pa.int64()), ("day", pa.date32())])
        )

    def test_of_partition_columns_alone_there_are_as_many_rows_as_the_file_has(self, tmp_path: Path) -> None:
        source = commit(tmp_path, {1: after(1), 2: after(2)}, partition_by=["day"])
        assert self.read_all(source, "day") == [{"day": date(2013, 1, 1)}] * 2

    @pytest.mark.parametrize("value", ["plain", "two words", "a/b", "50%", "a=b", "é", "x:y", None])
    def test_partition_values_that_make_odd_folder_names_are_found(
        self, tmp_path: Path, value: str | None
    ) -> None:
        rows = pa.table({"a": pa.array([after(1)], TIME), "p": pa.array([value], pa.string())})
        write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
        assert self.read_all(pin(SOURCE, str(tmp_path / "t")), "p", "a") == [{"p": value, "a": after(1)}]

    def test_a_column_that_was_added_after_the_file_is_null_in_it(self, tmp_path: Path) -> None:
        commit(tmp_path, {1: after(1)})
        wider = table_of({2: after(2)}).append_column("gate", pa.array(["B4"]))
        write_deltalake(str(tmp_path), wider, mode="append", schema_mode="merge")
        rows = self.read_all(pin(SOURCE, str(tmp_path)), "row", "gate")
        assert sorted(rows, key=lambda row: row["row"]) == [
            {"row": 1, "gate": None},
            {"row": 2, "gate": "B4"},
        ]

    def test_times_that_spark_wrote_as_int96_are_read_over_the_whole_calendar(self, tmp_path: Path) -> None:
        arrivals = {1: datetime(1, 1, 1, tzinfo=UTC), 2: after(1), 3: datetime(9999, 12, 31, tzinfo=UTC)}
        source = commit(tmp_path, dict(arrivals))
        [file] = source.files(0, 2**50, "a", None)
        with pq.ParquetWriter(tmp_path / file.path, SCHEMA, use_deprecated_int96_timestamps=True) as writer:
            writer.write_table(table_of(dict(arrivals)))
        assert {row["row"]: row["a"] for row in self.read_all(source, "row", "a")} == arrivals
