"""A reader that looks at the tables of a warehouse again and again while faults happen to those who write.

What it sees of `published` and of `corrections` must be what these were at a commit of the run without
faults, whether delta-rs, DuckDB or a verb reads them; and the rows that count of `panes`, by the ledger as
it stands, must be those of that run after one of its ledger rows: no row of a run that is not committed, and
not a part of a run.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from tests.campaigns.faults import Prepared, facts_of
from tests.integration.driver import Plan
from tests.integration.stored import StoredTables, plain

Facts = Counter[str]
# Of these each commit of the run without faults is a state that readers may see.
_BY_COMMITS = ("published", "corrections")
_COUNTED = "SELECT * FROM published"


class Reader:
    """Looks at one warehouse, and says what it saw that never was without faults.

    Attributes:
        looks: how often it has looked.
        problems: what it saw, each once.
    """

    def __init__(self, prepared: Prepared, warehouse: Path) -> None:
        self._prepared, self._stored = prepared, prepared.stored(warehouse)
        self._warehouse = warehouse
        self._passed = {table: prepared.versions_of(table) for table in _BY_COMMITS}
        self._passed["panes"] = panes_by_run(prepared.stored(prepared.right))
        self.looks = 0
        self.problems: list[str] = []

    def look(self) -> None:
        """Read every table once."""
        self.looks += 1
        for table in _BY_COMMITS:
            uri = self._stored.uri(table)
            if DeltaTable.is_deltatable(uri):
                self._must_have_been(table, facts_of(plain(DeltaTable(uri).to_pyarrow_table())), "delta-rs")
                self._count_by_duckdb(table, DeltaTable(uri))
        if DeltaTable.is_deltatable(self._stored.uri("panes")):
            self._must_have_been("panes", panes_of_newest_run(self._stored), "delta-rs")

    def look_by_verb(self) -> None:
        """Read `published` and the ledger by verbs. Where nothing has run yet they say so (2); where another
        process has run out of something they may end with 3.
        """
        for words in (("sql", _COUNTED, "--output", "json"), ("runs", "--output", "json")):
            done = self._prepared.run(words, self._warehouse, Plan())
            if done.returncode == 0 and words[0] == "sql":
                rows = json.loads(done.stdout or "[]")
                counts = {facts.total() for facts in self._passed["published"]}
                if len(rows) not in counts:
                    self._add(
                        f"half a state: `sql` counts {len(rows)} rows of published, not {sorted(counts)}"
                    )
            elif done.returncode not in (0, 2, 3):
                self._add(f"`{words[0]}` ended with {done.returncode}: {done.stdout}{done.stderr}")

    def _count_by_duckdb(self, table: str, version: DeltaTable) -> None:
        files = version.file_uris()
        counted = duckdb.read_parquet(files).count("*").fetchall()[0][0] if files else 0
        counts = {facts.total() for facts in self._passed[table]}
        if counted not in counts:
            self._add(f"half a state: DuckDB counts {counted} rows of {table}, not one of {sorted(counts)}")

    def _must_have_been(self, table: str, facts: Facts, reader: str) -> None:
        if facts not in self._passed[table]:
            nearest = min(self._passed[table], key=lambda one: ((one - facts) + (facts - one)).total())
            lost, surplus = nearest - facts, facts - nearest
            self._add(
                f"half a state: {reader} sees a {table} that never was: {lost.total()} rows lost, "
                f"{surplus.total()} too much"
            )

    def _add(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def panes_of_newest_run(stored: StoredTables) -> Facts:
    """The panes that count as of the newest row of main. The ledger is read first: what it has is staged."""
    ledger = stored.ledger() if DeltaTable.is_deltatable(stored.uri("runs")) else []
    return panes_of(ledger, stored.rows("panes"))


def panes_by_run(stored: StoredTables) -> list[Facts]:
    """The panes that count after each row of the ledger, and before the first."""
    ledger, panes = stored.ledger(), stored.rows("panes")
    return [panes_of(ledger[:count], panes) for count in range(len(ledger) + 1)]


def panes_of(ledger: list[dict[str, Any]], panes: list[dict[str, Any]]) -> Facts:
    """The panes of the runs that are live on main by the newest of these rows."""
    head = next((row for row in reversed(ledger) if row["branch"] == "main"), None)
    spans = [] if head is None else head["live"]
    live = {
        row["run_id"]
        for row in ledger
        if any(span["first_seq"] <= row["seq"] <= span["last_seq"] for span in spans)
    }
    return facts_of([pane for pane in panes if pane["run_id"] in live])


@contextmanager
def watched(prepared: Prepared, warehouse: Path) -> Iterator[Reader]:
    """A reader that looks, on a thread, for as long as the block lasts, and once more in the end."""
    reader, has_ended = Reader(prepared, warehouse), threading.Event()

    def read() -> None:
        while not has_ended.wait(0.05):
            try:
                reader.look()
                if reader.looks % 20 == 1:
                    reader.look_by_verb()
            except Exception as error:  # noqa: BLE001 - a reader that fails is a problem of the trial
                reader.problems.append(f"a reader failed: {type(error).__name__}: {error}")
                return

    thread = threading.Thread(target=read, name="reader", daemon=True)
    thread.start()
    try:
        yield reader
    finally:
        has_ended.set()
        thread.join()
    reader.look()
