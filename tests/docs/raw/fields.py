"""Tables of stored times, of nested values, and of columns with other names."""

import hashlib
import json
import random
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from tests.docs.raw.tables import (
    BERLIN,
    LOCAL,
    LONG,
    MOMENT,
    TEXT,
    Event,
    Purchase,
    RawTable,
    Row,
    at_ms,
    event_of,
    moment_in,
    moment_in_berlin,
    ms_of,
    purchases,
    text_at,
    whole,
)


def times(event_column: str, loaded_column: str | None = "loaded_at") -> RawTable:
    rows: list[Row] = [
        {event_column: one.at, "user_id": one.user, "amount": one.amount}
        | ({loaded_column: one.loaded} if loaded_column else {})
        for one in purchases()
    ]
    rows += [{**rows[0], event_column: None}]

    def read(row: Row) -> Event:
        return event_of(row["user_id"], row[event_column], row["amount"])

    columns = {event_column: MOMENT, "user_id": TEXT, "amount": LONG}
    return RawTable(pa.schema(columns | ({loaded_column: MOMENT} if loaded_column else {})), rows, read)


def archive() -> RawTable:
    table = times("happened_at", None)

    def read(row: Row) -> Event:
        return event_of(row["user_id"], row["happened_at"], row["amount"], row["happened_at"])

    return RawTable(table.schema, table.rows, read)


def local_times() -> RawTable:
    """Every ten minutes of the mornings on which clocks change, and one time far from them."""
    mornings = [datetime(2025, 3, 30), datetime(2025, 10, 26), datetime(2025, 7, 1)]  # noqa: DTZ001 - local
    rows: list[Row] = [
        {
            "started_at": morning + timedelta(minutes=10 * number),
            "loaded_at": morning + timedelta(minutes=10 * number + 5),
            "user_id": ("ann", "Jürgen Groß")[number % 2],
            "amount": None if number % 7 == 3 else number,
        }
        for morning in mornings
        for number in range(30)
    ]
    rows += [{**rows[0], "started_at": None}, {**rows[0], "loaded_at": None}]

    def read(row: Row) -> Event:
        at = None if row["started_at"] is None else moment_in_berlin(row["started_at"])
        return event_of(row["user_id"], at, row["amount"], row["loaded_at"])

    schema = pa.schema({"started_at": LOCAL, "loaded_at": LOCAL, "user_id": TEXT, "amount": LONG})
    return RawTable(schema, rows, read)


def time_in_a_struct() -> RawTable:
    rows: list[Row] = [
        {
            "meta": {"created_at": one.at, "loaded_ms": ms_of(one.loaded)},
            "user_id": one.user,
            "amount": one.amount,
        }
        for one in purchases()
    ]
    meta = rows[0]["meta"]
    rows += [{**rows[0], "meta": None}, {**rows[0], "meta": {**meta, "created_at": None}}]
    rows += [{**rows[0], "meta": {**meta, "loaded_ms": 2**62}}]

    def read(row: Row) -> Event:
        own = row["meta"] or {"created_at": None, "loaded_ms": None}
        return event_of(row["user_id"], own["created_at"], row["amount"], at_ms(own["loaded_ms"]))

    kind = pa.struct({"created_at": MOMENT, "loaded_ms": LONG})
    return RawTable(pa.schema({"meta": kind, "user_id": TEXT, "amount": LONG}), rows, read)


def nested_key() -> RawTable:
    rows: list[Row] = [
        {"payload": {"user": {"id": one.user}}, "event_time": one.at, "loaded_at": one.loaded}
        | {"amount": one.amount}
        for one in purchases()
    ]
    rows += [{**rows[0], "payload": payload} for payload in (None, {"user": None}, {"user": {"id": None}})]

    def read(row: Row) -> Event:
        user = (row["payload"] or {}).get("user") or {}
        return event_of(user.get("id"), row["event_time"], row["amount"])

    kind = pa.struct({"user": pa.struct({"id": TEXT})})
    schema = pa.schema({"payload": kind, "event_time": MOMENT, "loaded_at": MOMENT, "amount": LONG})
    return RawTable(schema, rows, read)


def maps() -> RawTable:
    def properties(one: Purchase) -> dict[str, str]:
        amount = {} if one.amount is None else {"amount": str(one.amount)}
        return {"country": "ÖCD"[len(one.user) % 3], "browser": "x", **amount}

    values = [(properties(one), one.at, one.loaded) for one in purchases()]
    _, at, loaded = values[0]
    for entries in ({"amount": "1"}, {"country": "D", "amount": "viel"}, {"country": "D", "amount": ""}, {}):
        values.append((entries, at, loaded))
    rows: list[Row] = [
        {"props": list(entries.items()), "event_time": at, "loaded_at": loaded}
        for entries, at, loaded in values
    ]
    rows += [{**rows[0], "props": None}]

    def read(row: Row) -> Event:
        entries = dict(row["props"] or [])
        return event_of(entries.get("country"), row["event_time"], whole(entries.get("amount")))

    schema = pa.schema({"props": pa.map_(TEXT, TEXT), "event_time": MOMENT, "loaded_at": MOMENT})
    return RawTable(schema, rows, read)


def _baskets() -> list[tuple[Purchase, list[dict[str, Any]]]]:
    choice = random.Random(3)
    return [
        (
            one,
            [
                {"sku": choice.choice(["tea", "Öl", "rye"]), "price": choice.randrange(9), "quantity": 2}
                for _ in range(choice.randrange(4))
            ],
        )
        for one in purchases()
    ]


def arrays_of_structs() -> RawTable:
    rows: list[Row] = [
        {"items": items, "event_time": one.at, "loaded_at": one.loaded} for one, items in _baskets()
    ]
    good = {"sku": "tea", "price": 1, "quantity": 1}
    lists = [None, [], [good, {**good, "sku": None}], [{**good, "price": 2**62, "quantity": 4}, good]]
    rows += [{**rows[0], "items": items} for items in [*lists, [None, good], [{**good, "price": None}]]]

    def read(item: Row) -> Event:
        price, quantity = item["price"], item["quantity"]
        amount = None if price is None or quantity is None else price * quantity
        if amount is not None and amount >= 2**63:
            raise OverflowError(amount)
        return event_of(item["sku"], item["event_time"], amount)

    def parts(row: Row) -> Sequence[Row]:
        nothing = {"sku": None, "price": None, "quantity": None}
        return [{**(item or nothing), "event_time": row["event_time"]} for item in row["items"] or []]

    items = pa.list_(pa.struct({"sku": TEXT, "price": LONG, "quantity": LONG}))
    schema = pa.schema({"items": items, "event_time": MOMENT, "loaded_at": MOMENT})
    return RawTable(schema, rows, read, parts)


def arrays_in_json() -> RawTable:
    rows: list[Row] = [
        {
            "body": json.dumps({"items": [{"sku": item["sku"], "amount": item["price"]} for item in items]}),
            "event_time": one.at,
            "loaded_at": one.loaded,
        }
        for one, items in _baskets()
    ]
    texts = ["{}", '{"items": [{"amount": 1}, {"sku": "tea", "amount": "viel"}, {"sku": "tea"}]}']
    texts += ['{"items": [', "no JSON", '{"items": "none"}', '{"items": {"sku": "tea"}}', '{"items": null}']
    texts += ['{"items": [null, 7, {"sku": "Öl", "amount": 2}]}']
    rows += [{**rows[0], "body": text} for text in [*texts, None]]

    def read(part: Row) -> Event:
        amount = whole(text_at(part["item"], "amount"))
        return event_of(text_at(part["item"], "sku"), part["event_time"], amount)

    def parts(row: Row) -> Sequence[Row]:
        document = None if row["body"] is None else json.loads(row["body"])
        items = None if document is None else document.get("items")
        if items is not None and not isinstance(items, list):
            raise TypeError("no list")
        return [{"item": item, "event_time": row["event_time"]} for item in items or []]

    schema = pa.schema({"body": TEXT, "event_time": MOMENT, "loaded_at": MOMENT})
    return RawTable(schema, rows, read, parts)


def odd_names() -> RawTable:
    names = ("Customer ID", "Order Time", "Loaded At", "order.amount")
    rows: list[Row] = [
        dict(zip(names, (one.user, one.at, one.loaded, one.amount), strict=True)) for one in purchases()
    ]
    rows += [{**rows[0], name: None} for name in names]

    def read(row: Row) -> Event:
        key, at, loaded, amount = (row[name] for name in names)
        return event_of(key, at, amount, loaded)

    return RawTable(pa.schema(list(zip(names, (TEXT, MOMENT, MOMENT, LONG), strict=True))), rows, read)


def identities() -> RawTable:
    devices = [uuid.UUID(int=number * 2**100 + 5) for number in range(3)]
    spellings: list[Callable[[uuid.UUID], str]] = [str, lambda one: one.hex, lambda one: str(one).upper()]
    rows: list[Row] = [
        {
            "device_id": spellings[number // 3 % 3](devices[number % 3]),
            "email": ("ann@x.org", "JÜRGEN@x.org")[number % 2],
            "secret": bytes([number % 2, 0, 254]),
            "event_time": one.at,
            "loaded_at": one.loaded,
            "amount": one.amount,
        }
        for number, one in enumerate(purchases())
    ]
    rows += [{**rows[0], "device_id": text} for text in ("no uuid", "", None)]
    rows += [{**rows[0], "email": None}, {**rows[0], "secret": None}, {**rows[0], "secret": b""}]

    def read(row: Row) -> Event:
        device, email, secret = row["device_id"], row["email"], row["secret"]
        keys = (
            None if device is None else str(uuid.UUID(device)),
            None if email is None else hashlib.md5(email.lower().encode()).hexdigest(),
            None if secret is None else secret.hex().upper(),
        )
        return event_of(keys, row["event_time"], row["amount"])

    schema = pa.schema(
        {"device_id": TEXT, "email": TEXT, "secret": pa.binary(), "event_time": MOMENT, "loaded_at": MOMENT}
        | {"amount": LONG}
    )
    return RawTable(schema, rows, read)


def web_and_till() -> list[RawTable]:
    def body(one: Purchase) -> str:
        return json.dumps({"user": one.user, "amount": one.amount})

    web: list[Row] = [
        {"sent": ms_of(one.at), "body": body(one), "loaded_at": one.loaded} for one in purchases(30)
    ]
    web += [{**web[0], "body": "{"}, {**web[0], "sent": None}]

    def read_web(row: Row) -> Event:
        document = json.loads(row["body"])
        return event_of(document["user"], at_ms(row["sent"]), document["amount"])

    till: list[Row] = []
    for one in purchases(25):
        day, clock = one.at.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M").split(" ")
        till.append(
            {"day": day, "clock": clock, "card": one.user, "amount": one.amount, "loaded_at": one.loaded}
        )
    till += [{**till[0], "clock": "25:00"}, {**till[0], "clock": None}, {**till[0], "card": None}]

    def read_till(row: Row) -> Event:
        texts = (row["day"], row["clock"])
        at = None if None in texts else moment_in_berlin(moment_in(" ".join(texts), ["%Y-%m-%d %H:%M"]))
        return event_of(row["card"], at, row["amount"])

    return [
        RawTable(pa.schema({"sent": LONG, "body": TEXT, "loaded_at": MOMENT}), web, read_web),
        RawTable(
            pa.schema({"day": TEXT, "clock": TEXT, "card": TEXT, "amount": LONG, "loaded_at": MOMENT}),
            till,
            read_till,
        ),
    ]
