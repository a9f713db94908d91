"""Tables of numbers, texts and documents."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa

from tests.docs.raw.tables import (
    BERLIN,
    EPOCH,
    LONG,
    MOMENT,
    TEXT,
    Event,
    Purchase,
    RawTable,
    Row,
    UnusableError,
    at_ms,
    event_of,
    moment_in,
    moment_in_berlin,
    ms_of,
    purchases,
    text_at,
    whole,
)

# Ticks a second.
UNITS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def epoch_numbers(ticks: int = 1000) -> RawTable:
    """Event times that count since 1970, so many ticks a second; arrivals in seconds."""
    rows: list[Row] = [
        {
            "created": ms_of(one.at) // 1000 * ticks + min(ticks - 1, 7),
            "loaded": ms_of(one.loaded) // 1000,
            "user_id": one.user,
            "amount": one.amount,
        }
        for one in purchases()
    ]
    rows += [{**rows[0], "created": None}, {**rows[0], "created": min(400_000_000_000 * ticks, 9 * 10**18)}]
    rows += [{**rows[0], "loaded": None}, {**rows[0], "user_id": None}]

    def read(row: Row) -> Event:
        seconds = None if row["created"] is None else row["created"] // ticks
        if seconds is not None and seconds > 7_000_000_000:  # 64 bits of nanoseconds end before the year 9999
            raise UnusableError("time_out_of_range" if ticks < UNITS["nanoseconds"] else "ahead_of_arrival")
        at = None if seconds is None else EPOCH + timedelta(seconds=seconds)
        return event_of(row["user_id"], at, row["amount"], row["loaded"])

    schema = pa.schema({"created": LONG, "loaded": LONG, "user_id": TEXT, "amount": LONG})
    return RawTable(schema, rows, read)


def iso_texts() -> RawTable:
    zones = [UTC, BERLIN, ZoneInfo("Asia/Kolkata")]
    rows: list[Row] = []
    for number, one in enumerate(purchases()):
        text = one.at.astimezone(zones[number % 3]).isoformat(" T"[number % 2])
        text = text.replace("+00:00", "Z") if number % 4 else text
        rows.append(
            {"created": text, "loaded": one.loaded.isoformat(), "user_id": one.user, "amount": one.amount}
        )
    rows.append({**rows[0], "created": "2025-03-03T09:30:00"})  # no offset: of UTC
    bad_texts = ["soon", "", "2025-02-30T10:00:00Z", "2025-03-03T25:00:00Z", None]
    rows += [{**rows[0], "created": text} for text in bad_texts] + [{**rows[0], "loaded": "später"}]

    def read(row: Row) -> Event:
        created, loaded = (_of_iso(row[name]) for name in ("created", "loaded"))
        return event_of(row["user_id"], created, row["amount"], loaded)

    schema = pa.schema({"created": TEXT, "loaded": TEXT, "user_id": TEXT, "amount": LONG})
    return RawTable(schema, rows, read)


def _of_iso(text: str | None) -> datetime | None:
    if text is None:
        return None
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def other_formats() -> RawTable:
    formats = ["%d.%m.%Y %H:%M", "%d.%m.%Y"]
    rows: list[Row] = [
        {
            "created": one.at.astimezone(BERLIN).strftime(formats[number % 8 == 0]),
            "loaded_at": one.loaded,
            "user_id": one.user,
            "amount": one.amount,
        }
        for number, one in enumerate(purchases(60))
    ]
    rows += [{**rows[0], "created": text} for text in ("2025-03-03 10:00", "31.02.2025", "März", None)]

    def read(row: Row) -> Event:
        at = None if row["created"] is None else moment_in_berlin(moment_in(row["created"], formats))
        return event_of(row["user_id"], at, row["amount"])

    schema = pa.schema({"created": TEXT, "loaded_at": MOMENT, "user_id": TEXT, "amount": LONG})
    return RawTable(schema, rows, read)


BROKEN_DOCUMENTS = ('{"at": ', "no JSON", '{"at": "soon", "user": {"id": "ann"}}')


def json_text() -> RawTable:
    def body(one: Purchase) -> str:
        document = {"at": one.at.isoformat(), "user": {"id": one.user}, "amount": one.amount}
        return json.dumps(document, ensure_ascii=len(one.user) % 2 == 0)

    rows: list[Row] = [{"body": body(one), "loaded_at": one.loaded} for one in purchases()]
    good = '{"at": "2025-03-03T10:00:00+01:00", "user": {"id": %s}, "amount": %s}'
    more = [good % ("17", '"5"'), good % ('"ann"', '"viel"'), good % ("null", "1"), good % ('"ann"', "[1]")]
    more += [*BROKEN_DOCUMENTS, '{"at": "2025-03-03T10:00:00Z", "user": "ann"}', "[]", "null"]
    rows += [{"body": text, "loaded_at": rows[0]["loaded_at"]} for text in [*more, None]]

    def read(row: Row) -> Event:
        document = None if row["body"] is None else json.loads(row["body"])
        at, amount = _of_iso(text_at(document, "at")), whole(text_at(document, "amount"))
        return event_of(text_at(document, "user", "id"), at, amount)

    return RawTable(pa.schema({"body": TEXT, "loaded_at": MOMENT}), rows, read)


def _payment(one: Purchase) -> bytes:
    document = {"at": ms_of(one.at), "user": {"id": one.user}, "amount": one.amount}
    return json.dumps(document, ensure_ascii=False).encode()


def json_in_bytes() -> RawTable:
    rows: list[Row] = [{"value": _payment(one), "loaded_at": one.loaded} for one in purchases()]
    more = [b'{"at": 1, "user": {"id": "\xff\xfe"}}', '{"at": 1, "user": {"id": "Jürgen"}}'.encode("latin-1")]
    more += [*(text.encode() for text in BROKEN_DOCUMENTS), b'{"at": 1740996000000, "user": {}}', b""]
    rows += [{"value": value, "loaded_at": rows[0]["loaded_at"]} for value in [*more, None]]

    def read(row: Row) -> Event:
        document = None if row["value"] is None else json.loads(row["value"].decode("utf-8"))
        at, amount = at_ms(text_at(document, "at")), whole(text_at(document, "amount"))
        return event_of(text_at(document, "user", "id"), at, amount)

    return RawTable(pa.schema({"value": pa.binary(), "loaded_at": MOMENT}), rows, read)


def kafka_topic() -> RawTable:
    values = [(one.user.encode(), _payment(one), one.loaded) for one in purchases(60)]
    loaded = values[0][2]
    values += [(b"ann", None, loaded), (None, values[0][1], loaded), (b"ann", b"{", loaded)]
    values += [(b"\xff", values[0][1], loaded), (b"ann", b'{"amount": 1}', loaded)]
    rows: list[Row] = [
        {
            **{"key": key, "value": value, "topic": "payments", "partition": number % 3, "offset": number},
            **{"timestamp": at, "timestampType": 0},
        }
        for number, (key, value, at) in enumerate(values)
    ]

    def read(row: Row) -> Event:
        document = json.loads(row["value"].decode())
        key = None if row["key"] is None else row["key"].decode()
        return event_of(key, at_ms(text_at(document, "at")), whole(text_at(document, "amount")))

    schema = pa.schema(
        {"key": pa.binary(), "value": pa.binary(), "topic": TEXT, "partition": pa.int32(), "offset": LONG}
        | {"timestamp": MOMENT, "timestampType": pa.int32()}
    )
    return RawTable(schema, rows, read, lambda row: [] if row["value"] is None else [row])


def debezium() -> RawTable:
    def message(operation: str, one: Purchase) -> bytes:
        before, after = ({"user_id": one.user, "amount": amount} for amount in (3, one.amount))
        sides = {"c": (None, after), "r": (None, after), "u": (before, after), "d": (before, None)}
        payload = dict(zip(("before", "after"), sides[operation], strict=True))
        payload |= {"op": operation, "ts_ms": ms_of(one.at), "source": {"ts_ms": ms_of(one.at) - 40}}
        return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()

    rows: list[Row] = [
        {"value": message("crud"[number % 4], one), "timestamp": one.loaded}
        for number, one in enumerate(purchases(80))
    ]
    more = [None, b"{", b'{"payload": null}']
    more += [b'{"payload": {"op": "c", "after": {"user_id": "ann"}, "ts_ms": "now"}}']
    more += [b'{"payload": {"op": "c", "after": {"amount": 1}, "ts_ms": 1740996000000}}']
    more += [b'{"payload": {"op": "u", "after": {"user_id": "ann", "amount": "x"}, "ts_ms": 1740996000000}}']
    rows += [{"value": value, "timestamp": rows[0]["timestamp"]} for value in more]

    def parts(row: Row) -> Sequence[Row]:
        if row["value"] is None:
            return []
        payload = json.loads(row["value"])["payload"]
        return [] if payload is None or payload["op"] == "d" else [payload]

    def read(payload: Row) -> Event:
        after = payload["after"]
        return event_of(after.get("user_id"), at_ms(payload["ts_ms"]), whole(text_at(after, "amount")))

    return RawTable(pa.schema({"value": pa.binary(), "timestamp": MOMENT}), rows, read, parts)
