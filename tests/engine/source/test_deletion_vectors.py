"""Deletion vectors: what is read of them is what delta-rs reads, wherever they stand, and rows that they hide
are nowhere.
"""

import base64
import json
import struct
import zlib
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.deletion_vectors import hidden_rows, vectors_at
from slackwater.engine.source.files import files_with_bounds
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.row_changes import row_changes_since
from slackwater.engine.source.row_groups import SourceFile
from slackwater.tables.errors import DamagedFile
from tests.engine.source.arrivals import SOURCE, after, ms, table_of

ROWS, GROUP = 3000, 500
HIDDEN = [0, 7, 499, 500, 1700, *range(2000, 2500), 2999]
NAME = UUID("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def z85(data: bytes) -> str:
    return base64.b85encode(data + bytes(-len(data) % 4)).decode().translate(str.maketrans(_B85, _Z85))


def hide(uri: Path, positions: list[int], storage: str) -> None:
    """Commit a deletion vector for the only file of a table, as Delta's protocol lays it out."""
    vector = struct.pack("<i", 1681511377) + BitMap64(positions).serialize()
    described = {"storageType": storage, "sizeInBytes": len(vector), "cardinality": len(positions)}
    if storage == "i":
        described["pathOrInlineDv"] = z85(vector)
    else:
        content = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        (uri / "ab").mkdir(exist_ok=True)
        (uri / f"ab/deletion_vector_{NAME}.bin").write_bytes(b"\1" + content)
        described |= {"pathOrInlineDv": f"ab{z85(NAME.bytes)}", "offset": 1}
    version = DeltaTable(str(uri)).version()
    log = uri / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{version:020d}.json").read_text().splitlines()]
    [add] = [action["add"] for action in actions if "add" in action]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    lines = [
        {"commitInfo": {"timestamp": 0, "operation": "DELETE"}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}},
        {"add": {**add, "deletionVector": described}},
    ]
    (log / f"{version + 1:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One file of several row groups."""
    rows = table_of({row: after(row / 100) for row in range(ROWS)})
    write_deltalake(str(tmp_path), rows)
    [path] = DeltaTable(str(tmp_path)).get_add_actions(flatten=True).column("path").to_pylist()
    pq.write_table(rows, tmp_path / path, row_group_size=GROUP)
    return tmp_path


@pytest.mark.parametrize("storage", ["u", "i"])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_rows_that_a_vector_hides_are_those_that_delta_rs_leaves_out(
    table: Path, storage: str, has_checkpoint: bool
) -> None:
    hide(table, HIDDEN, storage)
    reader = DeltaTable(str(table))
    if has_checkpoint:
        reader.create_checkpoint()
    [is_visible] = pa.table(reader.deletion_vectors()).column("selection_vector").to_pylist()
    [vector] = vectors_at(str(table), reader.version()).values()
    assert hidden_rows(str(table), vector).tolist() == np.flatnonzero(~np.array(is_visible)).tolist()
    assert vectors_at(str(table), reader.version() - 1) == {}


def test_hidden_rows_are_read_nowhere(table: Path) -> None:
    hide(table, HIDDEN, "u")
    source = pin(SOURCE, str(table))
    visible_rows = sorted(set(range(ROWS)) - set(HIDDEN))
    [(file, _)] = files_with_bounds(source.actions, "a")
    assert (file.rows, file.stored_rows) == (len(visible_rows), ROWS)
    assert read_columns(source.uri, file, source.schema, ["row"]).column("row").to_pylist() == visible_rows
    batches = list(SourceFile(source.uri, file, source.schema).batches(["a", "row"], ["a"], rows_at_once=900))
    assert sum(batch.rows.num_rows for batch in batches) == len(visible_rows)
    last_rows = [
        batch.full_rows(np.array([batch.rows.num_rows - 1])).column("row")[0].as_py() for batch in batches
    ]
    ends = np.cumsum([batch.rows.num_rows for batch in batches])
    assert len(batches) > 1 and last_rows == [visible_rows[end - 1] for end in ends]


def test_texts_that_delta_rs_writes_as_views_are_hidden_too(tmp_path: Path) -> None:
    rows = table_of({row: after(row) for row in range(3)})
    rows = rows.append_column("k", pa.array(["a", "b", "c"]))
    write_deltalake(str(tmp_path), rows)
    [path] = DeltaTable(str(tmp_path)).get_add_actions(flatten=True).column("path").to_pylist()
    views = rows.set_column(rows.schema.get_field_index("k"), "k", rows.column("k").cast(pa.string_view()))
    pq.write_table(views, tmp_path / path)
    hide(tmp_path, [1], "i")
    source = pin(SOURCE, str(tmp_path))
    [(file, _)] = files_with_bounds(source.actions, "a")
    assert read_columns(source.uri, file, source.schema, ["k"]).column("k").to_pylist() == ["a", "c"]


def test_rows_that_a_vector_hides_since_a_run_are_named_one_by_one(table: Path) -> None:
    before = pin(SOURCE, str(table))
    hide(table, [7, 1700], "u")
    [changes] = row_changes_since(pin(SOURCE, str(table)), before, "a") or ()
    assert changes.arrivals.tolist() == [ms(after(0.07)), ms(after(17))]
    assert (changes.removed_counts.tolist(), changes.added_counts.tolist()) == ([1, 1], [0, 0])


def test_a_vector_that_is_not_what_was_written_is_refused(table: Path) -> None:
    hide(table, HIDDEN, "u")
    path = next((table / "ab").iterdir())
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    [vector] = vectors_at(str(table), 1).values()
    with pytest.raises(DamagedFile, match="the deletion vector in it is not what was written"):
        hidden_rows(str(table), vector)
