"""What a case of bad input works with: a source and a pipeline over it, verbs in processes of their own, and
checks of what they leave. Each check raises AssertionError with what was not so.

What is right is computed by DuckDB over the rows that a case says are usable, or by hand in the case.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.cli.own_source import SCHEMA, OwnPipeline, moment
from tests.integration.command import CommandResult, driver
from tests.integration.driver import Plan

# What an error of ours ends with: a command, or a sentence that says what to do.
_STEP = re.compile(
    r"What reads is|syntax error at|not found in|is not before|"
    r"is expected|are expected|belongs below|but the panes have|; it has |comes from|begins at|"
    r"greater than|read the views|durations are|`slackwater |--help|"
    r"\b(?:[Aa]dd|[Aa]sk|[Cc]ast|[Cc]hange|[Cc]heck|[Cc]hoose|[Cc]ompare|[Cc]orrect|[Dd]eclare|[Dd]elete|[Dd]erive|"
    r"[Gg]ive|[Ll]eave|[Ll]oad|[Mm]ake|[Mm]end|[Nn]ame|[Pp]ut|[Rr]ename|[Rr]emove|[Rr]epair|[Rr]epeat|"
    r"[Rr]estate|[Rr]un|[Ss]ay|[Ss]ee|[Ss]et|[Tt]ake|takes|[Tt]ry|[Uu]se|[Ww]rite|instead|"
    r"must|is one of|are one of|it is|they are)\b"
)
# The last row of a source: it brings the watermark past the windows of the others.
LAST_KEY, LAST_HOUR = "zz-last", 47.0
SETTINGS = "allowed_lateness=timedelta(days=3)"
Row = dict[str, Any]
Results = dict[tuple[Any, datetime], tuple[Any, ...]]


class World(OwnPipeline):
    """The pipeline `own` over `sources/own` in a folder, called in processes of their own."""

    def __init__(self, root: Path, schema: pa.Schema = SCHEMA) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root, schema)
        self.declare(SETTINGS)

    def call(self, *verb: object) -> CommandResult:
        """Run a verb of the pipeline; a traceback or a crash is never right."""
        done = driver(
            Plan(), *map(str, verb), "--warehouse", self.warehouse, "--pipelines", self.file, timeout=120
        )
        text = done.stdout + done.stderr
        assert "Traceback (most recent call last)" not in text or "a fault of" not in text, (
            f"traceback: {text}"
        )
        assert done.returncode >= 0, f"crash: {done.returncode}: {text}"
        return done

    def fill(self, rows: Iterable[Row], schema: pa.Schema | None = None) -> None:
        """One commit with the rows and the last one."""
        self.write([*rows, row(LAST_HOUR, LAST_KEY)], schema)

    def write(self, rows: Iterable[Row], schema: pa.Schema | None = None, **options: Any) -> None:
        table = pa.Table.from_pylist(list(rows), schema=schema or self.schema)
        write_deltalake(self.source, table, mode=options.pop("mode", "append"), **options)

    def succeeds(self, *verb: object) -> str:
        """The text of a verb that must end with 0."""
        done = self.call(*verb)
        assert done.returncode == 0, f"{verb} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def runs(self, to: str = "2013-01-03") -> str:
        return self.succeeds("run", "own", "--to", to)

    def refuses(self, verb: Sequence[object], *words: str, codes: tuple[int, ...] = (2,)) -> str:
        """The text of a verb that must fail, say `words` and a next step, and change nothing."""
        before = self.ledger_rows()
        done = self.call(*verb)
        text = done.stdout + done.stderr
        assert done.returncode in codes, f"{verb} ended with {done.returncode}, not {codes}: {text}"
        for word in words:
            assert word in text, f"{word!r} is not in: {text}"
        assert "Traceback" not in text, f"traceback: {text}"
        assert _STEP.search(text), f"no next step: {text}"
        assert self.ledger_rows() == before, f"{verb} failed and committed"
        return text

    def ledger_rows(self) -> int:
        uri = str(self.warehouse / "own" / "runs")
        return len(self.rows("runs")) if DeltaTable.is_deltatable(uri) else 0

    def quarantine_codes(self) -> dict[str, int]:
        return dict(Counter(one["reason_code"] for one in self.rows("quarantine")))

    def results(self, *columns: str) -> Results:
        """(key, start of the window) → result columns, of `published` but the last row's window."""
        return {
            (one["k"], one["window_start"]): tuple(one[name] for name in columns or ("n", "total"))
            for one in self.rows("published")
            if one["k"] != LAST_KEY
        }

    def publishes_what_duckdb_counts(self, usable: Iterable[Row], schema: pa.Schema | None = None) -> None:
        """`published` must have what DuckDB counts and sums over the usable rows."""
        assert_equal(self.results(), counted_by_duckdb(usable, schema or self.schema), "published")

    def quarantines(self, codes: Mapping[str, int]) -> None:
        assert_equal(self.quarantine_codes(), dict(codes), "quarantine")


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        group: what the report counts it under.
        expects: "error", "quarantine" or "right result".
        act: does it in a fresh world; raises AssertionError where the outcome is another one.
    """

    group: str
    name: str
    expects: str
    act: Callable[[World], None]


def row(hour: float, key: Any = "a", x: Any = 1, arrival: float | None = None) -> Row:
    """A row of that hour, which arrives at once unless said otherwise."""
    return {"e": moment(hour), "a": moment(hour if arrival is None else arrival), "k": key, "x": x}


def counted_by_duckdb(rows: Iterable[Row], schema: pa.Schema) -> Results:
    """(key, start of the window of two hours) → (rows, sum of x)."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    with duckdb.connect() as connection:
        connection.register("source_rows", table)
        counted = connection.sql(
            "SELECT k, CAST(floor(epoch_us(e) / 7200000000.0) AS BIGINT) AS number, count(*), sum(x) "
            "FROM source_rows GROUP BY ALL"
        ).fetchall()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return {
        (key, epoch + timedelta(hours=2 * number)): (count, None if total is None else int(total))
        for key, number, count, total in counted
        if key != LAST_KEY
    }


def assert_equal(left: object, right: object, what: str) -> None:
    """With both sides in the message, however long they are."""
    assert left == right, f"{what} is {str(left)[:1500]}, not {str(right)[:1500]}"
