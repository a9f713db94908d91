"""Corrections against the rules, in memory: over random lineages, `published` is what the panes of the live
runs say, and its changes are exactly the differences.
"""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.runs.publishing.correction_sql import BEFORE, RUN
from slackwater.runs.publishing.corrections import Identity, Publication
from slackwater.tables.schemas import Shape, table_schemas
from tests.runs.lineages import KEYS, RESULTS, TIMES, History, Row, histories, panes
from tests.runs.published_model import PaneRow, Published, comparable, history_of
from tests.runs.tables_of_panes import corrections_of, fold, in_any_order, pane_values, published_of

SHAPE = Shape(keys=KEYS, results=RESULTS, parts=(), source=())
SCHEMAS = table_schemas(SHAPE)


class InMemory:
    """Rolls a history forward without Delta: the whole log and all of `published` are at hand."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.publication = Publication(SHAPE, history.identity)
        self.published = SCHEMAS["published"].empty_table()
        self.corrections: list[dict[str, Any]] = []
        before: tuple[int, ...] = ()
        for row in history.rows:
            if row.branch == "main":
                self.step(row, before)
                before = row.live

    def step(self, row: Row, before: tuple[int, ...]) -> None:
        if row.kind == "run":
            log = moved = self.log([row.seq])
            seen = (
                self.published
                if self.history.identity is not Identity.RUN
                else self.published.schema.empty_table()
            )
        else:
            log, moved, seen = self.log(row.live), self.log(sorted({*row.live} ^ {*before})), self.published
        cause = {"publish": "restatement", "restore": "restore"}.get(row.kind)
        changes = self.publication.changes(log, moved, seen, cause).to_pylist()
        rows = [
            {**change, "seq": row.seq, "run_id": f"r{change.pop('__before') or row.seq}", "at": None}
            for change in changes
        ]
        if self.history.identity is not Identity.RUN:
            rows = [{**values, "run_id": f"r{row.seq}"} for values in rows]
        corrections = pa.Table.from_pylist(rows, schema=SCHEMAS["corrections"])
        seqs = range(1, len(self.history.rows) + 1)
        names = pa.table({"run_id": [f"r{seq}" for seq in seqs], "seq": list(seqs)})
        self.published = self.publication.apply(corrections, self.published, names).cast(SCHEMAS["published"])
        self.corrections += corrections.to_pylist()

    def log(self, seqs: Any) -> pa.Table:
        """Panes of runs, as read from the table."""
        names = [name for name, _ in RESULTS]
        empty = dict.fromkeys(SCHEMAS["panes"].names)
        rows = [
            {**empty, "run_id": f"r{seq}", **pane_values(pane, names)}
            for seq in seqs
            for pane in self.history.panes(seq)
        ]
        order = [position for position, seq in enumerate(seqs) for _ in self.history.panes(seq)]
        return pa.Table.from_pylist(rows, schema=SCHEMAS["panes"]).append_column(
            RUN, pa.array(order, pa.int64())
        )


@pytest.mark.slow
@pytest.mark.first_fast
@pytest.mark.parametrize("identity", [Identity.WINDOW, Identity.FIRING])
@settings(max_examples=12)
@given(st.data())
def test_published_is_what_the_live_panes_say_through_restatements_and_restores(
    identity: Identity, data: st.DataObject
) -> None:
    history = data.draw(histories(identity))
    ours = InMemory(history)
    published, corrections = history_of(history.changes(), purging=identity is Identity.FIRING)
    found = published_of(ours.published)
    assert in_any_order(found) == in_any_order(published.values())
    assert in_any_order(corrections_of(ours.corrections)) == in_any_order(corrections)
    assert in_any_order(fold(ours.corrections, identity)) == in_any_order(found)


@pytest.mark.slow
@pytest.mark.parametrize("identity", list(Identity))
@settings(max_examples=12)
@given(st.data())
def test_panes_of_windows_that_nobody_has_published_are_inserted_alike_without_a_look_at_what_is(
    identity: Identity, data: st.DataObject
) -> None:
    history = History(identity)
    history.run("main", (), data.draw(panes(identity, {})))
    ours = InMemory(history)
    publication, log = ours.publication, ours.log([1])
    short = publication.inserts(log.select(publication.columns_of_inserts), None)
    whole = publication.changes(log, log, SCHEMAS["published"].empty_table(), None)
    kinds = [
        (name, SCHEMAS["corrections"].field(name).type if name != BEFORE else pa.int64())
        for name in short.column_names
    ]
    assert in_any_order(short.cast(pa.schema(kinds)).to_pylist()) == in_any_order(
        whole.select(short.column_names).cast(pa.schema(kinds)).to_pylist()
    )
    corrections = pa.Table.from_pylist(ours.corrections, schema=SCHEMAS["corrections"])
    assert in_any_order(publication.new_rows(corrections).to_pylist()) == in_any_order(
        ours.published.to_pylist()
    )


def without_run(pane: PaneRow) -> tuple[Any, ...]:
    return (pane.window, pane.timestamp, pane.kind, pane.firing, comparable(pane.results))


@pytest.mark.slow
@settings(max_examples=12)
@given(histories(Identity.RUN))
def test_rows_of_process_functions_are_those_of_the_live_runs_each_as_often_as_it_was_emitted(
    history: History,
) -> None:
    ours = InMemory(history)
    found = published_of(ours.published)
    wanted = [pane for seq in history.main for pane in history.panes(seq)]
    assert in_any_order(without_run(row.pane) for row in found) == in_any_order(map(without_run, wanted))
    assert in_any_order(fold(ours.corrections, Identity.RUN)) == in_any_order(found)
    assert {row.revision for row in found} <= {1}
    names = [(row.pane.window, row.pane.timestamp, row.run_seq, row.pane.ordinal) for row in found]
    assert len(set(names)) == len(names)


@settings(max_examples=6)
@given(histories(Identity.RUN))
def test_equal_rows_of_process_functions_are_not_withdrawn_to_come_back(history: History) -> None:
    ours = InMemory(history)
    for row in history.rows:
        here = [change for change in ours.corrections if change["seq"] == row.seq]
        old = {
            repr((c["k"], c["timestamp"], comparable(tuple(c["old"].values()))))
            for c in here
            if c["op"] == "withdraw"
        }
        new = {
            repr((c["k"], c["timestamp"], comparable(tuple(c["new"].values()))))
            for c in here
            if c["op"] == "insert"
        }
        assert not old & new


def emitted(n: int, ordinal: int = 0) -> PaneRow:
    return PaneRow(3, ("a", 1, None, None), 1, ordinal, "on_time", (n, 0.5), TIMES[0])


def test_two_runs_of_a_branch_that_emit_at_one_timestamp_are_told_apart() -> None:
    history = History(Identity.RUN)
    live = history.run("main", (), [emitted(1)])
    history.add("fork", "fix", ())
    branch = history.run("fix", (), [emitted(2)])
    branch = history.run("fix", branch, [emitted(3)])
    history.add("publish", "main", branch)
    history.add("restore", "main", live, to=1)
    ours = InMemory(history)
    facts = [
        (c["seq"], c["op"], c["ordinal"], c["run_id"], (c["old"] or c["new"])["n"]) for c in ours.corrections
    ]
    assert sorted(facts) == [
        (1, "insert", 0, "r1", 1),
        (5, "insert", 0, "r5", 2),
        (5, "insert", 1, "r5", 3),
        (5, "withdraw", 0, "r1", 1),
        (6, "insert", 0, "r6", 1),
        (6, "withdraw", 0, "r5", 2),
        (6, "withdraw", 1, "r5", 3),
    ]
    assert published_of(ours.published) == [Published(emitted(1), 1, 6)]


@pytest.mark.parametrize(
    ("elements", "watermark", "arrival", "cause"),
    [
        (None, TIMES[1], TIMES[1], "merge"),  # absorbed by another window
        (0, TIMES[1], TIMES[1], "merge"),
        (1, TIMES[1], TIMES[1], "late"),
        (1, TIMES[1] - timedelta(milliseconds=1), TIMES[1], "late"),
        (1, TIMES[1] - timedelta(milliseconds=2), TIMES[1], "first"),  # an early firing by an element
        (1, TIMES[1], None, "first"),  # a timer's, on time
    ],
)
def test_a_firing_without_rows_withdraws_as_late_as_it_is(
    elements: int | None, watermark: datetime, arrival: datetime | None, cause: str
) -> None:
    history = History(Identity.WINDOW)
    window = ("a", 1, TIMES[0], TIMES[1])
    history.run("main", (), [PaneRow(3, window, 1, 0, "early", (1, 0.5))])
    ours = InMemory(history)
    history.run("main", history.main, [PaneRow(3, window, 2, 0, "withdrawn", (None, None))])
    log = ours.log([2])
    for name, value in (("elements", elements), ("watermark", watermark), ("cause_arrival", arrival)):
        place = log.schema.get_field_index(name)
        log = log.set_column(place, log.schema.field(name), pa.array([value], log.schema.field(name).type))
    [change] = Publication(SHAPE, Identity.WINDOW).changes(log, log, ours.published, None).to_pylist()
    assert (change["op"], change["kind"], change["cause"], change["old"]["n"]) == (
        "withdraw",
        "withdrawn",
        cause,
        1,
    )
