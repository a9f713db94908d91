"""A campaign of planted mistakes: `python -m tests.campaigns.planted --work FOLDER [--only NAME]`.

Says whether the other campaigns can find what they look for. Each of `tests.campaigns.breakages` is built
into the processes of a trial, after its warehouse was made without it, and the smallest parts of the
campaigns of faults and of damages that should find it are run, until one reports something. A mistake that
none reports fails this campaign; so does a part that reports something where nothing is planted.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.campaigns import damages, faults
from tests.campaigns.breakages import BREAKAGES
from tests.campaigns.verdicts import Verdict, Verdicts, as_table

FOUND, MISSED, FALSE_ALARM = "found", "missed", "false alarm"
SEED = 1
NOT_KILLED = "not killed"
# A part: for a planted mistake, or None for none, the problems that each of its trials reports.
Part = Callable[["Campaigns", str | None], Iterator[list[str]]]


class Campaigns:
    """The campaigns of faults and of damages in one folder."""

    def __init__(self, work: Path) -> None:
        self.faults = faults.Campaign(work / "faults", SEED)
        self.damages = damages.Campaign(work / "damages", SEED)


def killed(campaigns: Campaigns, planted: str | None, *, scenario: str) -> Iterator[list[str]]:
    """The kills of a scenario, before and after each of its writes."""
    [one] = [one for one in faults.SCENARIOS if one.name == scenario]
    prepared = campaigns.faults.prepared(one, "columnar")
    for number in range(1, prepared.writes + 1):
        for sign in (1, -1):
            prepared.planted = planted
            try:
                problems = faults.problems_of(prepared, sign * number)
            except subprocess.TimeoutExpired as error:
                problems = [f"a command did not end: {error}"]
            prepared.planted = None
            yield [problem for problem in problems if not problem.startswith(NOT_KILLED)]


def with_a_rival(campaigns: Campaigns, planted: str | None, *, scenario: str) -> Iterator[list[str]]:
    """A scenario during which the same command comes a second time."""
    [one] = [one for one in faults.SCENARIOS if one.name == scenario]
    prepared = campaigns.faults.prepared(one, "columnar")
    prepared.planted = planted
    problems = faults.problems_of_a_rival(prepared)
    prepared.planted = None
    yield problems


def harmed(
    campaigns: Campaigns, planted: str | None, *, table: str, part: str, harm: str, times: int = 3
) -> Iterator[list[str]]:
    """A file of a part of a table harmed, as often as `times` says."""
    [lineage] = [one for one in damages.LINEAGES if one.name == "columnar"]
    prepared = campaigns.damages.prepared(lineage)
    for number in range(1, times + 1):
        damage = damages.Damage(lineage.name, table, part, harm, number)
        if part == "commit":  # older ones lie before a checkpoint, and nobody reads them
            prepared.files[table, part] = prepared.files[table, part][-1:]
        _ = prepared.answers, prepared.final_state  # without the mistake
        prepared.planted = planted
        verdict = damages.judge(prepared, damage, SEED)
        prepared.planted = None
        yield [f"{verdict.outcome}: {verdict.details}"] if verdict.outcome in damages.BAD else []


_RUN: Part = partial(killed, scenario="run")
PARTS: dict[str, Part] = {
    **dict.fromkeys(BREAKAGES, _RUN),
    "the lease ignored": partial(with_a_rival, scenario="run"),
    "checksums not compared": partial(
        harmed, table="window_state", part="rows", harm="of another warehouse", times=6
    ),
    "empty commits passed over": partial(harmed, table="panes", part="commit", harm="emptied"),
    "damage not named": partial(harmed, table="window_state", part="rows", harm="cut off"),
}


def judge(campaigns: Campaigns, name: str) -> Verdict:
    """Whether the part for a planted mistake reports it, in which trial, and nothing without it."""
    trials = 0
    for problems in PARTS[name](campaigns, name):
        trials += 1
        if problems and "in _replace" in problems[0]:
            raise RuntimeError(f"the mistake could not be built in: {problems[0]}")
        if problems:
            return Verdict(name, name, FOUND, [f"in trial {trials}: {problems[0][:1000]}"])
    return Verdict(name, name, MISSED, [f"{trials} trials"])


def false_alarms(campaigns: Campaigns) -> Iterator[Verdict]:
    """Of each part its first trial, with nothing planted."""
    parts = {str(part): (name, part) for name, part in PARTS.items()}
    for name, part in parts.values():
        problems = next(part(campaigns, None))
        outcome = FALSE_ALARM if problems else "nothing, rightly"
        yield Verdict(f"nothing, by the part for: {name}", "nothing planted", outcome, problems)


class Campaign:
    """The verdicts in a folder, which a second call continues."""

    def __init__(self, work: Path, names: Sequence[str] = ()) -> None:
        self._campaigns = Campaigns(work)
        self.verdicts = Verdicts(work / "planted.jsonl")
        self._names = [name for name in BREAKAGES if not names or name in names]

    def run(self) -> Iterator[Verdict]:
        """Judge each mistake that has no verdict yet; and, for all of them, that nothing else is reported."""
        for name in self._names:
            if name not in self.verdicts.trials:
                yield self._added(judge(self._campaigns, name))
        if len(self._names) == len(BREAKAGES) and not any(
            verdict.group == "nothing planted" for verdict in self.verdicts.all
        ):
            for verdict in false_alarms(self._campaigns):
                yield self._added(verdict)

    def _added(self, verdict: Verdict) -> Verdict:
        self.verdicts.add(verdict)
        return verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.planted", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    campaign = Campaign(options.work.absolute(), options.only)
    for verdict in campaign.run():
        print(f"{verdict.outcome}: {verdict.trial}: {verdict.details}", file=sys.stderr)
    report = campaign.verdicts.report((FOUND, MISSED, "nothing, rightly", FALSE_ALARM))
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome in (MISSED, FALSE_ALARM) for verdict in campaign.verdicts.all))


if __name__ == "__main__":
    main()
