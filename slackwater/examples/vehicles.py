"""The source of the tollgates: a bronze table with the records of a Kafka topic, as a streaming query of
Spark appends them. The records are vehicles that pass five gates, two a second, each a pure function of its
number.

Most records are appended to the topic within two seconds, one in five up to a minute late, one in a hundred
up to five minutes, and one in a hundred up to ten minutes, of which the pipeline accepts the first seven. One
vehicle in a hundred is reported a second time, by a record that is garbled and can't be counted, in one of
seven ways by turns.

    vehicle n                         in partition n % 3
    garbled record m of a vehicle     in partition m % 3; the vehicle is one from 100 m to 100 m + 99

A partition numbers its records in the order in which they were appended, without gaps: 300 vehicles and their
three garbled records take 101 offsets of each partition, so that no load must count the records before it.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.examples import BadRange, LoadedRange
from slackwater.examples.appending import TIME, append_missing, checked_range
from slackwater.examples.random_numbers import Int64s, below

Booleans = npt.NDArray[np.bool_]

SOURCE = "sources/vehicles"
TOPIC = "vehicles"
PARTITIONS = 3
START = datetime(2024, 1, 1, tzinfo=UTC)
EVERY_MS = 500
TOLLGATES = ("A1", "A2", "B1", "B2", "C1")
# Of a thousand vehicles, so many records are delayed by [least, greatest) milliseconds.
DELAYS = (
    (780, 0, 2_000),
    (200, 2_000, 60_000),
    (10, 60_000, 300_000),
    (10, 300_000, 600_000),
)
GREATEST_DELAY_MS = 600_000
VEHICLES_PER_GARBLED_RECORD, GREATEST_GARBLED_DELAY_MS = 100, 2_000
ROWS_PER_FILE = 14_400  # of about two hours: a streaming query writes many files
LOG_APPEND_TIME = 1  # Spark's number for it; 0 is the time at which the producer made the record
A_YEAR_MS = 366 * 86_400_000
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("timestampType", pa.int32()),
    ]
)


def load_vehicles(warehouse: str, start: datetime, end: datetime) -> LoadedRange:
    """Write the records that were appended to the topic in [start, end) to ``<warehouse>/sources/vehicles``,
    except those that it has.

    `start` and `end` have a time zone; nothing arrives before 2024. Raises BadRange, also for more than 30
    days, and the errors of `append_missing`.
    """
    start, end = checked_range(start, end)
    if end <= START:
        raise BadRange(
            f"nothing arrived before {START:%FT%TZ}, and the range ends at {end:%FT%TZ}. Give a later end.",
            start=start,
            end=end,
        )
    if end - start > timedelta(days=30):
        raise BadRange("a load takes 30 days at most; load one after the other.", start=start, end=end)
    return append_missing(
        warehouse,
        SOURCE,
        records_arrived(start, end),
        start,
        end,
        arrival_time="timestamp",
        identity=("partition", "offset"),
        partition_by=(),
        rows_per_file=ROWS_PER_FILE,
    )


def records_arrived(start: datetime, end: datetime) -> pa.Table:
    """The records that were appended in [start, end), as `SCHEMA`, in that order; the same in every range."""
    since_ms, until_ms = (-((START - moment) // timedelta(milliseconds=1)) for moment in (start, end))
    block = VEHICLES_PER_GARBLED_RECORD * PARTITIONS
    first = max(0, (since_ms - GREATEST_DELAY_MS) // EVERY_MS - 1) // block * block
    vehicles = np.arange(first, max(first, until_ms // EVERY_MS + 1), dtype=np.int64)
    garbled_numbers = np.arange(
        first // VEHICLES_PER_GARBLED_RECORD, -(-(vehicles.size + first) // VEHICLES_PER_GARBLED_RECORD)
    )
    garbled_vehicles = garbled_numbers * VEHICLES_PER_GARBLED_RECORD + below(
        garbled_numbers, 5, VEHICLES_PER_GARBLED_RECORD
    )
    vehicle = np.concatenate([vehicles, garbled_vehicles])
    is_garbled = np.arange(vehicle.size) >= vehicles.size
    partition = np.concatenate([vehicles, garbled_numbers]) % PARTITIONS
    event_ms = _event_ms(vehicle)
    delays = [_delays(vehicles), below(garbled_vehicles, 6, GREATEST_GARBLED_DELAY_MS)]
    arrival_ms = event_ms + np.concatenate(delays)
    order = np.argsort(arrival_ms, kind="stable")
    offset = np.empty_like(vehicle)
    for number in range(PARTITIONS):  # all records before `first` were appended before `start`
        partition_places = order[partition[order] == number]
        offset[partition_places] = first // block * (VEHICLES_PER_GARBLED_RECORD + 1) + np.arange(
            partition_places.size
        )
    chosen = order[slice(*np.searchsorted(arrival_ms, [since_ms, until_ms], sorter=order))]
    start_ms = int(START.timestamp()) * 1_000
    columns = {
        "key": _of_tollgate(vehicle[chosen], "{}"),
        "value": _values(vehicle[chosen], start_ms + event_ms[chosen], is_garbled[chosen]),
        "topic": pa.repeat(TOPIC, chosen.size),
        "partition": pa.array(partition[chosen]),
        "offset": pa.array(offset[chosen]),
        "timestamp": pa.array((start_ms + arrival_ms[chosen]) * 1000),
        "timestampType": pa.repeat(LOG_APPEND_TIME, chosen.size),
    }
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)


def _event_ms(vehicle: Int64s) -> Int64s:
    return vehicle * EVERY_MS + below(vehicle, 0, EVERY_MS)


def _delays(vehicle: Int64s) -> Int64s:
    shares, least, greatest = (np.asarray(column, np.int64) for column in zip(*DELAYS, strict=True))
    kind = np.searchsorted(np.cumsum(shares), below(vehicle, 3, int(shares.sum())), side="right")
    return least[kind] + below(vehicle, 4, (greatest - least)[kind])


def _of_tollgate(vehicle: Int64s, text: str) -> pa.Array:
    """`text` for each vehicle, with its tollgate."""
    texts = [text.format(tollgate) for tollgate in TOLLGATES]
    return pa.array(texts).take(pa.array(below(vehicle, 1, len(TOLLGATES))))


def _values(vehicle: Int64s, ts: Int64s, is_garbled: Booleans) -> pa.Array:
    values = pc.binary_join_element_wise(
        _of_tollgate(vehicle, '{{"tollgate": {{"id": "{}"}}, "vehicle": '),
        pa.array(100_000 + below(vehicle, 2, 900_000)).cast(pa.string()),
        ', "ts": ',
        pa.array(ts).cast(pa.string()),
        "}",
        "",
    ).cast(pa.binary())
    garbled_vehicle = vehicle[is_garbled]
    ways, cuts = garbled_vehicle // VEHICLES_PER_GARBLED_RECORD % 7, below(garbled_vehicle, 7, 60)
    garbled_values = map(_garble, values.filter(is_garbled).to_pylist(), ways.tolist(), cuts.tolist())
    return pc.replace_with_mask(values, is_garbled, pa.array(list(garbled_values), pa.binary()))


def _garble(value: bytes, way: int, cut: int) -> bytes | None:
    """Garble a value in one of seven ways; none of the results can be counted."""
    head, _, ts = value[:-1].partition(b', "ts": ')
    match way:
        case 0:  # cut short
            return value[: 1 + cut]
        case 1:  # no UTF-8
            return value.replace(b'"id": "', b'"id": "\xc3\xff')
        case 2:  # a text in place of a number
            return head + b', "ts": "' + ts + b' ms"}'
        case 3:  # a clock that is ahead
            return head + b', "ts": %d}' % (int(ts) + A_YEAR_MS)
        case 4:  # no tollgate
            return b'{"tollgate": null' + head[head.index(b', "vehicle"') :] + b', "ts": ' + ts + b"}"
        case 5:  # no time
            return head + b"}"
        case _:  # a tombstone
            return None
