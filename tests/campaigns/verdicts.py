"""Verdicts of a campaign in a file of its folder, which the next call continues; and its report as a table.

Knows no campaign.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """What became of a trial.

    Attributes:
        trial: its name, the same at each call with the same seed.
        group: what the report counts it under.
        outcome: one word or two; the report has a column for each.
        details: what explains the outcome to a reader.
    """

    trial: str
    group: str
    outcome: str
    details: list[str] = field(default_factory=list)


class Verdicts:
    """The verdicts in the file at `path`, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.all = [Verdict(**json.loads(line)) for line in lines]

    @property
    def trials(self) -> set[str]:
        """Names of the trials that have a verdict."""
        return {verdict.trial for verdict in self.all}

    def add(self, verdict: Verdict) -> None:
        self.all.append(verdict)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")

    def report(self, outcomes: Sequence[str]) -> list[dict[str, str | int]]:
        """One row a group: trials, and how many had each of `outcomes`; the last row has the sums."""
        groups = sorted({verdict.group for verdict in self.all})
        rows = [_row(group, [one for one in self.all if one.group == group], outcomes) for group in groups]
        return [*rows, _row("all", self.all, outcomes)]


def _row(group: str, verdicts: Iterable[Verdict], outcomes: Sequence[str]) -> dict[str, str | int]:
    counts = Counter(verdict.outcome for verdict in verdicts)
    return {"": group, "tried": counts.total(), **{outcome: counts[outcome] for outcome in outcomes}}


def as_table(rows: Sequence[dict[str, str | int]]) -> str:
    """Rows as a table of Markdown."""
    names = list(rows[0])
    widths = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in names}
    lines = [
        "| " + " | ".join(str(value).ljust(widths[name]) for name, value in row.items()) + " |"
        for row in ({name: name for name in names}, *rows)
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (widths[name] + 2) for name in names) + "|", *lines[1:]])
