"""What ledger rows have changed in `published`, summed up: how many rows, and on which days.

The roll-forward counts while it writes and leaves the sum in its commit of `corrections`, so that to say it
later reads one commit of the log and no row. Where there is no such sum the rows are counted: of a commit
that upkeep has dropped from the log, or behind which an erasure has taken rows away. The bounds of a file are
asked first, and then the columns are read that these leave open, some rows at a time.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Self

import pyarrow as pa

from slackwater.runs.publishing.corrections import dates_of, days_of
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.delta.transactions import Transactions
from slackwater.tables.ledger.rows import MAIN, LedgerRow, RowKind
from slackwater.tables.warehouse import APPLICATION, Tables

CORRECTIONS = "corrections"
# The name of the sum among the facts of a commit.
FACT = "slackwaterChanges"
_ROWS_AT_ONCE = 1 << 20
# A log may cut a time to milliseconds.
_CUT = timedelta(microseconds=999)


@dataclass
class ChangeSummary:
    """The sum of some corrections: (op, cause) → rows of `published` that changed, and the days of these rows
    (None: rows without a window and a timestamp).
    """

    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    days: set[date | None] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.rows.total()

    @property
    def rows_by_op(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for (op, _), count in self.rows.items():
            counts[op] += count
        return counts

    def add(self, corrections: pa.Table) -> None:
        counts = corrections.select(["op", "cause"]).group_by(["op", "cause"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            self.rows[row["op"], row["cause"]] += row["count_all"]
        self.days |= dates_of(corrections)

    def merge(self, other: "ChangeSummary") -> None:
        self.rows += other.rows
        self.days |= other.days

    def to_facts(self) -> dict[str, str]:
        rows = [[*kind, count] for kind, count in sorted(self.rows.items())]
        days = sorted("" if day is None else day.isoformat() for day in self.days)
        return {FACT: json.dumps({"rows": rows, "days": days}, separators=(",", ":"))}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_facts`; None where the commit has no sum."""
        if FACT not in facts:
            return None
        values = json.loads(facts[FACT])
        rows = Counter({(op, cause): count for op, cause, count in values["rows"]})
        return cls(rows, {date.fromisoformat(day) if day else None for day in values["days"]})


def change_summaries(tables: Tables, rows: Sequence[LedgerRow]) -> dict[int, ChangeSummary]:
    """By seq, what each of `rows` has changed; rows that are not rolled forward are left out."""
    summaries = {row.seq: ChangeSummary() for row in rows}
    seqs = sorted(row.seq for row in rows if row.branch == MAIN and row.kind != RowKind.ERASE)
    if not seqs:
        return summaries
    last_erasure = max((row.seq for row in tables.ledger.erasures()), default=0)
    facts = Transactions(tables[CORRECTIONS], APPLICATION).facts(max(seqs[0], last_erasure), seqs[-1])
    summaries_in_log = {seq: ChangeSummary.from_facts(facts[seq]) for seq in seqs if seq in facts}
    summaries |= {seq: summary for seq, summary in summaries_in_log.items() if summary is not None}
    seqs_to_count = {seq for seq in seqs if summaries_in_log.get(seq) is None}
    for seq, op, cause, day, count in _counts_in_files(tables, seqs_to_count):
        if seq in seqs_to_count:
            summaries[seq].rows[op, cause] += count
            summaries[seq].days.add(day)
    return summaries


def _counts_in_files(tables: Tables, seqs: set[int]) -> Iterator[tuple[int, str, str, date | None, int]]:
    """(seq, op, cause, day, rows) of the corrections of `seqs`; a combination may come several times."""
    if not seqs:
        return
    files = tables[CORRECTIONS].files(Within("seq", min(seqs), max(seqs)))
    for file in files.one_by_one():
        constants = _Constants.by_log(file)
        if constants.seq is None or constants.seq in seqs:
            yield from constants.counts(file)


@dataclass(frozen=True)
class _Constants:
    """What the log says of all rows of a file: their `seq`, `op`, `cause` and `day`, None where it leaves
    one open; and whether each has a window start.
    """

    seq: int | None
    op: str | None
    cause: str | None
    day: date | None
    has_starts: bool

    @classmethod
    def by_log(cls, file: StoredFiles) -> "_Constants":
        bounds: dict[str, tuple[Any, Any]] = {
            name: _bounds(file, name) for name in ("seq", "op", "cause", "window_start")
        }
        seq, op, cause = (
            bounds[name][0] if bounds[name][0] == bounds[name][1] else None for name in ("seq", "op", "cause")
        )
        first, last = bounds["window_start"]
        has_starts = isinstance(first, datetime)
        is_one_day = has_starts and first.date() == (last + _CUT).date()
        return cls(seq, op, cause, first.date() if is_one_day else None, has_starts)

    def counts(self, file: StoredFiles) -> Iterator[tuple[int, str, str, date | None, int]]:
        by_name = {
            name: value
            for name in ("seq", "op", "cause", "day")
            if (value := getattr(self, name)) is not None
        }
        open_names = [name for name in ("seq", "op", "cause", "day") if name not in by_name]
        if not open_names:
            yield by_name["seq"], by_name["op"], by_name["cause"], by_name["day"], file.rows
            return
        columns = [name for name in open_names if name != "day"]
        if "day" in open_names:
            columns += ["window_start"] if self.has_starts else ["window_start", "window_end", "timestamp"]
        texts = tuple(name for name in ("op", "cause") if name in columns)
        for part in replace(file, dictionary_columns=texts).scan(columns, None, _ROWS_AT_ONCE):
            for row in _counted_by(part.unify_dictionaries(), open_names):
                values = by_name | row
                yield (values["seq"], values["op"], values["cause"], values["day"], values["count_all"])


def _counted_by(part: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    if "day" in names:
        missing = [name for name in ("window_end", "timestamp") if name not in part.column_names]
        nulls = pa.nulls(part.num_rows, part.schema.field("window_start").type)
        times = part.select(["window_start"] if missing else ["window_start", "window_end", "timestamp"])
        for name in missing:
            times = times.append_column(name, nulls)
        part = part.append_column("day", days_of(times))
    rows: list[dict[str, Any]] = part.select(names).group_by(names).aggregate([([], "count_all")]).to_pylist()
    return rows


def _bounds(file: StoredFiles, name: str) -> tuple[Any, Any]:
    """The least and greatest value of a column by the log; None where it does not have them for every row."""
    low, high, nulls = (f"{side}.{name}" for side in ("min", "max", "null_count"))
    if not {low, high, nulls} <= set(file.actions.column_names):
        return None, None
    [row] = file.actions.select([low, high, nulls]).to_pylist()
    is_certain = row[nulls] == 0 and row[low] is not None and row[high] is not None
    return (row[low], row[high]) if is_certain else (None, None)
