"""`published` as of an earlier ledger row, computed from later tables: compared with what a simulated
roll-forward had published then.

The simulation knows what a pipeline does (a trigger that accumulates, one that purges, a process function);
the SQL under test does not.
"""

import random
from itertools import count

import pyarrow as pa
import pytest

from slackwater.inspection.sql.published_rows import published_at
from slackwater.tables.sql import query

TIME = pa.timestamp("us", tz="UTC")
RESULT = pa.struct([("n", pa.int64())])
IDENTITY = [("key", pa.string()), ("window_start", TIME), ("window_end", TIME)]
ROW = [("ordinal", pa.int64()), ("timestamp", TIME), ("firing", pa.int64()), ("revision", pa.int64())]
PUBLISHED = pa.schema(
    [*IDENTITY, ("n", pa.int64()), *ROW, ("run_seq", pa.int64()), ("window_date", pa.date32())]
)
CORRECTIONS = pa.schema(
    [("seq", pa.int64()), ("run_id", pa.string()), *IDENTITY, *ROW, ("op", pa.string()), ("new", RESULT)]
)
HOUR = 3_600_000_000
SEQS = 7


class Simulation:
    """A few windows whose rows are inserted, updated and withdrawn at random, ledger row after ledger row."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.random, self.numbers = kind, random.Random(seed), count(1)
        self.rows: dict[tuple, dict] = {}
        self.corrections: list[dict] = []
        self.published: dict[int, list[dict]] = {}
        for seq in range(1, SEQS + 1):
            for window in range(3):
                self.correct(seq, window)
            self.published[seq] = list(self.rows.values())

    def correct(self, seq: int, window: int) -> None:
        own = {slot: row for slot, row in self.rows.items() if slot[0] == window}
        match self.kind:
            case "accumulates":
                action = self.random.choice(["insert", "update", "withdraw", "none"])
                if not own and action != "none":
                    self.write(seq, "insert", (window, 0), firing=self.random.randint(1, 3))
                elif own and action != "none":
                    op = "withdraw" if action == "withdraw" else "update"
                    self.write(seq, op, (window, 0), firing=self.random.randint(1, 3))
            case "purges":
                for firing in (1, 2, 3):
                    is_there = (window, firing) in own
                    op = self.random.choice(["update", "withdraw"] if is_there else ["insert"])
                    if self.random.random() < 0.4:
                        self.write(seq, op, (window, firing), firing=firing)
            case "emits":
                for slot in own:
                    if self.random.random() < 0.3:
                        self.write(seq, "withdraw", slot, firing=0)
                if self.random.random() < 0.6:
                    self.write(seq, "insert", (window, f"run {seq}"), firing=0)

    def write(self, seq: int, op: str, slot: tuple, firing: int) -> None:
        window, emits = slot[0], self.kind == "emits"
        before = self.rows.pop(slot, None)
        revision = 1 if before is None else before["revision"] + 1
        start = None if emits else window * HOUR
        end = None if emits else (window + 1) * HOUR
        timestamp = window * HOUR if emits else None
        shared = {"key": "k", "window_start": start, "window_end": end, "ordinal": 0, "timestamp": timestamp}
        shared |= {"firing": firing, "revision": revision}
        result = {"n": next(self.numbers)}
        run_id = slot[1] if emits else f"run {seq}"
        new = None if op == "withdraw" else result
        self.corrections.append({**shared, "seq": seq, "run_id": run_id, "op": op, "new": new})
        if op != "withdraw":
            self.rows[slot] = {**shared, **result, "run_seq": seq, "window_date": 0}


@pytest.mark.parametrize("kind", ["accumulates", "purges", "emits"])
def test_rows_of_an_earlier_seq_are_those_that_were_published_then(kind: str) -> None:
    withdrawn = 0
    for seed in range(4):
        simulation = Simulation(kind, seed)
        tables = {
            "published": pa.Table.from_pylist(simulation.published[SEQS], PUBLISHED),
            "corrections": pa.Table.from_pylist(simulation.corrections, CORRECTIONS),
        }
        withdrawn += sum(correction["op"] == "withdraw" for correction in simulation.corrections)
        for seq in range(1, SEQS):
            sql = published_at(
                seq,
                SEQS,
                published_view="published",
                columns=PUBLISHED.names,
                window=[name for name, _ in IDENTITY],
                results=["n"],
            )
            wanted = pa.Table.from_pylist(simulation.published[seq], PUBLISHED).to_pylist()
            answer = query(sql, **tables).cast(PUBLISHED).to_pylist()
            assert sorted(answer, key=repr) == sorted(wanted, key=repr), (seed, seq)
    assert withdrawn > 4, "nothing would be withdrawn"


def test_corrections_that_are_not_rolled_forward_do_not_count() -> None:
    simulation = Simulation("accumulates", 1)
    tables = {
        "published": pa.Table.from_pylist(simulation.published[4], PUBLISHED),
        "corrections": pa.Table.from_pylist(simulation.corrections, CORRECTIONS),
    }
    sql = published_at(
        2,
        4,
        published_view="published",
        columns=PUBLISHED.names,
        window=[name for name, _ in IDENTITY],
        results=["n"],
    )
    wanted = pa.Table.from_pylist(simulation.published[2], PUBLISHED).to_pylist()
    assert sorted(query(sql, **tables).cast(PUBLISHED).to_pylist(), key=repr) == sorted(wanted, key=repr)
