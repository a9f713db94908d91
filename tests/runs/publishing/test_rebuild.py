"""Doubled rows are noticed, never carried on, and removed by a rebuild, which also corrects `published` by
the panes of the live runs.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.publishing.corrections import Identity
from slackwater.runs.publishing.rebuild import NotACopy, Rebuild, Rebuilt
from slackwater.runs.publishing.roll_forward import APPLICATION, RollForward
from slackwater.runs.publishing.uniqueness import UNIQUE_TABLES, DoubledRows
from slackwater.tables.delta.upkeep import TableUpkeep
from tests.runs.doubling import double
from tests.runs.lineages import HOUR, histories
from tests.runs.rolling import commit_run, pane, roll_forward, write
from tests.tables.ledger.ledger_rows import clock, day


def rebuild(rolling: RollForward) -> Rebuilt:
    return Rebuild("p", rolling.tables, rolling, clock).run()


def facts(rolling: RollForward) -> dict[str, list[str]]:
    """The rows of the three tables, in any order; without the versions of tables, which upkeep moves."""
    rows = {name: rolling.tables[name].read().to_pylist() for name in UNIQUE_TABLES}
    return {
        name: sorted(str({**row, "table_versions": None}) for row in rows[name]) for name in UNIQUE_TABLES
    }


@pytest.fixture
def rolling(tmp_path: Path) -> RollForward:
    """Four runs, rolled forward one by one."""
    rolling = roll_forward(tmp_path)
    rolling.tables.ensure()
    for number in range(4):
        commit_day(rolling, number)
        rolling.finish()
    return rolling


def commit_day(rolling: RollForward, number: int) -> None:
    """A run of one day, which also changes a window of the day before and brings another one there: days have
    several files.
    """
    before = day(number - 1)
    late = (
        [pane(2, "late", n=10 + number, start=before), pane(1, "late", key="b", n=number, start=before)]
        if number
        else []
    )
    commit_run(
        rolling.tables,
        [pane(1, n=number, start=day(number)), pane(1, n=number, start=day(number) + HOUR), *late],
    )


def go_on(rolling: RollForward) -> None:
    """A run more, which changes the first window of the second day."""
    commit_run(rolling.tables, [pane(1, n=4, start=day(4)), pane(3, "late", n=99, start=day(1))])
    rolling.finish()


@pytest.mark.parametrize("table", UNIQUE_TABLES)
class TestADoubledTable:
    @pytest.mark.slow
    def test_is_refused_before_anything_is_rolled_forward(self, rolling: RollForward, table: str) -> None:
        surplus = double(rolling.tables[table])
        assert surplus > 0
        with pytest.raises(DoubledRows, match=r"slackwater publish .* --rebuild") as refused:
            rolling.finish()
        assert refused.value.surplus == {table: surplus} == rolling.uniqueness.surplus()  # type: ignore[attr-defined]
        before = DeltaTable(rolling.tables["published"].uri).version()
        with pytest.raises(DoubledRows):
            go_on(rolling)
        assert DeltaTable(rolling.tables["published"].uri).version() == before

    @pytest.mark.slow
    def test_is_found_by_reading_it_where_its_copies_have_become_one_file(
        self, rolling: RollForward, table: str
    ) -> None:
        surplus = double(rolling.tables[table])
        TableUpkeep(rolling.tables[table]).compact()
        assert rolling.uniqueness.surplus() == {table: surplus}
        with pytest.raises(DoubledRows):
            rolling.uniqueness.require()

    @pytest.mark.slow
    @pytest.mark.first_fast
    def test_is_right_again_after_a_rebuild_and_goes_on_as_if_nothing_had_been(
        self, rolling: RollForward, table: str
    ) -> None:
        before = facts(rolling)
        surplus = double(rolling.tables[table])
        assert rebuild(rolling).removed_copies == {table: surplus}
        assert facts(rolling) == before
        assert rolling.tables["published"].open().transaction_version(APPLICATION) == 4
        again = rebuild(rolling)
        assert (again.removed_copies, again.is_published_anew, again.row) == ({}, False, None)
        go_on(rolling)
        with TemporaryDirectory() as root:
            untroubled = roll_forward(root)
            untroubled.tables.ensure()
            for number in range(4):
                commit_day(untroubled, number)
            go_on(untroubled)
            assert facts(rolling) == facts(untroubled)


def test_a_double_that_a_run_touches_is_noticed_though_the_log_does_not_tell(rolling: RollForward) -> None:
    double(rolling.tables["published"])
    TableUpkeep(rolling.tables["published"]).compact()
    rolling.finish()
    commit_run(rolling.tables, [pane(3, "late", n=7, start=day(1))])
    with pytest.raises(DoubledRows) as refused:
        rolling.finish()
    assert refused.value.surplus == {"published": 1}  # type: ignore[attr-defined]
    assert rolling.tables["corrections"].open().transaction_version(APPLICATION) == 4


IDENTITIES = st.sampled_from([Identity.WINDOW, Identity.FIRING, Identity.RUN])


@pytest.mark.slow
@settings(max_examples=4)
@given(IDENTITIES, st.data())
def test_over_random_lineages_no_right_table_is_refused_and_every_double_is_mended(
    identity: Identity, data: st.DataObject
) -> None:
    check_lineage(identity, data)


@pytest.mark.slow
@settings(max_examples=24)
@given(IDENTITIES, st.data())
def test_over_many_more_lineages_no_right_table_is_refused_and_every_double_is_mended(
    identity: Identity, data: st.DataObject
) -> None:
    check_lineage(identity, data)


def check_lineage(identity: Identity, data: st.DataObject) -> None:
    past = data.draw(histories(identity, most=3))
    cut = data.draw(st.integers(1, len(past.rows)))
    with TemporaryDirectory() as root:
        rolling = replace(roll_forward(root, identity), portion_rows=data.draw(st.sampled_from([1, 1 << 20])))
        rolling.tables.ensure()
        for row in past.rows[:cut]:
            write(rolling.tables, row)
            rolling.finish()
        assert rolling.uniqueness.surplus() == {}
        before = facts(rolling)
        nothing = rebuild(rolling)
        assert (nothing.removed_copies, nothing.is_published_anew, nothing.row) == ({}, False, None)
        surplus = {
            name: double(rolling.tables[name]) for name in data.draw(st.sets(st.sampled_from(UNIQUE_TABLES)))
        }
        assert rebuild(rolling).removed_copies == {name: count for name, count in surplus.items() if count}
        assert facts(rolling) == before
        for row in past.rows[cut:]:
            write(rolling.tables, row)
        rolling.finish()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a row is deleted", "a row is changed", "a row is of nowhere"])
def test_published_that_somebody_has_written_into_is_as_its_corrections_say(
    rolling: RollForward, what: str
) -> None:
    before, published = facts(rolling), rolling.tables["published"]
    if what == "a row is deleted":
        DeltaTable(published.uri).delete("n = 3")
    elif what == "a row is changed":
        DeltaTable(published.uri).update({"n": "77"}, predicate="n = 3")
    else:
        published.append(published.read().slice(0, 1))
    done = rebuild(rolling)
    assert done.is_published_anew and done.row is None
    assert facts(rolling) == before


def results(rolling: RollForward) -> list[tuple[str, str, int]]:
    return sorted(
        (row["k"], str(row["window_start"]), row["n"])
        for row in rolling.tables["published"].read().to_pylist()
    )


def test_where_corrections_are_lost_the_panes_say_what_is_published_and_a_row_of_the_ledger_says_so(
    rolling: RollForward,
) -> None:
    before = results(rolling)
    for name in ("corrections", "published"):
        DeltaTable(rolling.tables[name].uri).delete("k = 'b'")
    done = rebuild(rolling)
    assert done.row is not None and (done.row.seq, done.row.kind, done.row.live) == (
        5,
        "publish",
        rolling.tables.ledger.row(4).live,
    )
    assert results(rolling) == before
    corrected = rolling.tables["corrections"].read(where=pc.field("seq") == 5).to_pylist()
    assert {(row["op"], row["cause"]) for row in corrected} == {("insert", "restatement")} and len(
        corrected
    ) == 3
    go_on(rolling)


def test_of_two_rows_that_differ_none_is_removed(rolling: RollForward) -> None:
    runs = rolling.tables["runs"]
    row = runs.read(where=pc.field("seq") == 2)
    runs.append(
        row.set_column(
            row.schema.get_field_index("rows_read"), "rows_read", pc.add(row.column("rows_read"), 1)
        )
    )
    before = facts(rolling)
    with pytest.raises(NotACopy):
        rebuild(rolling)
    assert facts(rolling) == before
