"""Sources that change between two runs, are damaged, or are not there; and files in our folders that nobody
has asked for.

Each case but the last ones runs a day, does something to the source, and runs the next day.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.campaigns.cases.world import LAST_KEY, Case, Row, World, row
from tests.cli.own_source import SCHEMA

DAY_1 = [row(hour, x=int(hour)) for hour in (0, 1, 2, 5, 9.5)]
DAY_2 = [row(hour, x=int(hour)) for hour in (25, 26, 33, 40)]
LAST = row(47, LAST_KEY)
Change = Callable[[World], None]


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _drift()
    yield from _rewrites()
    yield from _damages()
    yield from _garbage()


def _first_day(world: World) -> None:
    world.write(DAY_1)
    world.runs("2013-01-02")


def _goes_on(world: World, change: Change, rows: list[Row] | None = None, second: bool = True) -> None:
    """After `change` the second day is run, and all is as DuckDB counts `rows`."""
    _first_day(world)
    change(world)
    if second:
        world.write([*DAY_2, LAST])
    world.succeeds("plan", "own", "--to", "2013-01-03")
    world.runs()
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2] if rows is None else rows)
    world.succeeds("verify", "own", "--tables")


def _is_refused(world: World, change: Change, words: tuple[str, ...], codes: tuple[int, ...] = (2,)) -> None:
    _first_day(world)
    change(world)
    world.refuses(["run", "own", "--to", "2013-01-03"], *words, codes=codes)


def _writes(schema: pa.Schema, values: dict[str, Any], lacks: tuple[str, ...] = (), **options: Any) -> Change:
    """A change that writes the second day with another schema."""

    def write(world: World) -> None:
        rows = [{**one, **values} for one in (*DAY_2, LAST)]
        rows = [{name: value for name, value in one.items() if name not in lacks} for one in rows]
        world.write(rows, schema, **options)

    return write


def _with(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Schema:
    fields = [pa.field(f.name, kind, nullable) if f.name == name else f for f in SCHEMA]
    if name not in SCHEMA.names:
        fields.append(pa.field(name, kind, nullable))
    return pa.schema(fields)


def _drift() -> Iterator[Case]:
    group, merge = "schema drift", {"schema_mode": "merge"}
    for name, kind, value in (
        ("a column", pa.int64(), 7),
        ("a nested column", pa.struct([("p", pa.list_(pa.int64()))]), {"p": [1, None]}),
        ("a column of decimals", pa.decimal128(38, 10), None),
    ):
        change = _writes(_with("new", kind), {"new": value}, **merge)
        yield Case(group, f"{name} is added", "right result", partial(_goes_on, change=change, second=False))
    for name in ("A column", "a.b", "ünïcode 👍", "run_id2", "select", "x-y", "K"):
        change = _writes(_with(name, pa.int64()), {name: 1}, **merge)
        is_twin = name == "K"  # differs from the key by case alone, which Delta itself refuses
        if not is_twin:
            yield Case(
                group,
                f"a column {name!r} is added",
                "right result",
                partial(_goes_on, change=change, second=False),
            )
    for name in ("run_id", "window_start", "key_group", "late_by_ms", "__arrival_ms", "event_time"):
        change = _writes(_with(name, pa.string()), {name: "mine"}, **merge)
        yield Case(
            group,
            f"a column {name!r} of ours is added",
            "right result or error",
            partial(_goes_on_or_is_refused, change=change, name=name),
        )
    for name, column in (
        ("read by a result", "x"),
        ("that is the key", "k"),
        ("of event times", "e"),
        ("of arrivals", "a"),
    ):
        schema = pa.schema([f for f in SCHEMA if f.name != column])
        change = _all_again(schema, lambda one, column=column: {n: v for n, v in one.items() if n != column})
        yield Case(
            group,
            f"a column {name} is removed",
            "error",
            partial(_is_refused, change=change, words=(column,)),
        )
        renamed = pa.schema([pa.field("other", f.type) if f.name == column else f for f in SCHEMA])
        change = _all_again(
            renamed, lambda one, column=column: {("other" if n == column else n): v for n, v in one.items()}
        )
        yield Case(
            group,
            f"a column {name} is renamed",
            "error",
            partial(_is_refused, change=change, words=(column,)),
        )
    for column, kind, convert in (
        ("x", pa.string(), str),
        ("x", pa.float64(), float),
        ("x", pa.decimal128(20, 2), int),
        ("k", pa.binary(), str.encode),
        ("k", pa.int64(), len),
    ):
        change = _all_again(_with(column, kind), lambda one, c=column, f=convert: {**one, c: f(one[c])})
        yield Case(
            group,
            f"column {column!r} becomes {kind}",
            "error",
            partial(_is_refused, change=change, words=(column,)),
        )


def _goes_on_or_is_refused(world: World, change: Change, name: str) -> None:
    """A name that our tables use: either the run says so, or all is right."""
    _first_day(world)
    change(world)
    done = world.call("run", "own", "--to", "2013-01-03")
    if done.returncode:
        assert done.returncode == 2 and name in done.stderr, done.stderr
        return
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])
    world.succeeds("verify", "own", "--tables")


def _all_again(schema: pa.Schema, convert: Callable[[Row], Row]) -> Change:
    """A change that writes the whole table again with another schema."""

    def write(world: World) -> None:
        rows = [convert(one) for one in (*DAY_1, *DAY_2, LAST)]
        world.write(rows, schema, mode="overwrite", schema_mode="overwrite")

    return write


# --- sources that are written again


def _table(world: World) -> DeltaTable:
    return DeltaTable(world.source)


def _remake(world: World) -> None:
    shutil.rmtree(world.source)
    world.write([*DAY_1, *DAY_2, LAST])


def _write_again(world: World) -> None:
    world.write(DAY_1, mode="overwrite")


def _more_files(world: World) -> None:
    world.write([row(25, "b", 0)])
    world.write([row(26, "b", 0)])
    _table(world).optimize.compact()


def _feed(world: World) -> None:
    _table(world).alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true"}, raise_if_not_exists=False
    )


def _rewrites() -> Iterator[Case]:
    group, changed = "a source written again", ("backfill", "2013-01-01")
    more = [*DAY_1, *DAY_2, row(25, "b", 0), row(26, "b", 0)]
    for name, change, rows in (
        ("the same rows again", _write_again, None),
        ("OPTIMIZE", _more_files, more),
        ("VACUUM", lambda w: _table(w).vacuum(0, False, False), None),
        ("a checkpoint", lambda w: _table(w).create_checkpoint(), None),
        ("a change data feed is switched on", _feed, None),
        ("Z-ordering", lambda w: _table(w).optimize.z_order(["x"]), None),
        ("rows that no run has read are deleted", _delete_unread, None),
    ):
        yield Case(group, name, "right result", partial(_goes_on, change=change, rows=rows))
    for name, change in (
        ("a row that was read is deleted", lambda w: _table(w).delete("x = 5")),
        ("a row that was read is updated", lambda w: _table(w).update({"x": "x + 1"}, predicate="x = 5")),
        ("deleted with a change data feed", lambda w: (_feed(w), _table(w).delete("x = 5"))),
        ("updated, then optimized and vacuumed", _update_and_vacuum),
        ("other rows take their place", lambda w: w.write([row(3, "c", 9)], mode="overwrite")),
        ("a deletion vector hides a row", partial(_hide, positions=[2])),
    ):
        yield Case(group, name, "error", partial(_is_refused, change=change, words=changed))
    everything = partial(_is_refused, change=lambda w: _table(w).delete(), words=changed)
    yield Case(group, "all rows are deleted", "error", everything)
    for name, change in (
        ("dropped and made again", _remake),
        ("made again from another table", _remake_with_others),
    ):
        yield Case(
            group,
            name,
            "error",
            partial(_is_refused, change=change, words=("dropped and made again", "backfill")),
        )
    yield Case(group, "after a refusal the range is restated", "right result", _restated)
    yield Case(group, "a deletion vector hides rows before the first run", "right result", _hidden_before)
    yield Case(group, "columns that are mapped by name", "right result", _mapped)
    yield Case(
        group, "restored to the version that was read", "right result", partial(_goes_on, change=_restore)
    )


def _delete_unread(world: World) -> None:
    world.write([row(26, "b", 0)])
    _table(world).delete("k = 'b'")


def _update_and_vacuum(world: World) -> None:
    _table(world).update({"x": "x + 1"}, predicate="x = 5")
    _table(world).optimize.compact()
    _table(world).vacuum(0, False, False)


def _remake_with_others(world: World) -> None:
    shutil.rmtree(world.source)
    world.write([row(3, "c", 9)])


def _restore(world: World) -> None:
    version = _table(world).version()
    world.write([row(26, "b", 0)])
    _table(world).restore(version)


def _restated(world: World) -> None:
    _first_day(world)
    _table(world).update({"x": "x + 1"}, predicate="x = 5")
    world.write([*DAY_2, LAST])
    world.refuses(["run", "own", "--to", "2013-01-03"], "backfill")
    world.succeeds("backfill", "own", "--from", "2013-01-01", "--to", "2013-01-02")
    world.runs()
    right = [{**one, "x": one["x"] + (one["x"] == 5)} for one in (*DAY_1, *DAY_2)]
    world.publishes_what_duckdb_counts(right)


def _hide(world: World, positions: list[int]) -> None:
    from tests.engine.source.test_deletion_vectors import hide

    hide(Path(world.source), positions, "u")


def _hidden_before(world: World) -> None:
    world.write([*DAY_1, *DAY_2, LAST])
    _hide(world, [1, 3])
    world.runs()
    world.publishes_what_duckdb_counts([DAY_1[0], DAY_1[2], DAY_1[4], *DAY_2])


def _mapped(world: World) -> None:
    """The log says that the column `x` stands in the files as `col-x`."""
    schema = pa.schema([pa.field("col-x", f.type) if f.name == "x" else f for f in SCHEMA])
    rows = [
        {("col-x" if name == "x" else name): value for name, value in one.items()}
        for one in (*DAY_1, *DAY_2, LAST)
    ]
    world.write(rows, schema)
    log = Path(world.source) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            fields = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(fields["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = "x" if field["name"] == "col-x" else field["name"]
            action["metaData"]["schemaString"] = json.dumps(fields)
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "4",
            }
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    world.runs()
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])


# --- sources that are damaged


def _newest_file(world: World) -> Path:
    files = Path(world.source).glob("*.parquet")
    return max(files, key=lambda path: path.stat().st_mtime_ns)


def _newest_commit(world: World) -> Path:
    return max((Path(world.source) / "_delta_log").glob("*.json"))


def _damaged(
    world: World, place: Callable[[World], Path], harm: Callable[[Path], object], words: tuple[str, ...]
) -> None:
    _first_day(world)
    world.write([*DAY_2, LAST])
    path = place(world)
    content = path.read_bytes()
    harm(path)
    command = ["run", "own", "--to", "2013-01-03"]
    world.refuses(command, *(words or (path.name,)), codes=(1, 2))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    world.runs()
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip_end(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-6] ^= 255
    path.write_bytes(bytes(content))


def _other_schema(path: Path) -> None:
    pq.write_table(pa.table({"y": [1, 2, 3]}), path)


def _damages() -> Iterator[Case]:
    group = "a damaged source"
    for name, harm in (
        ("cut off", _cut),
        ("emptied", lambda path: path.write_bytes(b"")),
        ("removed", Path.unlink),
        ("its footer's length changed", _flip_end),
        ("replaced by a text", lambda path: path.write_text("k,x\na,1\n")),
        ("replaced by another table's", _other_schema),
        ("zeros of the same length", lambda path: path.write_bytes(bytes(path.stat().st_size))),
    ):
        yield Case(
            group,
            f"a Parquet file: {name}",
            "error",
            partial(_damaged, place=_newest_file, harm=harm, words=()),
        )
    for name, harm in (
        ("emptied", lambda path: path.write_bytes(b"")),
        ("cut off", _cut),
        ("no JSON", lambda path: path.write_text("garbage\n")),
        ("bytes that are no text", lambda path: path.write_bytes(b"\xff\xfe\x00" * 9)),
        ("JSON of something else", lambda path: path.write_text("[1, 2]\n")),
        ("an add without a path", lambda path: path.write_text('{"add": {"size": 1}}\n')),
    ):
        yield Case(
            group,
            f"a commit: {name}",
            "error",
            partial(_damaged, place=_newest_commit, harm=harm, words=("sources/own",)),
        )
    yield Case(group, "a commit in the middle is removed", "error", _gap)
    for name, make, words in (
        ("there is none", lambda world: None, "sources/own"),
        ("an empty folder", lambda world: Path(world.source).mkdir(parents=True), "sources/own"),
        ("a file", _source_is_a_file, "sources/own"),
        ("a folder of Parquet files", _source_is_a_folder, "sources/own"),
        (
            "an empty log",
            lambda world: (Path(world.source) / "_delta_log").mkdir(parents=True),
            "sources/own",
        ),
    ):
        yield Case(group, f"no table: {name}", "error", partial(_no_table, make=make, words=words))


def _gap(world: World) -> None:
    _first_day(world)
    for one in (*DAY_2, LAST):
        world.write([one])
    log = Path(world.source) / "_delta_log"
    (log / f"{2:020d}.json").unlink()
    world.refuses(["run", "own", "--to", "2013-01-03"], "is missing", codes=(1, 2))


def _source_is_a_file(world: World) -> None:
    Path(world.source).parent.mkdir(parents=True)
    Path(world.source).write_text("rows")


def _source_is_a_folder(world: World) -> None:
    Path(world.source).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(DAY_1, schema=SCHEMA), Path(world.source) / "a.parquet")


def _no_table(world: World, make: Callable[[World], object], words: str) -> None:
    make(world)
    for verb in ("run", "plan"):
        world.refuses([verb, "own", "--to", "2013-01-03"], words, codes=(1, 2))


# --- garbage in folders


def _garbage() -> Iterator[Case]:
    group = "garbage in folders"
    for name, files in (
        ("of the source", ("sources/own/notes.txt", "sources/own/.hidden", "sources/own/part-x.parquet")),
        ("of the source's log", ("sources/own/_delta_log/x.tmp", "sources/own/_delta_log/_commits/x.json")),
        ("of the warehouse", ("notes.txt", ".DS_Store", "other/notes.txt", "runs/x")),
        ("of the pipeline", ("own/notes.txt", "own/.DS_Store", "own/x/y", "own/side_x/notes.txt")),
        (
            "of the ledger",
            ("own/runs/x.parquet", "own/runs/_delta_log/x.tmp", "own/runs/_delta_log/.x.json.crc"),
        ),
        (
            "of published",
            ("own/published/x.parquet", "own/published/window_date=x/y.parquet", "own/published/.y"),
        ),
        ("of the state", ("own/window_state/run_id=x/y.parquet", "own/timers/x.json", "own/keyed_state/x")),
        ("of the record of the source", ("own/_source_files/x", "own/_source_files/x.json")),
    ):
        yield Case(group, name, "right result", partial(_with_garbage, files=files))
    for table in ("panes", "published", "runs"):
        act = partial(_file_for_a_table, table=table)
        yield Case(group, f"a file in the place of the folder of {table}", "error", act)


def _with_garbage(world: World, files: tuple[str, ...]) -> None:
    _first_day(world)
    for file in files:
        path = world.warehouse / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x00garbage\xff")
    world.write([*DAY_2, LAST])
    world.runs()
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])
    for verb in (
        ["verify", "own", "--tables"],
        ["maintain", "own"],
        ["state", "windows", "own"],
        ["health", "own"],
        ["sql", "own", "SELECT count(*) FROM panes_live"],
    ):
        world.succeeds(*verb)
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])


def _file_for_a_table(world: World, table: str) -> None:
    _first_day(world)
    world.write([*DAY_2, LAST])
    folder = world.warehouse / "own" / table
    folder.rename(folder.with_name("away"))
    folder.write_text("not a table")
    done = world.call("run", "own", "--to", "2013-01-03")
    assert done.returncode in (1, 2), done
    assert table in done.stderr, done.stderr
    folder.unlink()
    folder.with_name("away").rename(folder)
    world.runs()
    world.publishes_what_duckdb_counts([*DAY_1, *DAY_2])
