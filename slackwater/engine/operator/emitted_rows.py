"""The rows that user functions emit, as Arrow columns of the declared types, with no silent conversion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.columns import TypedColumn
from slackwater.windowing.snapshot.sql_types import arrow_type, first_misfit


class EmittedRowError(PermanentError):
    """A user's function emitted a row that its declared columns can't hold. Attributes: key, window."""


@dataclass(frozen=True)
class EmittedColumns:
    """The declared columns of a main or side output. A row may repeat its key in the columns `keys`;
    `output_name` is what errors call the output, e.g. ``output``.
    """

    output_name: str
    declared_columns: tuple[TypedColumn, ...]
    keys: tuple[str, ...]

    @property
    def results(self) -> tuple[tuple[str, pa.DataType], ...]:
        return tuple(
            (name, arrow_type(kind)) for name, kind in self.declared_columns if name not in self.keys
        )

    def arrays(self, rows: Sequence[Any], owners: Sequence[tuple[Any, Any]]) -> list[pa.Array]:
        """One array for each of `results`, null where a row is None; `owners` has each row's (key, window).

        Raises:
            EmittedRowError: a row has other columns, a value of another type, or another key than its own.
        """
        results = self.results
        split: Sequence[Any] = rows
        if len(results) < len(self.declared_columns) or not self._are_plain(rows):
            split = [self._split(row, owner) for row, owner in zip(rows, owners, strict=True)]
        columns = list(zip(*split, strict=True)) or [()] * len(results)
        return [
            self._array(name, kind, column, owners)
            for (name, kind), column in zip(results, columns, strict=True)
        ]

    def _are_plain(self, rows: Sequence[Any]) -> bool:
        return {tuple}.issuperset(map(type, rows)) and {len(self.declared_columns)}.issuperset(map(len, rows))

    def _split(self, row: Any, owner: tuple[Any, Any]) -> list[Any]:
        if row is None:
            return [None] * len(self.results)
        values = self._by_name(row, owner)
        key = dict(zip(self.keys, owner[0] if len(self.keys) > 1 else owner[: len(self.keys)], strict=True))
        for name in self.keys:
            if name in values and values[name] != key[name]:
                raise _refusal(
                    f"{self.output_name}: column {name!r} is a key and was emitted as {values[name]!r}, not "
                    f"{key[name]!r}",
                    owner,
                )
        return [values[name] for name, _ in self.results]

    def _by_name(self, row: Any, owner: tuple[Any, Any]) -> dict[str, Any]:
        """The row as column name → value: a dict, a named tuple, a tuple, or a single value."""
        names = [name for name, _ in self.declared_columns]
        if isinstance(row, dict) or hasattr(row, "_asdict"):
            values = row if isinstance(row, dict) else row._asdict()
            missing = [name for name in names if name not in values]
            # A named tuple may be an element of the source; the output then declares some of its columns.
            unknown = [name for name in values if name not in names] if isinstance(row, dict) else []
            if missing or unknown:
                raise _refusal(
                    f"{self.output_name}: a row has {sorted(map(str, values))}, but the columns are {names}",
                    owner,
                )
            return values
        if not isinstance(row, tuple):
            row = (row,)
        if len(row) != len(names):
            raise _refusal(
                f"{self.output_name}: a row has {len(row)} values, {row!r:.200}, but the columns are {names}",
                owner,
            )
        return dict(zip(names, row, strict=True))

    def _array(
        self, name: str, kind: pa.DataType, values: Sequence[Any], owners: Sequence[tuple[Any, Any]]
    ) -> pa.Array:
        position = first_misfit(values, kind)
        if position is not None:
            raise _misfit(self.output_name, name, kind, values[position], owners[position])
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, UnicodeError):
            for value, owner in zip(values, owners, strict=True):
                try:
                    pa.array([value], kind)
                except (pa.ArrowException, OverflowError, UnicodeError) as error:
                    raise _misfit(self.output_name, name, kind, value, owner) from error
            raise


def output_of(pipeline: Pipeline) -> EmittedColumns:
    return EmittedColumns("output", pipeline.output_columns, pipeline.keys)


def side_outputs_of(pipeline: Pipeline) -> dict[str, EmittedColumns]:
    return {
        tag: EmittedColumns(f"side output {tag!r}", columns, pipeline.keys)
        for tag, columns in pipeline.side_columns.items()
    }


def _misfit(
    output_name: str, name: str, kind: pa.DataType, value: Any, owner: tuple[Any, Any]
) -> EmittedRowError:
    return _refusal(
        f"{output_name}: column {name!r} is {kind}, but the {type(value).__name__} {_shown(value)} was "
        "emitted",
        owner,
    )


def _shown(value: Any) -> str:
    """A value for people to read; a class of the user's may have no text."""
    try:
        return f"{value!r:.100}"
    except Exception:  # noqa: BLE001 - the misfit is the error, and must be told
        return "(its text can't be made)"


def _refusal(problem: str, owner: tuple[Any, Any]) -> EmittedRowError:
    key, window = owner
    return EmittedRowError(
        f"{problem} (key {key!r}, window {window!r}). Change the function, or the columns that the pipeline "
        "declares.",
        key=key,
        window=window,
    )
