"""The roles of a source as rows of an answer: what has each role, its name in a pipeline, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.inspection.sources.column_roles import ColumnChoice
from slackwater.inspection.sources.pipeline_file import DeclaredRole, column_name, is_plain_name
from slackwater.inspection.sources.source_fields import SourceField
from slackwater.inspection.sources.time_roles import ChosenTime


@dataclass(frozen=True, kw_only=True)
class RoleRow:
    """A role: the expression that has it, and why; None where nothing has it. `column` is its name in the
    pipeline file.
    """

    role: str
    field: str | None
    expression: str | None
    column: str | None
    reason: str

    @property
    def is_column(self) -> bool:
        """Whether a column of the source has the role as it is."""
        return self.field is not None and self.field == self.column


def time_row(
    role: str, chosen: ChosenTime | None, name: str, columns: Sequence[str], nothing: str
) -> RoleRow:
    """The row of a time, which gets `name` in the pipeline if it must be derived, or another one that none of
    the source's `columns` has. `nothing` is the reason where nothing is chosen.
    """
    if chosen is None:
        return RoleRow(role=role, field=None, expression=None, column=None, reason=nothing)
    candidate = chosen.time
    is_declared = candidate.is_role_itself and _can_be_declared(candidate.field)
    column = candidate.field.column if is_declared else column_name(name, columns, "time")
    reason = chosen.reason
    if not candidate.is_role_itself and candidate.reason not in reason:
        reason = f"{candidate.reason}; {reason}"
    return RoleRow(
        role=role, field=candidate.field.name, expression=candidate.expression, column=column, reason=reason
    )


def column_row(role: str, choice: ColumnChoice | None, columns: Sequence[str], nothing: str) -> RoleRow:
    """The row of another role, see `time_row`."""
    if choice is None:
        return RoleRow(role=role, field=None, expression=None, column=None, reason=nothing)
    field = choice.field
    name = field.column if _can_be_declared(field) else column_name(field.name, columns, "text")
    return RoleRow(
        role=role, field=field.name, expression=field.expression, column=name, reason=choice.reason
    )


def _can_be_declared(field: SourceField) -> bool:
    """Whether a role may name the column as it is: bytes are no key, and elements have fields of its name."""
    return field.is_column and is_plain_name(field.column) and not field.holds_bytes


def declared_role(row: RoleRow) -> DeclaredRole | None:
    """The role as a pipeline file declares it; None where nothing has it."""
    if row.field is None or row.column is None:
        return None
    expression = None if row.is_column else row.expression
    return DeclaredRole(column=row.column, expression=expression, reason=row.reason)
