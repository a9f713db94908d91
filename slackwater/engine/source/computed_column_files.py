"""Computed columns in files beside a slice's tasks, so that a slice that is read twice computes them once:

    the pass of the timeline    reads and parses the JSON, writes what it gives: a file for each piece
    the pass of the replay      maps these files into memory, and reads stored columns alone

A file that is missing is no error: its columns are computed once more.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
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
        path = self._path(file, groups)
        draft = path.with_suffix(f".{uuid4().hex}")
        with suppress(OSError):
            try:
                with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                    writer.write_table(rows)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)

    def read(self, file: InputFile, groups: Sequence[int]) -> ComputedRows | None:
        """The columns of some row groups, and all failures of expressions there; None where no file is."""
        try:
            with pa.memory_map(str(self._path(file, groups))) as data:
                rows = pa.ipc.open_file(data).read_all()
        except FileNotFoundError:
            return None
        failures = tuple(
            ExpressionFailure(declaration, column, np.asarray(rows.column(f"failure {number}")))
            for number, (declaration, column) in enumerate(json.loads(rows.schema.metadata[_DECLARATIONS]))
        )
        return ComputedRows(rows.select(self.columns).replace_schema_metadata(), failures)

    def _path(self, file: InputFile, groups: Sequence[int]) -> Path:
        piece = (replace(file, share=(0, 1), fraction=1.0), tuple(groups))
        return Path(self.folder, sha256(repr(piece).encode()).hexdigest())
