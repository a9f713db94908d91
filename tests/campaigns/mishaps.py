"""A campaign of mishaps: `python -m tests.campaigns.mishaps --work FOLDER [--at-most N] [--seed N]`.

Verbs that change a warehouse meet with what `tests.campaigns.mishap_kinds` has: several drivers at once, a
zombie that wakes up, kills, a full disk, few file handles, little memory, a small container, a clock that
goes back, on a cluster a lost executor or worker and tasks that run twice; on both engines, and a few on
state in RocksDB. A reader looks at all tables meanwhile (`tests.campaigns.watching`) and must see no half
state. A command that fails must say why and what to do next; the same command must then succeed, and leave
what it leaves without mishap; and `maintain`, a week later, must leave no file that no commit names.

Trials are taken in an order that the seed decides; those in the verdicts file of the folder are not repeated.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns import faults
from tests.campaigns.faults import BAD, SURVIVED, outcome_of
from tests.campaigns.mishap_kinds import KINDS, ON_A_CLUSTER, NotPossible, cluster_kind
from tests.campaigns.verdicts import Verdict, Verdicts, as_table

NOT_POSSIBLE = "not possible here"
OUTCOMES = (SURVIVED, *BAD, NOT_POSSIBLE)
SCENARIOS = ("first run", "run", "publish", "backfill")
TRIALS_OF_A_KIND = 24
_ON_ROCKSDB = ("a zombie wakes up", "killed while others read")


@dataclass(frozen=True)
class Mishap:
    """One trial."""

    kind: str
    scenario: str
    engine: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.scenario} of {self.engine} ({self.number})"

    @property
    def group(self) -> str:
        """What the report counts it under."""
        return f"{self.kind}, RocksDB" if self.engine == faults.ROCKSDB else self.kind


class Campaign:
    """Trials and their verdicts in a folder, which a second call continues."""

    def __init__(self, work: Path, seed: int, kinds: Sequence[str] = ()) -> None:
        self._work, self._seed, self._kinds = work, seed, kinds
        self._faults = faults.Campaign(work / "faults", seed)
        self.verdicts = Verdicts(work / f"mishaps-{seed}.jsonl")

    def mishaps(self) -> list[Mishap]:
        """All of them; each kind on each scenario and engine once before any comes twice, and those that take
        a minute each, on a cluster and with RocksDB, last.
        """
        chance, mishaps = random.Random(self._seed), []
        pairs = [(scenario, engine) for scenario in SCENARIOS for engine in faults.ENGINES]
        for number in range(1, TRIALS_OF_A_KIND // len(pairs) + 1):
            one_round = [Mishap(kind, *pair, number) for kind in KINDS for pair in pairs]
            chance.shuffle(one_round)
            mishaps += one_round
        mishaps += [Mishap(kind, "run", "columnar", 1) for kind in ON_A_CLUSTER]
        mishaps += [Mishap(kind, "run", faults.ROCKSDB, 1) for kind in _ON_ROCKSDB]
        return [one for one in mishaps if not self._kinds or one.group in self._kinds]

    def run(self, at_most: int | None = None) -> Iterator[Verdict]:
        """Do trials that have no verdict yet, at most so many."""
        done = self.verdicts.trials
        for mishap in [one for one in self.mishaps() if one.name not in done][:at_most]:
            verdict = self.judge(mishap)
            self.verdicts.add(verdict)
            yield verdict

    def prepared(self, name: str, engine: str) -> faults.Prepared:
        """The scenario of that name, with the warehouse before it."""
        [scenario] = [one for one in faults.SCENARIOS if one.name == name]
        return self._faults.prepared(scenario, engine)

    def judge(self, mishap: Mishap) -> Verdict:
        """Do a trial on a fresh copy."""
        prepared = self.prepared(mishap.scenario, mishap.engine)
        chance = random.Random(f"{self._seed} {mishap.name}")
        try:
            if mishap.kind in ON_A_CLUSTER:
                with cluster_kind(self._work, mishap.kind) as kind:
                    problems = kind(prepared, chance)
            else:
                problems = KINDS[mishap.kind](prepared, chance)
        except NotPossible as reason:
            return Verdict(mishap.name, mishap.group, NOT_POSSIBLE, [str(reason)])
        except subprocess.TimeoutExpired as error:
            problems = [f"not ended: {error}"]
        return Verdict(mishap.name, mishap.group, outcome_of(problems), problems)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.mishaps", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="KIND")
    options = parser.parse_args()
    campaign = Campaign(options.work.absolute(), options.seed, options.only)
    for verdict in campaign.run(options.at_most):
        if verdict.outcome != SURVIVED:
            print(f"{verdict.outcome}: {verdict.trial}: {verdict.details}", file=sys.stderr)
    report = campaign.verdicts.report(OUTCOMES)
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome in BAD for verdict in campaign.verdicts.all))


if __name__ == "__main__":
    main()
