"""What a pipeline of hourly counts and sums makes of raw rows, by brute force.

Not a test. Nothing in this folder knows the product: Python's own library reads the rows.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
MOMENT, LOCAL, TEXT, LONG = pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.string(), pa.int64()
Row = Mapping[str, Any]


class Event(NamedTuple):
    key: tuple[Any, ...]
    at: datetime
    amount: int | None


class UnusableError(Exception):
    """A row, or an item of its list, that goes to quarantine with this reason."""


@dataclass(frozen=True)
class RawTable:
    """A table of raw rows.

    Attributes:
        read: the event of a row, or of one of its `parts`. UnusableError, or any error of Python's readers:
            it goes to quarantine.
        parts: the items of a row's list; the row itself if it has none; nothing: the row counts as filtered.
    """

    schema: pa.Schema
    rows: Sequence[Row]
    read: Callable[[Row], Event]
    parts: Callable[[Row], Sequence[Row]] = field(default=lambda row: [row])


@dataclass
class Expected:
    """What a pipeline of hourly counts and sums publishes, and what becomes of the other rows."""

    results: dict[tuple[tuple[Any, ...], datetime], tuple[int, int | None]] = field(default_factory=dict)
    quarantined: Counter[str] = field(default_factory=Counter)
    filtered: int = 0


def brute_force(tables: Iterable[RawTable]) -> Expected:
    expected = Expected()
    for table in tables:
        for row in table.rows:
            _add(expected, table, row)
    return expected


def _add(expected: Expected, table: RawTable, row: Row) -> None:
    try:
        parts = table.parts(row)
    except (ValueError, TypeError):
        expected.quarantined["expression_failed"] += 1
        return
    expected.filtered += not parts
    for part in parts:
        try:
            event = table.read(part)
        except UnusableError as reason:
            expected.quarantined[str(reason)] += 1
        except (ValueError, OverflowError):
            expected.quarantined["expression_failed"] += 1
        else:
            hour = event.at.replace(minute=0, second=0, microsecond=0)
            count, total = expected.results.get((event.key, hour), (0, None))
            if event.amount is not None:
                total = (total or 0) + event.amount
            expected.results[event.key, hour] = (count + 1, total)


def event_of(key: Any, at: datetime | None, amount: int | None, loaded: Any = EPOCH) -> Event:
    """An event, unless its key or a time is null."""
    keys = key if isinstance(key, tuple) else (key,)
    if loaded is None:
        raise UnusableError("null_arrival")
    if None in keys:
        raise UnusableError("null_key")
    if at is None:
        raise UnusableError("null_event_time")
    return Event(keys, at.astimezone(UTC), amount)


class Purchase(NamedTuple):
    at: datetime
    loaded: datetime
    user: str
    amount: int | None


def purchases(count: int = 40, first: datetime = datetime(2025, 3, 3, 8, tzinfo=UTC)) -> list[Purchase]:
    """Out of order, within ten hours; names with umlauts, amounts that are null or negative."""
    choice = random.Random(count)
    rows = []
    for number in range(count):
        at = first + timedelta(milliseconds=choice.randrange(36_000_000))
        amount = None if number % 9 == 4 else choice.randrange(-50, 500)
        user = choice.choice(["ann", "Jürgen Groß", "李雷", "o'neil"])
        rows.append(Purchase(at, first + timedelta(hours=11, seconds=number), user, amount))
    return rows


def ms_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def at_ms(number: int | str | None) -> datetime | None:
    return None if number is None else EPOCH + timedelta(milliseconds=int(number))


def moment_in_berlin(local: datetime) -> datetime:
    """The last moment at which the clocks of Berlin show a local time; if none, an hour later they do."""
    moments = [local.replace(tzinfo=UTC) - timedelta(hours=offset) for offset in (1, 2)]
    moments_shown = [at for at in moments if at.astimezone(BERLIN).replace(tzinfo=None) == local]
    return max(moments_shown) if moments_shown else moment_in_berlin(local + timedelta(hours=1))


def moment_in(text: str, formats: Sequence[str]) -> datetime:
    for form in formats:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - a local time
        except ValueError:
            continue
    raise ValueError(text)


def text_at(document: Any, *path: str) -> str | None:
    """The text of a value within a document, null if it is missing."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if document is None or isinstance(document, str) else json.dumps(document)


def whole(text: str | None) -> int | None:
    return None if text is None else int(text)
