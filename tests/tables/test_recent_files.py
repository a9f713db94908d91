"""Files that are kept so that they are not asked for again."""

import pyarrow as pa
import pytest

from slackwater.tables.recent_files import LARGEST_BYTES, RecentFiles

SEALED = "w/p/panes/driver-1-seal0123456789abcdef.parquet"


def test_a_file_with_a_name_of_its_own_is_kept_until_it_is_deleted() -> None:
    files = RecentFiles()
    files.keep((1, SEALED), pa.py_buffer(b"rows"))
    content = files.get((1, SEALED))
    assert content is not None and content.to_pybytes() == b"rows"
    assert files.get((2, SEALED)) is None, "another client, another store"
    files.forget((1, SEALED))
    assert files.get((1, SEALED)) is None


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("part-ad3fbbdafd394eb3a6e777264c4f4000.parquet", True),
        ("part-ad3fbbdafd394eb3a6e777264c4f4000-3-12.parquet", True),
        ("part-00000-0f1e2d3c-aaaa-bbbb-cccc-0123456789ab-c000.snappy.parquet", True),
        ("day=1/orders.parquet", False),
        ("_delta_log/00000000000000000009.checkpoint.parquet", False),
        ("_delta_log/00000000000000000009.json", False),
    ],
)
def test_a_name_that_may_come_again_is_not_kept(name: str, is_kept: bool) -> None:
    files = RecentFiles()
    files.keep((1, name), pa.py_buffer(b"rows"))
    assert (files.get((1, name)) is not None) == is_kept


def test_what_was_used_least_lately_makes_room() -> None:
    files, names = RecentFiles(), [f"{number:032x}.parquet" for number in range(40)]
    for name in names:
        files.keep((1, name), pa.py_buffer(bytes(LARGEST_BYTES)))
        assert files.get((1, names[0])) is not None
    names_left = [name for name in names if files.get((1, name)) is not None]
    assert names_left == [names[0], *names[-31:]]
    files.keep((1, f"{41:032x}.parquet"), pa.py_buffer(bytes(LARGEST_BYTES + 1)))
    assert files.get((1, f"{41:032x}.parquet")) is None
