"""Corrections as a lineage makes them, and what has to stand in a target: the model is a dictionary.

Shares no code with the sinks.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from slackwater.pipelines.sinks import SinkContext

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
RESULT = pa.struct([("visits", pa.int64()), ("mean", pa.float64()), ("label", pa.string())])
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("run_id", pa.string()),
        ("key_group", pa.int32()),
        ("page", pa.string()),
        ("window_start", TIME),
        ("window_end", TIME),
        ("ordinal", pa.int64()),
        ("timestamp", TIME),
        ("kind", pa.string()),
        ("firing", pa.int64()),
        ("revision", pa.int64()),
        ("op", pa.string()),
        ("cause", pa.string()),
        ("old", RESULT),
        ("new", RESULT),
        ("at", TIME),
    ]
)
PAGES = ("home", "a:b", "ünï côdé", "quote'\"", "a b\n", "{braces}", "%3A")

Identity = tuple[str, datetime]
Result = dict[str, Any]


def context(tmp: str) -> SinkContext:
    """Of a pipeline with windows, keyed by page."""
    return SinkContext(
        pipeline="visits",
        lineage="the-lineage",
        warehouse=tmp,
        keys=(("page", pa.string()),),
        results=tuple((item.name, item.type) for item in RESULT),
        identity=("page", "window_start", "window_end"),
        windows=tuple((name, pa.timestamp("us", tz="UTC")) for name in ("window_start", "window_end")),
    )


@dataclass
class History:
    """Corrections of some ledger rows, and what stands after each correction.

    Attributes:
        changes: the corrections, in order.
        standing: after the first n corrections, the row of each identity.
    """

    changes: list[dict[str, Any]] = field(default_factory=list)
    standing: list[dict[Identity, Result]] = field(default_factory=lambda: [{}])

    @classmethod
    def drawn(cls, chance: random.Random, seqs: int, most: int) -> "History":
        """Of `seqs` ledger rows, each with up to `most` corrections, at most one of an identity."""
        history = cls()
        for seq in range(1, seqs + 1):
            identities = {
                (chance.choice(PAGES), EPOCH + timedelta(hours=chance.randrange(3)))
                for _ in range(chance.randint(0, most))
            }
            for identity in sorted(identities):
                history.correct(chance, seq, identity)
        return history

    def correct(self, chance: random.Random, seq: int, identity: Identity) -> None:
        rows = dict(self.standing[-1])
        old = rows.get(identity)
        is_withdrawn = old is not None and chance.random() < 0.4
        new = None if is_withdrawn else result(chance)
        op = "withdraw" if is_withdrawn else "insert" if old is None else "update"
        page, start = identity
        if new is None:
            del rows[identity]
        else:
            rows[identity] = new
        self.standing.append(rows)
        self.changes.append(
            {
                "seq": seq,
                "run_id": f"run-{seq}",
                "key_group": 0,
                "page": page,
                "window_start": start,
                "window_end": start + timedelta(hours=1),
                "ordinal": 0,
                "timestamp": None,
                "kind": "on_time",
                "firing": 1,
                "revision": 1,
                "op": op,
                "cause": "first",
                "old": old,
                "new": new,
                "at": EPOCH,
            }
        )

    def table(self, first: int, last: int) -> pa.Table:
        """The corrections from number `first` up to, not including, `last`."""
        return pa.Table.from_pylist(self.changes[first:last], SCHEMA)

    def position(self, count: int) -> tuple[int, int]:
        """The position (seq, offset) behind the first `count` corrections."""
        if not count:
            return 0, 0
        seq = self.changes[count - 1]["seq"]
        return seq, sum(change["seq"] == seq for change in self.changes[:count])


def result(chance: random.Random) -> Result:
    return {
        "visits": chance.choice([0, 1, -5, 2**62]),
        "mean": chance.choice([0.5, -1e300, 1 / 3, None]),
        "label": chance.choice(["", "x", "ä\x00ö" if chance.random() < 0 else "y:z", None]),
    }
