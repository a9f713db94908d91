"""A renamed kind of panes does not show in hashes: those that earlier versions recorded stay."""

import pyarrow as pa
import pytest

from slackwater.tables.run_files.staging import as_hashed
from slackwater.windowing.snapshot import ContentHash


def panes(*kinds: str, dictionary: bool = False) -> pa.Table:
    column = pa.array(kinds, pa.string())
    kind = column.dictionary_encode() if dictionary else column
    return pa.table({"n": list(range(len(kinds))), "kind": kind})


def hash_of(table: str, rows: pa.Table) -> str:
    total = ContentHash()
    total.add(table, as_hashed(table, rows), without=())
    return str(total)


@pytest.mark.parametrize("dictionary", [False, True])
def test_emitted_rows_have_the_hash_of_their_former_kind(dictionary: bool) -> None:
    of_now = panes("emitted", "on_time", "emitted", dictionary=dictionary)
    former = ContentHash()
    former.add("panes", panes("count", "on_time", "count"), without=())
    assert hash_of("panes", of_now) == str(former)
    assert hash_of("panes", panes("on_time", "on_time", "emitted")) != str(former)


def test_rows_of_other_tables_and_kinds_are_hashed_as_they_are() -> None:
    for table, rows in (("late_events", panes("emitted")), ("panes", panes("late", "count"))):
        assert as_hashed(table, rows).equals(rows)
