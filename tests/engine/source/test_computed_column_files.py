"""What one pass over a slice has computed, the next takes from files; without one, it computes anew."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.source.computed_column_files import ComputedColumnFiles, columns_for_files
from slackwater.engine.source.computed_columns import schema_with_computed_columns
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.row_groups import SourceFile
from slackwater.pipelines import DeltaSource

TEXTS = ['{"id": 1, "toll": 7}', '{"id": 2}', "{", '{"id": 4, "toll": 9}', None]
COLUMNS = ("id", "toll", "number")
DERIVE = {
    "id": "CAST(value ->> '$.id' AS BIGINT)",
    "toll": "CAST(value ->> '$.toll' AS BIGINT)",
    "double": "2 * number",
}


def schema_of(derive: dict[str, str], **columns: pa.DataType) -> pa.Schema:
    source = DeltaSource("source", derive=derive, event_time="at", arrival_time="at")
    return schema_with_computed_columns(source, pa.schema(list(columns.items())))


SCHEMA = schema_of(DERIVE, value=pa.string(), number=pa.int64())


def write(folder: Path, texts: list[str | None]) -> SourceFile:
    rows = pa.table({"value": pa.array(texts, pa.string()), "number": np.arange(len(texts))})
    pq.write_table(rows, folder / "part.parquet", row_group_size=2)
    return SourceFile(str(folder), InputFile("part.parquet", (), len(texts), 1, False), SCHEMA)


def rows_of(file: SourceFile, files: ComputedColumnFiles | None) -> list[dict[str, object]]:
    """Each row, and the columns whose expressions fail on it."""
    rows = []
    for batch in file.batches(COLUMNS, None, rows_at_once=2, column_files=files):
        for place, row in enumerate(batch.rows.to_pylist()):
            failed_columns = {failure.column for failure in batch.failures if failure.rows[place]}
            rows.append({**row, "failed": sorted(failed_columns)})
    return rows


def expected_rows(texts: list[str | None]) -> list[dict[str, object]]:
    """By hand: a broken text fails both columns, and a field that is not there is null."""
    values = {TEXTS[0]: (1, 7), TEXTS[1]: (2, None), TEXTS[3]: (4, 9), None: (None, None), "{": (None, None)}
    return [
        {
            "id": values[text][0],
            "toll": values[text][1],
            "number": number,
            "failed": ["id", "toll"] if text == "{" else [],
        }
        for number, text in enumerate(texts)
    ]


@pytest.fixture
def files(tmp_path: Path) -> ComputedColumnFiles:
    (tmp_path / "files").mkdir()
    return ComputedColumnFiles(str(tmp_path / "files"), ("id", "toll"))


def test_the_second_pass_reads_no_text(tmp_path: Path, files: ComputedColumnFiles) -> None:
    assert rows_of(write(tmp_path, TEXTS), files) == expected_rows(TEXTS)
    other = write(tmp_path, [TEXTS[0]] * len(TEXTS))
    assert rows_of(other, files) == expected_rows(TEXTS)
    assert rows_of(other, None) == expected_rows([TEXTS[0]] * len(TEXTS))


def test_each_pass_may_ask_for_other_columns(tmp_path: Path, files: ComputedColumnFiles) -> None:
    file = write(tmp_path, TEXTS)
    [narrow, *_] = file.batches(("id",), None, column_files=files)
    assert narrow.rows.to_pydict() == {"id": [1, 2, None, 4, None]}
    assert rows_of(file, files) == expected_rows(TEXTS)


def test_whole_rows_are_at_hand_in_both_passes(tmp_path: Path, files: ComputedColumnFiles) -> None:
    file = write(tmp_path, TEXTS)
    for _ in range(2):
        [batch] = file.batches(("id", "value", "double", "number"), ("id",), column_files=files)
        assert batch.full_rows(np.array([0, 3])).to_pydict() == {
            "id": [1, 4],
            "value": [TEXTS[0], TEXTS[3]],
            "double": [0, 6],
            "number": [0, 3],
        }


def texts_of(files: ComputedColumnFiles, file: SourceFile, positions: list[int]) -> list[object]:
    """The texts of rows at these positions, as a pass gets them that reads no text of other rows."""
    [batch] = file.batches(("id", "value"), ("id",), column_files=files)
    texts: list[object] = batch.full_rows(np.array(positions)).column("value").to_pylist()
    return texts


def test_the_second_pass_reads_no_text_of_rows_that_the_first_has_kept(
    tmp_path: Path, files: ComputedColumnFiles
) -> None:
    file = write(tmp_path, TEXTS * 8)
    [batch] = file.batches(("id", "toll"), None, column_files=files)
    assert batch.keep_rows is not None
    batch.keep_rows(np.array([0, 2, 4, 38]))
    overwritten = write(tmp_path, [TEXTS[1]] * 40)
    assert texts_of(files, overwritten, [2, 4, 38]) == ["{", None, TEXTS[3]]
    assert texts_of(files, overwritten, [0]) == [TEXTS[0]]
    assert texts_of(files, overwritten, [38, 39]) == [TEXTS[1]] * 2  # of the last nothing was kept
    # A task that is repeated finds the columns in files, and has read no text.
    [batch] = overwritten.batches(("id", "toll"), None, column_files=files)
    assert batch.keep_rows is not None
    batch.keep_rows(np.array([0, 1]))
    assert texts_of(files, overwritten, [2, 4, 38]) == ["{", None, TEXTS[3]]


@pytest.mark.parametrize("positions", [[], [0, 1, 2, 3, 4, 5]], ids=["none", "many"])
def test_neither_no_rows_nor_many_are_kept(
    tmp_path: Path, files: ComputedColumnFiles, positions: list[int]
) -> None:
    file = write(tmp_path, TEXTS * 8)
    [batch] = file.batches(("id", "toll"), None, column_files=files)
    assert batch.keep_rows is not None
    paths = sorted(Path(files.folder).glob("*"))
    batch.keep_rows(np.array(positions, np.int64))
    assert sorted(Path(files.folder).glob("*")) == paths
    assert texts_of(files, file, [1, 3]) == [TEXTS[1], TEXTS[3]]


def test_another_share_or_partition_has_files_of_its_own(tmp_path: Path, files: ComputedColumnFiles) -> None:
    file = write(tmp_path, TEXTS)
    shares = [replace(file, file=share) for share in file.file.shares(2)]
    rows = [row for share in shares for row in rows_of(share, files)]
    assert rows == expected_rows(TEXTS) == rows_of(file, files)
    other = replace(file, file=replace(file.file, partition=(("number", 5),)))
    assert [row["number"] for row in rows_of(other, files)] == [5] * len(TEXTS)


@pytest.mark.parametrize("is_writable", [True, False])
def test_without_a_file_the_columns_are_computed_anew(
    tmp_path: Path, files: ComputedColumnFiles, is_writable: bool
) -> None:
    if not is_writable:
        Path(files.folder).rmdir()
    file = write(tmp_path, TEXTS)
    assert rows_of(file, files) == expected_rows(TEXTS)
    for path in Path(files.folder).glob("*"):
        path.unlink()
    assert rows_of(file, files) == expected_rows(TEXTS)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (schema_of({"at": "epoch_ms(ms)"}, ms=pa.int64()), ()),
        (
            schema_of({"at": "epoch_ms(ms)", "id": "value ->> '$.id'"}, ms=pa.int64(), value=pa.string()),
            ("at", "id"),
        ),
        (schema_of({"day": "payload.day"}, payload=pa.struct([("day", pa.date32())])), ("day",)),
    ],
    ids=["number", "text", "struct"],
)
def test_only_columns_that_take_long_are_kept(schema: pa.Schema, expected: tuple[str, ...]) -> None:
    assert columns_for_files(schema, schema.names) == expected
