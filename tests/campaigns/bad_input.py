"""A campaign of bad input: `python -m tests.campaigns.bad_input --work FOLDER [--at-most N] [--seed N]`.

Each case gives a pipeline bad rows, a source that has changed or is damaged, code of a user's that fails, or
a declaration that cannot be, in a warehouse of its own. It says beforehand what must come of it: a clear
error that changes nothing and says the next step, rows in quarantine with their reason, or the right result,
by DuckDB or by hand. The report counts the cases in which that came.

Cases are taken in an order that the seed decides; those in the verdicts file of the folder are not repeated.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.campaigns.cases import declarations, functions, rows, slices, sources
from tests.campaigns.cases.world import Case, World
from tests.campaigns.verdicts import Verdict, Verdicts, as_table

AS_EXPECTED, OTHERWISE, TRACEBACK = "as expected", "otherwise", "traceback"
OUTCOMES = (AS_EXPECTED, OTHERWISE, TRACEBACK)


def all_cases() -> list[Case]:
    """The cases of all groups."""
    return [*rows.cases(), *slices.cases(), *sources.cases(), *functions.cases(), *declarations.cases()]


def judge(case: Case, folder: Path) -> Verdict:
    """Do a case in a fresh folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    group, trial = f"{case.group}: {case.expects}", f"{case.group}: {case.name}"
    try:
        case.act(World(folder))
    except AssertionError as error:
        outcome = TRACEBACK if str(error).startswith(("traceback", "crash")) else OTHERWISE
        return Verdict(trial, group, outcome, [str(error)[:4000]])
    return Verdict(trial, group, AS_EXPECTED)


class Campaign:
    """Cases and their verdicts in a folder, which a second call continues."""

    def __init__(self, work: Path, seed: int, groups: Sequence[str] = ()) -> None:
        self._work = work
        self.verdicts = Verdicts(work / "bad-input.jsonl")
        self.cases = [case for case in all_cases() if not groups or case.group in groups]
        random.Random(seed).shuffle(self.cases)

    def run(self, at_most: int | None = None) -> Iterator[Verdict]:
        """Do cases that have no verdict yet, at most so many."""
        done = self.verdicts.trials
        for case in [case for case in self.cases if f"{case.group}: {case.name}" not in done][:at_most]:
            verdict = judge(case, self._work / "case")
            self.verdicts.add(verdict)
            yield verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.bad_input", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="GROUP")
    options = parser.parse_args()
    campaign = Campaign(options.work.absolute(), options.seed, options.only)
    for verdict in campaign.run(options.at_most):
        if verdict.outcome != AS_EXPECTED:
            print(f"{verdict.outcome}: {verdict.trial}: {verdict.details}", file=sys.stderr)
    report = campaign.verdicts.report(OUTCOMES)
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome != AS_EXPECTED for verdict in campaign.verdicts.all))


if __name__ == "__main__":
    main()
