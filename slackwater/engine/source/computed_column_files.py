"""Computed columns in files beside a slice's tasks, so that a slice that is read twice computes them once:

    the pass of the timeline    reads and parses the JSON, writes what it gives: a file for each piece
    the pass of the replay      maps these files into memory, and reads stored columns alone

The replay needs all columns of a few rows, such as late ones. The first pass, which has the JSON at hand,
keeps it for rows that may be among them: another file for each piece.

A file that is missing is no error: its columns are computed, or its rows read, once more.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.engine.source.computed_columns import (
    ComputedRows,
    ExpressionFailure,
    explodes,
    is_computed,
    stored_names,
)
from slackwater.engine.source.files import InputFile

_DECLARATIONS = b"slackwater.failures"
# Of the files with kept rows: the column of their positions, the suffix, and the largest share of all rows.
_POSITION, _KEPT_ROWS, _MOST_KEPT = "__position", ".rows", 1 / 8
# Values from which others are computed sooner than these are read from a file.
_PLAIN_KINDS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_temporal,
    pa.types.is_decimal,
)


def columns_for_files(schema: pa.Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """The computed ones of `columns`, if reading them from a file is cheaper than computing them again; else
    none. It is where they come out of texts, bytes or nested values. Rows that are items have other places
    than their stored rows, and are left out.
    """
    computed_names = tuple(name for name in columns if is_computed(schema.field(name)))
    kinds = [schema.field(name).type for name in stored_names(schema, computed_names)]
    is_cheap = all(any(is_kind(kind) for is_kind in _PLAIN_KINDS) for kind in kinds)
    return () if is_cheap or explodes(schema) else computed_names


@dataclass(frozen=True)
class ComputedColumnFiles:
    """Files in `folder`, which is of one slice, with the computed `columns` of pieces of source files."""

    folder: str
    columns: tuple[str, ...]

    def write(self, file: InputFile, groups: Sequence[int], computed_rows: ComputedRows) -> None:
        """Write the columns of some row groups. Where the disk is full, there is no file."""
        rows = computed_rows.rows.select(self.columns).combine_chunks()
        for number, failure in enumerate(computed_rows.failures):
            rows = rows.append_column(f"failure {number}", pa.array(failure.rows))
        declarations = [(failure.declaration, failure.column) for failure in computed_rows.failures]
        rows = rows.replace_schema_metadata({_DECLARATIONS: json.dumps(declarations)})
        _write(rows, self._path(file, groups))

    def read(self, file: InputFile, groups: Sequence[int]) -> ComputedRows | None:
        """The columns of some row groups, and all failures of expressions there; None where no file is."""
        rows = _read(self._path(file, groups))
        if rows is None:
            return None
        failures = tuple(
            ExpressionFailure(declaration, column, np.asarray(rows.column(f"failure {number}")))
            for number, (declaration, column) in enumerate(json.loads(rows.schema.metadata[_DECLARATIONS]))
        )
        return ComputedRows(rows.select(self.columns).replace_schema_metadata(), failures)

    def keep_rows(
        self, file: InputFile, groups: Sequence[int], stored_rows: pa.Table, positions: npt.NDArray[np.int64]
    ) -> None:
        """Write the stored columns of rows at ascending `positions`, unless these are many. What a task that
        is repeated has kept before stays: it may have read fewer columns than then.
        """
        path = self._path(file, groups).with_suffix(_KEPT_ROWS)
        if 0 < len(positions) <= stored_rows.num_rows * _MOST_KEPT and not path.exists():
            kept_rows = stored_rows.take(pa.array(positions)).append_column(_POSITION, pa.array(positions))
            _write(kept_rows.combine_chunks(), path)

    def kept_rows(
        self, file: InputFile, groups: Sequence[int], positions: npt.NDArray[np.int64]
    ) -> pa.Table | None:
        """The stored columns of rows at ascending `positions`; None unless each of these rows was kept."""
        rows = _read(self._path(file, groups).with_suffix(_KEPT_ROWS))
        if rows is None:
            return None
        kept_positions = rows.column(_POSITION).to_numpy()
        places = np.minimum(np.searchsorted(kept_positions, positions), len(kept_positions) - 1)
        if not np.array_equal(kept_positions[places], positions):
            return None
        return rows.drop_columns([_POSITION]).take(pa.array(places))

    def _path(self, file: InputFile, groups: Sequence[int]) -> Path:
        piece = (replace(file, share=(0, 1), fraction=1.0), tuple(groups))
        return Path(self.folder, sha256(repr(piece).encode()).hexdigest())


def _write(rows: pa.Table, path: Path) -> None:
    """Write a file at once or, where the disk is full, not at all."""
    draft = path.with_suffix(f".{uuid4().hex}")
    with suppress(OSError):
        try:
            with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _read(path: Path) -> pa.Table | None:
    try:
        with pa.memory_map(str(path)) as data:
            return pa.ipc.open_file(data).read_all()
    except FileNotFoundError:
        return None
