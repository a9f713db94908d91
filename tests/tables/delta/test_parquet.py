"""A file is read as it was written or not at all, and every reader of Parquet reads it."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from slackwater.tables.delta.parquet import (
    Damage,
    SealedWriter,
    check_footer,
    checked_bytes,
    damage,
    is_sealed_by_name,
    open_verified,
    output_stream,
    write_sealed,
)
from slackwater.tables.delta.written_files import encoding
from slackwater.tables.errors import DamagedFile

TIME = pa.timestamp("us", tz="UTC")
COUNT = 60
ROWS = pa.table(
    {
        "key_group": pa.array(sorted(number % 7 for number in range(COUNT)), pa.int32()),
        "origin": ["JFK", "LGA", "EWR"] * (COUNT // 3),
        "window_start": pa.array(
            [datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=number % 24) for number in range(COUNT)], TIME
        ),
        "elements": [number * 7 % 11 for number in range(COUNT)],
        "firings": [None if number % 3 else number for number in range(COUNT)],
        "mean": [number * 1.5 for number in range(COUNT)],
        "contents": pa.nulls(COUNT, pa.string()),
    }
)
OPTIONS = encoding(["window_start", "key_group"], ROWS.schema)


@pytest.fixture
def folder(tmp_path: Path) -> pafs.FileSystem:
    return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())


def read(folder: pafs.FileSystem, path: str) -> pa.Table:
    with open_verified("warehouse/p/panes", folder, path) as file:
        return file.read(use_threads=False).replace_schema_metadata(None)


def flip_bit(content: bytes, bit: int) -> bytes:
    changed_content = bytearray(content)
    changed_content[bit // 8] ^= 1 << bit % 8
    return bytes(changed_content)


def test_no_flipped_bit_of_a_file_gives_other_rows(folder: pafs.FileSystem, tmp_path: Path) -> None:
    path, size = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    content = (tmp_path / path).read_bytes()
    assert len(content) == size and read(folder, path) == ROWS
    notice_count = 0
    for bit in random.Random(7).sample(range(8 * size), 3000):
        (tmp_path / path).write_bytes(flip_bit(content, bit))
        try:
            assert read(folder, path) == ROWS, bit
        except DamagedFile as error:
            notice_count += 1
            assert error.facts["path"] == path and path in error.message
    assert notice_count > 2000  # headers of pages hold bounds that nobody reads


def test_every_flipped_bit_is_noticed_where_a_whole_file_is_read(
    folder: pafs.FileSystem, tmp_path: Path
) -> None:
    path, size = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    content = (tmp_path / path).read_bytes()
    assert checked_bytes(folder, path).to_pybytes() == content
    assert damage(folder, path) is None
    for bit in random.Random(11).sample(range(8 * size), 3000):
        (tmp_path / path).write_bytes(flip_bit(content, bit))
        with pytest.raises(Damage):
            checked_bytes(folder, path)


def test_every_flipped_bit_of_a_footer_is_noticed_before_anything_else_is_read(
    folder: pafs.FileSystem, tmp_path: Path
) -> None:
    path, size = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    content = (tmp_path / path).read_bytes()
    footer = size - 8 - int.from_bytes(content[-8:-4], "little")
    for bit in random.Random(13).sample(range(8 * footer, 8 * size), 3000):
        (tmp_path / path).write_bytes(flip_bit(content, bit))
        with pytest.raises(Damage):
            check_footer(folder, path)


def test_a_file_under_the_name_of_another_is_noticed(folder: pafs.FileSystem, tmp_path: Path) -> None:
    first, _ = write_sealed(folder, "a.parquet", ROWS, **OPTIONS)
    other, _ = write_sealed(folder, "b.parquet", ROWS.slice(1), **OPTIONS)
    assert is_sealed_by_name(first) and not is_sealed_by_name("part-00000-c000.snappy.parquet")
    (tmp_path / first).write_bytes((tmp_path / other).read_bytes())
    with pytest.raises(DamagedFile, match="not the file that was written under this name"):
        read(folder, first)
    pq.write_table(ROWS, tmp_path / first)
    with pytest.raises(DamagedFile, match="not the file that was written under this name"):
        read(folder, first)


def test_a_file_of_another_writer_is_read_as_it_is(folder: pafs.FileSystem, tmp_path: Path) -> None:
    path, _ = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    copied_rows = pq.read_table(tmp_path / path)  # with what its footer said of itself
    pq.write_table(copied_rows, tmp_path / "copy.parquet")
    assert read(folder, "copy.parquet") == ROWS
    pq.write_table(ROWS, tmp_path / "plain.parquet", write_page_checksum=True)
    assert read(folder, "plain.parquet") == ROWS
    content = (tmp_path / "plain.parquet").read_bytes()
    (tmp_path / "plain.parquet").write_bytes(flip_bit(content, 8 * (content.index(b"JFK") + 1)))
    with pytest.raises(DamagedFile, match=r"plain\.parquet is damaged"):
        read(folder, "plain.parquet")


def test_a_lack_of_threads_or_of_memory_is_no_damage(
    folder: pafs.FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    no_thread = pa.ArrowException("Unknown error: Failed to launch worker thread: temporarily unavailable")
    for lack in (no_thread, pa.ArrowMemoryError("malloc of size 64 failed")):

        def fail(*_: object, lack: Exception = lack, **__: object) -> None:
            raise lack

        monkeypatch.setattr(pq, "ParquetFile", fail)
        with pytest.raises(type(lack)) as raised:
            read(folder, path)
        assert raised.value is lack
    # A file of another writer, whose wrong bytes may ask for any memory, but for no thread.
    assert damage(folder, "plain.parquet") == "malloc of size 64 failed"
    monkeypatch.setattr(pq, "ParquetFile", partial(fail, lack=no_thread))
    with pytest.raises(pa.ArrowException, match="worker thread"):
        damage(folder, "plain.parquet")


def test_half_a_file_is_damage_and_no_file_is_none(folder: pafs.FileSystem, tmp_path: Path) -> None:
    path, size = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    content = (tmp_path / path).read_bytes()
    for bytes_kept in (0, 3, size // 2, size - 1):
        (tmp_path / path).write_bytes(content[:bytes_kept])
        with pytest.raises(DamagedFile, match="does not end as a Parquet file does"):
            read(folder, path)
    (tmp_path / path).unlink()
    with pytest.raises(FileNotFoundError):
        read(folder, path)


def test_files_written_piece_by_piece_have_a_seal_of_all_pieces(
    folder: pafs.FileSystem, tmp_path: Path
) -> None:
    large = pa.table({"n": random.Random(3).choices(range(1 << 40), k=400_000)})
    with output_stream(folder, "x.parquet") as sink:
        writer = SealedWriter(
            sink, large.schema, compression="none", use_dictionary=False, store_schema=False
        )
        for start in range(0, large.num_rows, 150_000):
            writer.write(large.slice(start, 150_000))
        writer.close()
    assert writer.size == (tmp_path / "x.parquet").stat().st_size > 1 << 21
    assert read(folder, "x.parquet") == large and damage(folder, "x.parquet") is None
    content = (tmp_path / "x.parquet").read_bytes()
    (tmp_path / "x.parquet").write_bytes(flip_bit(content, 8 * (1 << 21)))
    assert "checksum" in (damage(folder, "x.parquet") or "")


def test_other_readers_read_sealed_files(folder: pafs.FileSystem, tmp_path: Path) -> None:
    path, _ = write_sealed(folder, "x.parquet", ROWS, **OPTIONS)
    file, total = str(tmp_path / path), sum(number * 7 % 11 for number in range(COUNT))
    with duckdb.connect() as connection:
        counted_rows = connection.execute(
            "SELECT count(*), sum(elements), count(firings) FROM read_parquet(?)", [file]
        ).fetchone()
    assert counted_rows == (60, total, 20)
    assert polars.read_parquet(file)["elements"].sum() == total
    assert pq.read_table(file)["elements"].to_pylist() == ROWS["elements"].to_pylist()
