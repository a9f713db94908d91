"""Bounds that a log's writer has cut hide no row: which files slices choose and what is refused, against all
rows, for logs as known writers leave them.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.engine.source.pinning import pin
from tests.engine.source.arrivals import SOURCE, commit, ms

# Moments at which the zone's offset has seconds, and what is left of them once a writer drops these.
SKEWED = {
    "America/Los_Angeles": datetime(1850, 1, 2, tzinfo=UTC),  # -07:52:58
    "Europe/Stockholm": datetime(1878, 5, 31, tzinfo=UTC),  # +00:53:28
    "Europe/Amsterdam": datetime(1936, 2, 1, tzinfo=UTC),  # +00:19:32
    "Africa/Monrovia": datetime(1972, 1, 6, 12, tzinfo=UTC),  # -00:44:30, the last of all, until the 7th
}
EXACT, MILLISECONDS, MINUTES = "exact", "milliseconds", "minutes of offset"
steps = st.tuples(st.integers(-5, 5), st.sampled_from([0, 1, 20, 59, 60]), st.sampled_from([0, 1, 999, 1500]))


def text_in_log(moment: datetime, zone: str, writer: str) -> str:
    """A moment in a log's statistics: by delta-rs, by Delta for Spark 3.1, by Delta for Spark 3.2 and 3.3."""
    if writer == EXACT:
        return moment.isoformat(timespec="microseconds")
    if writer == MILLISECONDS:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
    local = moment.astimezone(ZoneInfo(zone))
    offset = int((local.utcoffset() or timedelta()).total_seconds())
    sign, minutes = "-" if offset < 0 else "+", abs(offset) // 60
    text = local.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}"


def cut_statistics(uri: str, zone: str, writer: str) -> None:
    for entry in sorted((Path(uri) / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                stats = json.loads(line["add"]["stats"])
                for bounds in (stats["minValues"], stats["maxValues"]):
                    bounds["a"] = text_in_log(datetime.fromisoformat(bounds["a"]), zone, writer)
                line["add"]["stats"] = json.dumps(stats)
        entry.write_text("".join(json.dumps(line) + "\n" for line in lines))


@settings(max_examples=20)
@given(
    zone=st.sampled_from(sorted(SKEWED)),
    writer=st.sampled_from([EXACT, MILLISECONDS, MINUTES]),
    files=st.lists(st.lists(steps, min_size=1, max_size=3), min_size=2, max_size=4),
    cuts=st.lists(st.integers(-3, 3), min_size=2, max_size=2, unique=True),
)
def test_bounds_that_a_writer_has_cut_hide_no_row(
    zone: str, writer: str, files: list[list[tuple[int, int, int]]], cuts: list[int]
) -> None:
    start = SKEWED[zone]
    low, high = (start + timedelta(minutes=cut) for cut in sorted(cuts))
    moments_of_files = [
        [start + timedelta(minutes=m, seconds=s, microseconds=us) for m, s, us in steps_of_file]
        for steps_of_file in files
    ]
    with TemporaryDirectory() as uri:
        for number, moments in enumerate(moments_of_files):
            commit(uri, dict(enumerate(moments, 10 * number)))
        cut_statistics(uri, zone, writer)
        before, source = pin(SOURCE, uri, 0), pin(SOURCE, uri)
        moments_by_path = moments_in_files(source)
        files_of_slice = {file.path: file for file in source.files(ms(low), ms(high), "a", before)}
        for path, moments in moments_by_path.items():
            is_new = path not in moments_in_files(before)
            if any(low <= moment < high for moment in moments):
                assert path in files_of_slice, (zone, writer)
            if is_new and min(moments) < low:
                assert files_of_slice[path].may_hold_unread, (zone, writer)
            [bounds] = [bounds for file, bounds in source.files_with_bounds("a") if file.path == path]
            assert bounds is not None
            assert bounds[0] <= to_us(min(moments)) <= to_us(max(moments)) <= bounds[1], (zone, writer)
        DeltaTable(uri).delete()
        newest = pin(SOURCE, uri, may_be_empty=True)
        if min(moment for moments in moments_by_path.values() for moment in moments) < high:
            with pytest.raises(SourceRewritten):
                newest.check_kept(source, ms(high), "a")


def to_us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def moments_in_files(source: PinnedSource) -> dict[str, list[datetime]]:
    """Path → the arrivals in each file."""
    paths = source.actions.column("path").to_pylist()
    return {path: pa.parquet.read_table(Path(source.uri) / path).column("a").to_pylist() for path in paths}


@pytest.mark.parametrize("writer", [MILLISECONDS, MINUTES])
def test_rows_of_a_moment_are_counted_whatever_bounds_the_log_has(tmp_path: Path, writer: str) -> None:
    moment = SKEWED["Europe/Stockholm"] + timedelta(microseconds=700)
    commit(tmp_path, {1: moment, 2: moment})
    commit(tmp_path, {3: moment + timedelta(days=1)})
    cut_statistics(str(tmp_path), "Europe/Stockholm", writer)
    where = pc.field("a") == pa.scalar(moment, pa.timestamp("us", "UTC"))
    assert pin(SOURCE, str(tmp_path)).count_rows(where, ["a"]) == 2


def test_since_1972_no_bound_is_widened_by_more_than_a_millisecond(tmp_path: Path) -> None:
    noon = datetime(1972, 1, 9, 12, tzinfo=UTC)
    source = commit(tmp_path, {1: noon})
    slices = [
        (noon - timedelta(minutes=1), noon),
        (noon + timedelta(milliseconds=1), noon + timedelta(minutes=1)),
    ]
    assert [source.files(ms(low), ms(high), "a", None) for low, high in slices] == [[], []]
