"""A campaign of damages: `python -m tests.campaigns.damages --work FOLDER [--at-most N] [--seed N]`.

Warehouses of both engines and both state back ends, with upkeep behind them and a staged run before them.
Each trial harms one file of one table (`tests.campaigns.harms`) in a fresh copy. Then verbs that look, then
those that work are called, each in a process of its own. Their outcome must be one of these:

    found      a verb fails, names the file or the table, and says the next step; those that succeed say
               what they say without the damage, or that `published` lags the ledger. Once the file is put
               back the same commands succeed, and leave what they leave without the damage.
    harmless   every verb succeeds, and leaves what it leaves without the damage.

A second copy of a commit that the writers have written on can't be taken away again: the rows that it brings
back to its table must then still be named.

Anything else is a fault: a verb that succeeds with another answer, a traceback, an error that names nothing,
a damage that cannot be mended. Trials are taken in an order that the seed decides; those in the verdicts file
of the folder are not repeated.
"""

import argparse
import json
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deltalake import DeltaTable

from tests.campaigns.faults import state_of
from tests.campaigns.harms import HARMS, Place, files_by_table
from tests.campaigns.verdicts import Verdict, Verdicts, as_table
from tests.integration.command import CommandResult, driver, here
from tests.integration.driver import Plan
from tests.integration.stored import ROOT

HOURLY = ROOT / "tests" / "integration" / "hourly.py"
FUNCTIONS = ROOT / "tests" / "integration" / "own_functions.py"
GOOD = ("found", "harmless")
BAD = ("silently wrong", "traceback", "unnamed", "not mended")
Command = tuple[str, ...]

_BEFORE: tuple[Command, ...] = (
    ("run", "--to", "2013-01-03"),
    ("maintain",),
    ("run", "--to", "2013-01-04"),
    ("run", "--to", "2013-01-05", "--no-publish"),
)
_PUBLISHED: Command = ("sql", "SELECT * FROM published ORDER BY ALL", "--output", "json")
_READERS: tuple[Command, ...] = (
    ("verify", "--tables"),
    ("verify", "2"),
    ("state", "windows", "--output", "json"),
    ("runs", "--output", "json"),
    _PUBLISHED,
)
_WRITERS: tuple[Command, ...] = (("publish",), ("run", "--to", "2013-01-06"))
_LAG = "`published` is as of run"
_STEP = re.compile(r"`slackwater |[Pp]ut the (?:file|table|line)|RESTORE|Delete it|[Ww]rite the lost rows")


@dataclass(frozen=True)
class Lineage:
    """A pipeline, and how the runs before the damage are made: with which engine, and by `variables` with
    which state back end. The verbs of a trial take the state back end that suits the state.
    """

    name: str
    pipeline: str
    pipelines: Path
    options: Command = ()
    variables: dict[str, str] = field(default_factory=dict)


LINEAGES = (
    Lineage("columnar", "hourly", HOURLY, ("--engine", "columnar")),
    Lineage("operator", "hourly", HOURLY, ("--engine", "operator")),
    Lineage("functions", "latest", FUNCTIONS),
    Lineage("functions on RocksDB", "latest", FUNCTIONS, (), {"SLACKWATER_STATE_MEMORY_MB": "0"}),
)


class Prepared:
    """The warehouse of a lineage before the trials, another one with other rows, and what the verbs say and
    leave without damage. `planted` is a breakage of the product, see `tests.campaigns.planted`.
    """

    def __init__(self, lineage: Lineage, sources: tuple[Path, Path], work: Path) -> None:
        self.lineage = lineage
        self._folder = work / lineage.name.replace(" ", "-")
        self.planted: str | None = None
        self.warehouse = self._folder / "trial" / "warehouse"
        self.before, self.other = (self._folder / name for name in ("before", "other"))
        for folder, source in zip((self.before, self.other), sources, strict=True):
            if not (folder / "complete").exists():
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(source, folder)
                for command in _BEFORE:
                    self._must_succeed(self.call(command, folder, lineage.variables))
                (folder / "complete").touch()

    def call(
        self, command: Command, warehouse: Path, variables: dict[str, str] | None = None
    ) -> CommandResult:
        words, at = [*command], 2 if command[0] == "state" else 1
        words.insert(at, self.lineage.pipeline)
        if command[0] == "run":
            words += self.lineage.options
        plan = Plan(variables=variables or {}, planted=self.planted)
        return driver(plan, *words, "--warehouse", warehouse, "--pipelines", self.lineage.pipelines)

    def copy(self) -> Path:
        """A fresh warehouse, always at the same place."""
        shutil.rmtree(self.warehouse, ignore_errors=True)
        shutil.copytree(self.before, self.warehouse)
        return self.warehouse / self.lineage.pipeline

    @cached_property
    def answers(self) -> dict[Command, str]:
        """What each reader says without damage."""
        self.copy()
        return {
            command: self._must_succeed(self.call(command, self.warehouse)).stdout for command in _READERS
        }

    @cached_property
    def final_state(self) -> dict[str, Counter[str]]:
        """What the writers leave without damage."""
        self.copy()
        for command in _WRITERS:
            self._must_succeed(self.call(command, self.warehouse))
        return self.state()

    def state(self) -> dict[str, Counter[str]]:
        return state_of(self.warehouse, self.lineage.pipeline)

    @cached_property
    def files(self) -> dict[tuple[str, str], list[Path]]:
        return files_by_table(self.before / self.lineage.pipeline)

    @staticmethod
    def _must_succeed(done: CommandResult) -> CommandResult:
        if done.returncode:
            raise RuntimeError(f"{done.args} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done


@dataclass(frozen=True)
class Damage:
    """One trial: a file of a part of a table is harmed in a way of `HARMS`."""

    lineage: str
    table: str
    part: str
    harm: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.lineage}: {self.table}: {self.part}: {self.harm} ({self.number})"


def judge(prepared: Prepared, damage: Damage, seed: int) -> Verdict:
    """Do a trial on a fresh copy."""
    answers, final_state = prepared.answers, prepared.final_state
    folder, chance = prepared.copy(), random.Random(f"{seed} {damage.name}")
    other = prepared.other / prepared.lineage.pipeline
    place = Place(folder, other, chance.choice(prepared.files[damage.table, damage.part]))
    content = place.path.read_bytes()
    harmed = HARMS[damage.part][damage.harm](place, chance)
    trial = _Trial(prepared, damage, place.file, harmed)
    for command in _READERS:
        trial.call(command, answers[command])
    trial.call(("health",))
    trial.read_as_others(answers[_PUBLISHED])
    wrote = [trial.call(command).returncode == 0 for command in _WRITERS]
    trial.mend(place.path, content, all(wrote), final_state)
    return trial.verdict(f"{damage.part}: {damage.harm}")


class _Trial:
    """Collects what the verbs say of one damage."""

    def __init__(self, prepared: Prepared, damage: Damage, file: Path, harmed: Path) -> None:
        self._prepared, self._damage, self._file, self._harmed = prepared, damage, file, harmed
        self._outcomes: dict[str, str] = {}
        self._others = ""

    def call(self, command: Command, answer: str | None = None) -> CommandResult:
        done = self._prepared.call(command, self._prepared.warehouse)
        said = (
            f"`{' '.join(command[:2])}` ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
        )
        if "Traceback" in done.stderr or done.returncode < 0:
            self._outcomes["traceback"] = said
        elif done.returncode == 0:
            if answer is not None and done.stdout != answer:
                outcome = "found" if _LAG in done.stderr and self._is_named(done.stderr) else "silently wrong"
                self._outcomes[outcome] = f"another answer: {said}"
        elif self._is_named(done.stdout + done.stderr):
            self._outcomes.setdefault("found", said)
        else:
            self._outcomes["unnamed"] = said
        return done

    def _is_named(self, text: str) -> bool:
        names = (
            self._file.name,
            self._harmed.name,
            f"{self._prepared.lineage.pipeline}/{self._damage.table}",
        )
        is_named = any(name in text for name in names) or re.search(rf"\b{self._damage.table}\b", text)
        return bool(is_named and _STEP.search(text))

    def read_as_others(self, answer: str) -> None:
        """Read `published` by delta-rs alone, which is no reader of ours."""
        if self._damage.table != "published":
            return
        try:
            rows = DeltaTable(self._prepared.warehouse / self._prepared.lineage.pipeline / "published")
            right = DeltaTable(self._prepared.before / self._prepared.lineage.pipeline / "published")
            order = [(name, "ascending") for name in ("origin", "window_start", "firing", "ordinal")]
            is_right = (
                rows.to_pyarrow_table().sort_by(order).to_pylist()
                == right.to_pyarrow_table().sort_by(order).to_pylist()
            )
            self._others = "right" if is_right else "wrong"
        except Exception as error:  # noqa: BLE001 - whatever it is, that reader has noticed
            self._others = f"error: {type(error).__name__}"

    def mend(self, path: Path, content: bytes, wrote: bool, final_state: dict[str, Counter[str]]) -> None:
        """Put the file back and call the writers again. What is then left must be what they leave without
        damage.
        """
        is_written_on = self._harmed != path and wrote and self._damage.part == "commit"
        if self._harmed != path:  # a second copy: what was written behind a commit stands on it
            if not is_written_on:
                self._harmed.unlink(missing_ok=True)
        elif not (self._damage.harm == "removed" and path.exists()):  # no writer has made it anew
            path.write_bytes(content)
        for command in _WRITERS if not wrote else ():
            done = self._prepared.call(command, self._prepared.warehouse)
            if done.returncode and not (command[0] == "publish" and done.returncode == 2):
                self._outcomes["not mended"] = f"with the file back: {command}: {done.stdout}{done.stderr}"
                return
        try:
            left = self._prepared.state()
        except Exception as error:  # noqa: BLE001 - told as the outcome
            self._outcomes["not mended"] = f"the tables can't be read afterwards: {error}"
            return
        for table, facts in final_state.items():
            lost, surplus = facts - left[table], left[table] - facts
            is_told = is_written_on and table == self._damage.table and not lost and self._is_still_named()
            if (lost or surplus) and not is_told:
                self._outcomes["silently wrong"] = (
                    f"{table} afterwards: {lost.total()} rows lost, {surplus.total()} rows too much"
                )

    def _is_still_named(self) -> bool:
        """Whether a damage that is named already is so after the writers, too."""
        done = self._prepared.call(("verify", "--tables"), self._prepared.warehouse)
        return (
            "found" in self._outcomes and done.returncode == 1 and self._is_named(done.stdout + done.stderr)
        )

    def verdict(self, group: str) -> Verdict:
        outcome = next((name for name in (*BAD, "found") if name in self._outcomes), "harmless")
        details = [f"{self._file}: {what}: {said}" for what, said in self._outcomes.items()]
        if self._others:
            details.append(f"delta-rs alone: {self._others}")
        return Verdict(self._damage.name, group, outcome, details)


class Campaign:
    """Trials and their verdicts in a folder, which a second call continues."""

    def __init__(self, work: Path, seed: int, lineages: Sequence[str] = ()) -> None:
        self._work, self._seed = work, seed
        self.lineages = [one for one in LINEAGES if not lineages or one.name in lineages]
        self.verdicts = Verdicts(work / f"damages-{seed}.jsonl")
        self._prepared: dict[str, Prepared] = {}

    def prepared(self, lineage: Lineage) -> Prepared:
        if lineage.name not in self._prepared:
            self._prepared[lineage.name] = Prepared(lineage, self._sources, self._work)
        return self._prepared[lineage.name]

    @cached_property
    def _sources(self) -> tuple[Path, Path]:
        """A warehouse with the flights of five days, where nothing has run; and one with half of them."""
        folders = self._work / "source", self._work / "other-source"
        for folder in folders:
            if not folder.exists():
                period = ("--from", "2013-01-01", "--to", "2013-01-06")
                if here("examples", "load", "departures", *period, "--warehouse", folder):
                    raise RuntimeError("the flights could not be loaded")
                if folder is folders[1]:
                    DeltaTable(folder / "sources" / "departures").delete("flight % 2 = 0")
        return folders

    def damages(self) -> list[Damage]:
        """All kinds of damages, in an order that the seed decides; each kind once before any comes twice."""
        kinds = [
            (lineage.name, table, part, harm)
            for lineage in self.lineages
            for (table, part), files in sorted(self.prepared(lineage).files.items())
            for harm in HARMS[part]
            if harm != "of the same table" or len(files) > 1
        ]
        chance, damages = random.Random(self._seed), []
        for number in range(1, 4):
            chance.shuffle(kinds)
            damages += [Damage(*kind, number) for kind in kinds]
        return damages

    def run(self, at_most: int | None = None) -> Iterator[Verdict]:
        """Do trials that have no verdict yet, at most so many."""
        lineages, done = {lineage.name: lineage for lineage in LINEAGES}, self.verdicts.trials
        for damage in [one for one in self.damages() if one.name not in done][:at_most]:
            verdict = judge(self.prepared(lineages[damage.lineage]), damage, self._seed)
            self.verdicts.add(verdict)
            yield verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.damages", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="LINEAGE")
    options = parser.parse_args()
    campaign = Campaign(options.work.absolute(), options.seed, options.only)
    for verdict in campaign.run(options.at_most):
        if verdict.outcome in BAD:
            print(f"{verdict.outcome}: {verdict.trial}: {verdict.details}", file=sys.stderr)
    report = campaign.verdicts.report((*GOOD, *BAD))
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome in BAD for verdict in campaign.verdicts.all))


if __name__ == "__main__":
    main()
