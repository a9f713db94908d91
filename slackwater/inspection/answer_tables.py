"""A table of an answer: its columns, its rows, and the sentence where there are none. Verbs lay it out as
text and pages as HTML, so both show the same values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from slackwater.readable import plain_text

Kind = Literal["value", "exact", "key", "text", "duration", "exact_duration", "size", "share", "range", "id"]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table for people.

    Attributes:
        name: of the column of the rows. A range is read from the columns `<name>_start` and `<name>_end`.
        kind: what its values are. "value" goes by their Python type: times, numbers and strings; "exact" too,
            but numbers have all their digits and no separators. "duration" and "exact_duration" are
            milliseconds or timedeltas, "size" bytes, "share" between 0 and 1; "key" escapes and may be cut,
            "text" wraps, "id" is a number or name without separators.
        heading: the text above it; by default its name with spaces, without `_ms`.
        is_wide: whether only --wide shows it: run ids, hashes, what few readers want.
        is_optional: whether it is left out where no row has a value other than 0.
        colours: text of a value → the colour of its cell on a terminal.
        help: what its heading does not say; pages show it beside the pointer.
    """

    name: str
    kind: Kind = "value"
    heading: str | None = None
    is_wide: bool = False
    is_optional: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)
    help: str = ""

    @property
    def title(self) -> str:
        if self.heading is not None:
            return self.heading
        return plain_text(self.name.removesuffix("_ms").replace("_", " "))

    def value(self, row: Row) -> Any:
        """The value of this column in `row`; that of a range is a pair."""
        if self.kind == "range":
            return row[f"{self.name}_start"], row[f"{self.name}_end"]
        return row[self.name]

    def has_values(self, rows: Sequence[Row]) -> bool:
        return any(self.value(row) for row in rows)


@dataclass(frozen=True, kw_only=True)
class AnswerTable:
    """Rows under columns, the most important columns first.

    Attributes:
        title: what the rows are.
        empty: the sentence where there are no rows.
        total: how many rows there are, where `rows` are not all.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = ""
    total: int | None = None
