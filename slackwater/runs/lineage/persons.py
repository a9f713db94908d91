"""Whose rows an erasure takes out: a person, named by values of columns, and the tests by which rows of a
table are recognised as theirs.

    of columns of the table       every column has its value                      `is_of_any`, `where_any`
    of a row written as JSON      it has every column with that value             `is_json_of_any`
    of an error's text            one of the values is a word of it               `names_any`

Pure functions on rows; `erasure` takes the rows out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.pipelines import Pipeline
from slackwater.tables.named_keys import NotAKey, scalar_of, values_of_key


@dataclass(frozen=True)
class Person:
    """Somebody whose rows are erased: in them each column of `values` has its value, cast from text."""

    values: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    def under_own_names(self, own_names: Mapping[str, str | None]) -> "Person":
        """The person in rows of one of several sources, which has all these columns under its own names."""
        return Person(tuple((own_names[name] or name, text) for name, text in self.values))

    def scalars(self, schema: pa.Schema) -> list[tuple[str, pa.Scalar]]:
        """The values as the columns of `schema` have them; NotAKey where one can't be cast."""
        scalars = []
        for name, text in self.values:
            kind = schema.field(name).type
            try:
                scalars.append((name, scalar_of(kind, text)))
            except pa.ArrowException as error:
                raise NotAKey(f"{text!r} is no value of the column {name}, which is a {kind}.") from error
        return scalars

    def is_in(self, rows: pa.Table) -> pa.ChunkedArray:
        equal = [pc.equal(rows.column(name), value) for name, value in self.scalars(rows.schema)]
        return reduce(pc.and_, equal)

    def where(self, schema: pa.Schema) -> pc.Expression:
        # The cast is for string views, which delta-rs writes when it deletes rows: Arrow compares no string
        # with them.
        equal = [pc.field(name).cast(value.type) == value for name, value in self.scalars(schema)]
        return reduce(lambda one, other: one & other, equal)

    def is_in_json(self, text: str | None) -> bool:
        values: dict[str, Any] = json.loads(text) if text else {}
        return all(
            name in values and _as_text(values[name]) == text_of_value for name, text_of_value in self.values
        )


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def person_of_key(pipeline: Pipeline, key: str) -> Person:
    """The person of a key, as the option ``--key`` takes it; NotAKey for another number of values."""
    return Person(tuple(zip(pipeline.keys, values_of_key(pipeline.keys, key), strict=True)))


def columns_of(persons: Sequence[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for person in persons for name in person.columns))


def where_any(persons: Sequence[Person], schema: pa.Schema) -> pc.Expression:
    return reduce(lambda one, other: one | other, [person.where(schema) for person in persons])


def is_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.ChunkedArray:
    return reduce(pc.or_kleene, [person.is_in(rows) for person in persons])


def is_json_of_any(persons: Sequence[Person], rows: pa.Table) -> pa.Array:
    rows_as_json = rows.column("row_json").to_pylist()
    return pa.array([any(person.is_in_json(text) for person in persons) for text in rows_as_json], pa.bool_())


def names_any(persons: Sequence[Person], rows: pa.Table) -> pa.ChunkedArray:
    """For each of `rows`, whether the text in its column `error` has a value of theirs as a word; an error
    of a user's function names the key and the row.
    """
    texts = [text for person in persons for _, text in person.values]
    words = [rf"(^|\W){re.escape(text)}(\W|$)" for text in texts]
    return reduce(pc.or_kleene, [pc.match_substring_regex(rows.column("error"), word) for word in words])
