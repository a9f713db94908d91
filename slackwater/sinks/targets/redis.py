"""Hashes in Redis, one per row of `published`, through redis-py.

The position is a hash of its own, which a Lua script compares and moves together with the rows: Redis runs a
script whole or not at all, and nothing else meanwhile. Rows and position lie in one database, so whatever
Redis forgets it forgets of both.
"""

import json
import re
import string
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import redis

from slackwater.pipelines.sinks import START, SinkContext, SinkPosition, SinkTarget
from slackwater.pipelines.window_columns import WINDOW_BOUNDS
from slackwater.sinks.connections import resolve_url
from slackwater.sinks.errors import SinkUnsuitable, as_sink_down, foreign_lineage_error, foreign_sink_error
from slackwater.sinks.key_patterns import fields_of
from slackwater.sinks.targets.rows import columns_of, standing_rows

# Says whose keys begin how: the field is how the keys of a sink begin, the value [pipeline, sink, lineage].
OWNERS = "slackwater:keys"
# KEYS[1]: the position; KEYS[2]: OWNERS. ARGV: lineage, seq and offset at which the batch starts, those at
# which it ends, the keys to delete, and the hashes to set, both as JSON: ["key", …] and
# [["key", "field", "value", …], …]; the pattern of the keys, how they begin, and the owner.
# Returns 1, or 0 where the position is elsewhere or the keys are another's.
_SCRIPT = """
local at = redis.call('HMGET', KEYS[1], 'lineage', 'seq', 'offset')
if at[1] then
    if at[1] ~= ARGV[1] or at[2] ~= ARGV[2] or at[3] ~= ARGV[3] then return 0 end
elseif ARGV[2] ~= '0' or ARGV[3] ~= '0' then
    return 0
end
redis.call('HSETNX', KEYS[2], ARGV[9], ARGV[10])
if redis.call('HGET', KEYS[2], ARGV[9]) ~= ARGV[10] then return 0 end
for _, key in ipairs(cjson.decode(ARGV[6])) do redis.call('DEL', key) end
for _, row in ipairs(cjson.decode(ARGV[7])) do
    for i = 2, #row, 2 do redis.call('HSET', row[1], row[i], row[i + 1]) end
end
redis.call('HSET', KEYS[1], 'lineage', ARGV[1], 'seq', ARGV[4], 'offset', ARGV[5], 'key', ARGV[8])
return 1
"""
_TIMEOUT_S = 30
_MOST_LANES = 256
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


class RedisTarget(SinkTarget):
    """An opened `RedisSink`."""

    def __init__(self, *, sink: str, url: str, key: str, context: SinkContext, client: redis.Redis) -> None:
        self._sink, self._url, self._pattern, self._context, self._client = sink, url, key, context, client
        self._place = f"slackwater:{context.pipeline}:{sink}"
        self._script = client.register_script(_SCRIPT)
        self._prefix = next(literal for literal, *_ in string.Formatter().parse(key))
        self._owner = json.dumps([context.pipeline, sink, context.lineage])
        self._results = tuple(name for name, _ in context.results)
        # One text can be told from numbers beside it; of several each is written so that no separator is in
        # it.
        several = texts_of(context) & fields_of(key)
        self._quoted_columns = several if len(several) > 1 else set[str]()

    @classmethod
    def open(cls, sink: str, url: str, key: str, context: SinkContext) -> "RedisTarget":
        """The target of a declaration. Connects with the first call; raises SinkUnsuitable."""
        address = resolve_url(sink, url)
        try:
            client = redis.Redis.from_url(
                address, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, decode_responses=True
            )
        except ValueError as error:
            raise SinkUnsuitable(
                f"sink {sink}: {url} names no URL of Redis; one is such as redis://host:6379/0.", sink=sink
            ) from error
        check_key(sink, key, context)
        return cls(sink=sink, url=url, key=key, context=context, client=client)

    def position(self) -> SinkPosition:
        """See `SinkTarget.position`. A sink with another key begins anew; raises SinkUnsuitable, SinkDown."""
        with self._talking():
            values: Mapping[str, str] = self._client.hgetall(self._place)  # type: ignore[assignment]
        if values and values.get("lineage") != self._context.lineage:
            raise foreign_lineage_error(self._sink, self._context.pipeline, "Redis")
        if (owner := self._other_owner()) is not None:
            place = f"what begins with {self._prefix!r} in Redis"
            raise foreign_sink_error(self._sink, self._context.pipeline, place, (owner[1], owner[0]))
        if not values:
            return START
        if values["key"] != self._pattern:
            self.reset(START)
            return START
        return SinkPosition(int(values["seq"]), int(values["offset"]))

    def _other_owner(self) -> list[str] | None:
        """The pipeline, sink and lineage of a sink whose keys may equal this one's, going by their prefix."""
        with self._talking():
            owners: Mapping[str, str] = self._client.hgetall(OWNERS)  # type: ignore[assignment]
        own_names = [self._context.pipeline, self._sink]
        for prefix, text in owners.items():
            shorter, longer = sorted((prefix, self._prefix), key=len)
            owner: list[str] = json.loads(text)
            if longer.startswith(shorter) and owner[:2] != own_names:
                return owner
        return None

    def deliver(self, changes: pa.Table, start: SinkPosition, end: SinkPosition) -> bool:
        """See `SinkTarget.deliver`."""
        rows, replaced_identities, *_ = standing_rows(changes, self._context)
        keys = self._keys(rows)
        arguments: list[str | int] = [
            self._context.lineage,
            start.seq,
            start.offset,
            end.seq,
            end.offset,
            json.dumps([*self._keys(replaced_identities), *keys]),
            json.dumps(self._hashes(keys, rows)),
            self._pattern,
            self._prefix,
            self._owner,
        ]
        with self._talking():
            return bool(self._script(keys=[self._place, OWNERS], args=arguments))

    def reset(self, position: SinkPosition) -> None:
        """See `SinkTarget.reset`. Keys with no entries left are taken from their owner; raises SinkUnsuitable
        where another sink has entries.
        """
        fields: list[str | int] = ["lineage", self._context.lineage, "seq", position.seq]
        fields += ["offset", position.offset, "key", self._pattern]
        if (owner := self._other_owner()) is not None:
            place = f"what begins with {self._prefix!r} in Redis"
            with self._talking():
                keys = self._client.scan_iter(match=f"{_literal_pattern(self._prefix)}*", count=1000)
                is_free = next(iter(keys), None) is None
                if is_free:
                    self._client.hdel(OWNERS, *self._prefixes_of(owner))
                    self._client.delete(f"slackwater:{owner[0]}:{owner[1]}")
            if not is_free:
                raise foreign_sink_error(self._sink, self._context.pipeline, place, (owner[1], owner[0]))
        with self._talking():
            self._client.delete(*(f"{self._place}/{number}" for number in range(_MOST_LANES)))
            if own_prefixes := self._prefixes_of(json.loads(self._owner)):
                self._client.hdel(OWNERS, *own_prefixes)
            self._client.hset(OWNERS, self._prefix, self._owner)
            self._client.hset(self._place, items=fields)

    def _prefixes_of(self, owner: list[str]) -> list[str]:
        """How the keys of a sink begin."""
        owners: Mapping[str, str] = self._client.hgetall(OWNERS)  # type: ignore[assignment]
        return [prefix for prefix, text in owners.items() if json.loads(text)[:2] == owner[:2]]

    def lane(self, number: int) -> "RedisTarget":
        """See `SinkTarget.lane`."""
        lane = copy(self)
        lane._place = f"{self._place}/{number}"
        return lane

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _keys(self, rows: pa.Table) -> list[str]:
        parts: list[pa.Array | pa.ChunkedArray | str] = []
        for literal, name, _, _ in string.Formatter().parse(self._pattern):
            parts.append(literal)
            if name is not None:
                parts.append(self._placeholder(rows, name))
        return pc.binary_join_element_wise(*parts, "").to_pylist() if rows.num_rows else []

    def _placeholder(self, rows: pa.Table, name: str) -> pa.Array:
        if name not in rows.column_names:
            times = rows.column(name.removesuffix("_ms")).cast(_MILLISECONDS)
            return texts(times.cast(pa.int64()))
        if name in self._quoted_columns:
            return pa.array([quote(text, safe="") for text in rows.column(name).to_pylist()], pa.string())
        values = rows.column(name)
        return texts(values.cast(_MILLISECONDS) if pa.types.is_timestamp(values.type) else values)

    def _hashes(self, keys: list[str], rows: pa.Table) -> list[list[str]]:
        """For each row its key, then field after value of its results that are not null."""
        hashes = [[key] for key in keys]
        for name in self._results:
            for item, text in zip(hashes, texts(rows.column(name)).to_pylist(), strict=True):
                if text is not None:
                    item += name, text
        return [item for item in hashes if len(item) > 1]

    def _talking(self) -> AbstractContextManager[None]:
        return as_sink_down(self._context, self._sink, f"Redis of {self._url}", redis.RedisError)


def _literal_pattern(text: str) -> str:
    """A text as a pattern of Redis that stands for itself."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def check_key(sink: str, key: str, context: SinkContext) -> None:
    """Raise SinkUnsuitable for a key that is the same for rows that are published side by side."""
    fields = fields_of(key)
    placeholders = {*columns_known(context)}
    if unknown := sorted(fields - placeholders):
        raise SinkUnsuitable(
            f"sink {sink}: its key names {', '.join(unknown)}; there are {', '.join(sorted(placeholders))}.",
            sink=sink,
        )
    stems = {field.removesuffix("_ms") for field in fields if field not in dict(context.keys)} | fields
    _check_separators(sink, key, context)
    names_needed = set(context.identity)
    if stems & {*WINDOW_BOUNDS} and [name for name, _ in context.windows] == [*WINDOW_BOUNDS]:
        names_needed -= {*WINDOW_BOUNDS}  # the windows of a key differ in both
    if missing := [name for name in context.identity if name in names_needed - stems]:
        raise SinkUnsuitable(
            f"sink {sink}: its key {key!r} is the same for rows that differ in {', '.join(missing)}, "
            "which would replace each other. Name these in it, too.",
            sink=sink,
        )


def _check_separators(sink: str, key: str, context: SinkContext) -> None:
    """Texts next to each other could not be told apart: ab and c, a and bc."""
    texts, is_separated = texts_of(context), True
    for literal, field, _, _ in string.Formatter().parse(key):
        is_separated = is_separated or any(not character.isalnum() for character in literal)
        if field in texts:
            if not is_separated:
                raise SinkUnsuitable(
                    f"sink {sink}: in its key {key!r} nothing is between two texts. Separate "
                    "them, '{a}:{b}'.",
                    sink=sink,
                )
            is_separated = False


def texts_of(context: SinkContext) -> set[str]:
    """The columns of keys and windows that are texts."""
    columns = (*context.keys, *context.windows)
    return {name for name, kind in columns if pa.types.is_string(kind) or pa.types.is_large_string(kind)}


def columns_known(context: SinkContext) -> tuple[str, ...]:
    """The names that may be in a key."""
    names = [name for name, _ in columns_of(context) if name in context.identity]
    times = [f"{name}_ms" for name in names if name in (*WINDOW_BOUNDS, "timestamp")]
    return (*names, *times)


def texts(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as Redis holds them; null for null."""
    kind = column.type
    if pa.types.is_string(kind):
        values = column
    elif pa.types.is_timestamp(kind):
        values = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        values = column.cast(pa.string())
    else:
        values = pa.array([_text_of(value) for value in column.to_pylist()], pa.string())
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _text_of(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=str)
    return str(value)
