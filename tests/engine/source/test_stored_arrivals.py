"""Sources whose log has no statistics of the arrival column: files are chosen by their own footers, which are
read once, or by the day of their partition.
"""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from slackwater.engine.source import stored_arrivals
from slackwater.engine.source.pinned_source import DeltaPlace, PinnedSource
from slackwater.engine.source.pinning import pin
from tests.engine.source.arrivals import SOURCE, after, ms, table_of

NO_STATISTICS: dict[str, str | None] = {"delta.dataSkippingStatsColumns": "row"}


@pytest.fixture
def opened_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which footers are read."""
    paths: list[str] = []
    real = stored_arrivals.open_verified

    def noting(uri, files, path, *args, **options):  # type: ignore[no-untyped-def]
        paths.append(path)
        return real(uri, files, path, *args, **options)

    monkeypatch.setattr(stored_arrivals, "open_verified", noting)
    return paths


def write(uri: Path, day: int, partition_by: list[str] | None = None) -> None:
    rows = table_of({day: after(24 * day + 3), 100 + day: after(24 * day + 20)})
    write_deltalake(str(uri), rows, mode="append", partition_by=partition_by, configuration=NO_STATISTICS)


def chosen(source: PinnedSource, day: int, before: PinnedSource | None = None) -> int:
    """How many files a run of one day reads."""
    return len(source.files(ms(after(24 * day)), ms(after(24 * day + 24)), "a", before))


def test_footers_are_read_once_and_runs_that_come_later_read_the_record(
    tmp_path: Path, opened_paths: list[str]
) -> None:
    place = DeltaPlace(str(tmp_path / "t"), str(tmp_path / "record"))
    for day in range(20):
        write(tmp_path / "t", day)
    first = pin(SOURCE, place)
    assert chosen(first, 3) == 1
    first.record_files("a")
    assert len(opened_paths) == 20
    write(tmp_path / "t", 20)
    second = pin(SOURCE, place)
    assert [chosen(second, day, first) for day in (19, 20)] == [1, 1]
    second.record_files("a")
    assert len(opened_paths) == 21
    record = pin(SOURCE, place).record
    assert record is not None
    assert record.bounds_of(opened_paths[20], "a") == (ms(after(483)) * 1000, ms(after(500)) * 1000, True)


def test_a_column_that_has_no_statistics_in_the_file_either_is_read_once(
    tmp_path: Path, opened_paths: list[str]
) -> None:
    import pyarrow.parquet as pq

    write(tmp_path, 1)
    source = pin(SOURCE, str(tmp_path))
    path = source.actions.column("path")[0].as_py()
    rows = pq.read_table(tmp_path / path)
    pq.write_table(rows, tmp_path / path, write_statistics=False)
    assert [chosen(source, day) for day in (0, 1, 2)] == [0, 1, 0]
    assert opened_paths == [path]


@pytest.mark.parametrize("arrival", ["a", "computed"])
def test_files_that_spark_alone_can_read_are_not_opened_and_may_hold_any_rows(
    tmp_path: Path, opened_paths: list[str], arrival: str
) -> None:
    place = DeltaPlace(str(tmp_path / "t"), str(tmp_path / "record"))
    for day in range(3):
        write(tmp_path / "t", day)
    source = replace(
        pin(replace(SOURCE, derive={"computed": "a + INTERVAL 1 HOUR"}), place), why_not_direct="a reason"
    )
    for path in (tmp_path / "t").glob("*.parquet"):
        path.write_bytes(b"")  # whoever opens it fails
    source.record_files(arrival)
    files = source.files(ms(after(24 * 9)), ms(after(24 * 10)), arrival, None)
    assert [file.may_hold_unread for file in files] == [True] * 3
    assert not opened_paths


@pytest.mark.parametrize("expression", ["CAST(a AS DATE)", "to_date(`a`)", "DATE(a)"])
def test_files_of_days_that_delta_computes_from_the_arrival_are_chosen_by_the_log_alone(
    tmp_path: Path, opened_paths: list[str], expression: str
) -> None:
    for day in range(10):
        write(tmp_path, day, ["day"])
    write_deltalake(str(tmp_path), table_of({200: None}), mode="append")
    declare(tmp_path, expression)
    source = pin(SOURCE, str(tmp_path))
    # The writer may have been in another time zone, so that the days around count, too.
    assert chosen(source, 5) == 1 + 2 + 1, "and the file without an arrival, new to the first run"
    assert not opened_paths


def test_a_day_that_delta_does_not_compute_is_not_believed(tmp_path: Path, opened_paths: list[str]) -> None:
    for day in range(3):
        write(tmp_path, day, ["day"])
    declare(tmp_path, "CAST(e AS DATE)")
    assert chosen(pin(SOURCE, str(tmp_path)), 1) == 1
    assert len(opened_paths) == 3


def declare(uri: Path, expression: str) -> None:
    """Say in the log that the column `day` is computed."""
    log = uri / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            for column in schema["fields"]:
                if column["name"] == "day":
                    column["metadata"] = {"delta.generationExpression": expression}
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_arrivals_around_midnight_in_any_zone_are_found(tmp_path: Path) -> None:
    rows = table_of({1: after(23.5), 2: after(24.5)})
    for shift in (-14, 0, 12):
        uri = tmp_path / str(shift)
        days = pa.array([(after(hours) + timedelta(hours=shift)).date() for hours in (23.5, 24.5)])
        write_deltalake(
            str(uri),
            rows.set_column(2, "day", days),
            partition_by=["day"],
            configuration=NO_STATISTICS,
        )
        declare(uri, "CAST(a AS DATE)")
        source = pin(SOURCE, str(uri))
        files = {
            file.path
            for day in (0, 1)
            for file in source.files(ms(after(24 * day)), ms(after(24 * day + 24)), "a", None)
        }
        assert len(files) == source.actions.num_rows
