"""A campaign of faults: `python -m tests.campaigns.faults --work FOLDER [--at-most N] [--seed N]`.

Each verb that changes a warehouse is run once without faults, and its writes are listed. Then it is killed
(-9) before and after each of them, each time on a fresh copy of the warehouse. After each kill readers must
see a state that the run without faults has also passed, the same command must succeed, and what is then
published, parked and recorded must be what the run without faults leaves. Runs also get a rival that comes
while they work, and that must change nothing. The report counts what was not so.

Trials are taken in an order that the seed decides; those in the verdicts file of the folder are not repeated.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.campaigns.verdicts import Verdict, Verdicts, as_table
from tests.integration.command import driver, here, start_driver
from tests.integration.driver import STARTED_SPARK, Plan
from tests.integration.facts import assert_corrections_make_published
from tests.integration.fork_server import ForkedDriver
from tests.integration.shared_jvm import shared_jvm
from tests.integration.stored import ROOT, StoredTables, plain

PIPELINES = ROOT / "tests" / "integration" / "hourly.py"
FUNCTIONS = ROOT / "tests" / "integration" / "own_functions.py"
ENGINES = ("columnar", "operator")
# The operator engine with functions of a user's, their state spilled to RocksDB.
ROCKSDB = "RocksDB"
# Each of them with all tasks on Spark.
_SPARK_SUFFIX = " on Spark"
ON_SPARK = tuple(f"{engine}{_SPARK_SUFFIX}" for engine in (*ENGINES, ROCKSDB))
BRANCH = "trial"
SURVIVED, WRONG = "survived", "silently wrong"
BAD = ("rows lost", "rows doubled", "half states", WRONG, "orphans", "unclear error", "not ended")
# What says when and by whom something was written, not what.
_OF_THE_PROCESS = frozenset(
    {"run_id", "revision", "run_seq", "seq", "started_at", "committed_at", "phase_seconds", "files", "at"}
)
Command = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """A verb, and what has happened before it.

    Attributes:
        before: the commands that make its warehouse, from the loaded source on.
        command: the verb that is killed, with its options.
        codes: the exit codes with which it may end when it is repeated after a kill, if it may have ended
            its work before it: what is done already can't be done twice.
    """

    name: str
    before: tuple[Command, ...]
    command: Command
    codes: tuple[int, ...] = (0,)


_TWO_DAYS: Command = ("run", "--to", "2013-01-03")
_TO_THE_FOURTH: Command = ("run", "--to", "2013-01-04")
SCENARIOS = (
    Scenario("first run", (), _TWO_DAYS),
    Scenario("run", (_TWO_DAYS,), _TO_THE_FOURTH),
    Scenario("staged run", (_TWO_DAYS,), (*_TO_THE_FOURTH, "--no-publish")),
    Scenario("publish", ((*_TWO_DAYS, "--no-publish"),), ("publish",), (0, 2)),
    Scenario("backfill", (_TO_THE_FOURTH,), ("backfill", "--from", "2013-01-02", "--to", "2013-01-03")),
    Scenario("restore", (_TO_THE_FOURTH,), ("state", "restore", "1"), (0, 2)),
    Scenario("fork", (_TWO_DAYS,), ("state", "fork", BRANCH), (0, 2)),
    Scenario(
        "run of a branch", (_TWO_DAYS, ("state", "fork", BRANCH)), (*_TO_THE_FOURTH, "--branch", BRANCH)
    ),
    Scenario("redrive", (_TO_THE_FOURTH,), ("late", "redrive", "--reason", "a late feed"), (0, 2)),
    Scenario("close", (_TWO_DAYS,), ("state", "close"), (0, 2)),
    Scenario("maintain", (_TWO_DAYS, _TO_THE_FOURTH), ("maintain",)),
)

# Those that replay slices, which tasks on Spark can do.
WITH_TASKS = ("first run", "run", "staged run", "backfill", "run of a branch")
# Those that commit to the ledger, under the lease.
WITH_RIVALS = ("first run", "run")


@dataclass(frozen=True)
class Fault:
    """One trial: the scenario is killed at its n-th write, see `Plan.dies_at_write`; 0: it is not killed, and
    a rival comes.
    """

    scenario: str
    engine: str
    write: int

    @property
    def name(self) -> str:
        """What the file of verdicts calls it."""
        side = "before" if self.write > 0 else "after"
        moment = f"{side} write {abs(self.write)}" if self.write else "a rival"
        return f"{self.scenario} of {self.engine}: {moment}"

    @property
    def group(self) -> str:
        """What the report counts it under."""
        return self.scenario if self.engine in ENGINES else f"{self.scenario}, {self.engine}"


def outcome_of(problems: Sequence[str]) -> str:
    """The worst of what did not hold, as a column of the report."""
    if not problems:
        return SURVIVED
    text = " ".join(problems)
    if "half a state" in text:
        return "half states"
    for word in ("orphans", "unclear error", "not ended"):
        if any(problem.startswith(word) for problem in problems):
            return word
    if any(" rows lost" in problem and ": 0 rows lost" not in problem for problem in problems):
        return "rows lost"
    if any("rows too much" in problem for problem in problems):
        return "rows doubled"
    return WRONG if "do not make" in text or "verify" in text else "not ended"


class Prepared:
    """A scenario on one engine: its warehouse before the verb, and what the verb leaves without faults.

    Attributes:
        planted: a breakage of the product in the trials, see `tests.campaigns.planted`.
        steps: what the verb writes, write by write, see `Plan.lists_writes`.
    """

    def __init__(self, scenario: Scenario, engine: str, source: Path, work: Path) -> None:
        self.scenario, self._engine = scenario, engine.removesuffix(_SPARK_SUFFIX)
        self._on_spark = engine.endswith(_SPARK_SUFFIX)
        self.planted: str | None = None
        self.pipeline = "latest" if self._engine == ROCKSDB else "hourly"
        self._variables = {"SLACKWATER_STATE_MEMORY_MB": "0"} if self._engine == ROCKSDB else {}
        self._folder = work / f"{scenario.name}-{engine}".replace(" ", "-")
        shutil.rmtree(self._folder, ignore_errors=True)
        self.before = self._folder / "before"
        shutil.copytree(source, self.before)
        for command in scenario.before:
            self._must_succeed(self.run(command, self.before, Plan()))
        self.right = self._folder / "right"
        shutil.copytree(self.before, self.right)
        steps = self._folder / "steps"
        done = self.run(scenario.command, self.right, Plan(lists_writes=str(steps)))
        self._must_succeed(done)
        if self._on_spark and STARTED_SPARK not in done.stderr:
            raise RuntimeError(f"{done.args} had no tasks on Spark")
        self.steps = steps.read_text().splitlines()

    @property
    def writes(self) -> int:
        """How many there are."""
        return len(self.steps)

    @property
    def kills(self) -> list[int]:
        """The writes at which the verb is killed: all of them; where each trial starts Spark, the first of
        each kind, since what the driver itself does is the same with tasks elsewhere.
        """
        if self._on_spark:
            return [number + 1 for number, step in enumerate(self.steps) if step not in self.steps[:number]]
        return list(range(1, self.writes + 1))

    def run(self, command: Command, warehouse: Path, plan: Plan, env: Mapping[str, str] | None = None) -> Any:
        """A verb of the pipeline with `plan` built in, to its end; with `env` in its own environment."""
        try:
            return driver(self._plan(plan), *self.words(command, warehouse), env=env, timeout=600)
        finally:
            if self._on_spark:
                shared_jvm().end_application()

    def start(self, command: Command, warehouse: Path, plan: Plan) -> ForkedDriver:
        """As `run`, without waiting."""
        return start_driver(self._plan(plan), *map(str, self.words(command, warehouse)))

    def _plan(self, plan: Plan) -> Plan:
        variables = {**self._variables, **plan.variables}
        if self._on_spark:
            variables |= shared_jvm().variables
        return replace(plan, planted=self.planted, variables=variables, spark=self._on_spark)

    def stored(self, warehouse: Path) -> StoredTables:
        return StoredTables(warehouse, self.pipeline)

    def words(self, command: Command, warehouse: Path) -> list[object]:
        """The command line of a verb of the pipeline."""
        words: list[object] = [*command]
        words.insert(2 if command[0] in ("state", "late") else 1, self.pipeline)
        if command[0] in ("run", "backfill"):
            words += ["--engine", self._engine] if self._engine in ENGINES else []
            # Each partition opens a database of its own, or is a task.
            words += ["--partitions", "2"] if self._on_spark or self._engine == ROCKSDB else []
        file = FUNCTIONS if self._engine == ROCKSDB else PIPELINES
        return [*words, "--warehouse", warehouse, "--pipelines", file]

    def copy(self) -> Path:
        """A fresh warehouse as before the verb."""
        folder = self._folder / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(self.before, folder)

    @cached_property
    def passed_states(self) -> list[Counter[str]]:
        """What `published` held at each commit of the run without faults."""
        return self.versions_of("published")

    def versions_of(self, table: str) -> list[Counter[str]]:
        """What a table held before its first commit, and at each commit of the run without faults."""
        uri = self.stored(self.right).uri(table)
        if not DeltaTable.is_deltatable(uri):
            return [Counter()]
        newest = DeltaTable(uri).version()
        return [
            Counter(),
            *(facts_of(plain(DeltaTable(uri, version=v).to_pyarrow_table())) for v in range(newest + 1)),
        ]

    @cached_property
    def final_state(self) -> dict[str, Counter[str]]:
        return state_of(self.right, self.pipeline)

    @staticmethod
    def _must_succeed(done: Any) -> None:
        if done.returncode:
            raise RuntimeError(f"{done.args} ended with {done.returncode}: {done.stderr}")


def state_of(warehouse: Path, pipeline: str = "hourly") -> dict[str, Counter[str]]:
    """All that a warehouse says of a pipeline but names and wall times, by table."""
    stored = StoredTables(warehouse, pipeline)
    tables = {name: facts_of(stored.live(name)) for name in ("panes", "late_events", "quarantine")}
    tables |= {name: facts_of(stored.parked(name)) for name in ("window_state", "timers")}
    tables["overrides"] = (
        facts_of(stored.rows("overrides")) if Path(stored.uri("overrides")).exists() else Counter()
    )
    ledger = [
        {name: row[name] for name in ("kind", "state_hash", "output_hash", "watermark_out")}
        for branch in ("main", BRANCH)
        for row in _live_runs(stored.ledger(), branch)
    ]
    return {**tables, "published": published(stored), "runs": facts_of(ledger)}


def _live_runs(ledger: Sequence[dict[str, Any]], branch: str) -> list[dict[str, Any]]:
    """The runs that count on a branch. Others may be more after a fault: a restatement that had just ended is
    made once more.
    """
    head = next((row for row in reversed(ledger) if row["branch"] == branch), None)
    spans = [] if head is None else head["live"]
    return [row for row in ledger for span in spans if span["first_seq"] <= row["seq"] <= span["last_seq"]]


def published(stored: StoredTables) -> Counter[str]:
    """The rows of `published`; none where there is no table yet."""
    return (
        facts_of(stored.rows("published")) if DeltaTable.is_deltatable(stored.uri("published")) else Counter()
    )


def facts_of(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(
        json.dumps(
            {name: value for name, value in row.items() if name not in _OF_THE_PROCESS},
            default=str,
            sort_keys=True,
        )
        for row in rows
    )


def problems_of(prepared: Prepared, write: int) -> list[str]:
    """What does not hold after a kill at that write."""
    warehouse, problems = prepared.copy(), []
    killed = prepared.run(prepared.scenario.command, warehouse, Plan(dies_at_write=write))
    if killed.returncode != -signal.SIGKILL:
        return [f"not killed, it ended with {killed.returncode}: {killed.stderr}"]
    if published(prepared.stored(warehouse)) not in prepared.passed_states:
        problems.append("half a state: readers of `published` see what was never there without the fault")
    return problems + problems_afterwards(prepared, warehouse)


def problems_afterwards(prepared: Prepared, warehouse: Path) -> list[str]:
    """What does not hold after a fault: the same command must succeed, and leave what it leaves without the
    fault.
    """
    problems = []
    repeated = prepared.run(prepared.scenario.command, warehouse, Plan())
    if repeated.returncode not in prepared.scenario.codes:
        problems.append(f"the same command ended with {repeated.returncode}: {repeated.stderr.strip()}")
    problems += differences(prepared, warehouse)
    try:
        if prepared.pipeline == "hourly":
            assert_corrections_make_published(prepared.stored(warehouse))
    except AssertionError as error:
        problems.append(f"`corrections` do not make `published`: {error}")
    verified = driver(Plan(), *prepared.words(("verify", "--tables"), warehouse), timeout=600)
    if verified.returncode:
        problems.append(
            f"`verify --tables` ended with {verified.returncode}: {verified.stdout}{verified.stderr}"
        )
    return problems


def differences(prepared: Prepared, warehouse: Path) -> list[str]:
    """In what a warehouse differs from what the verb leaves without faults."""
    left, problems = state_of(warehouse, prepared.pipeline), []
    for table, facts in prepared.final_state.items():
        lost, doubled = facts - left[table], left[table] - facts
        if lost or doubled:
            problems.append(f"{table}: {lost.total()} rows lost, {doubled.total()} rows too much")
    return problems


def problems_of_a_rival(prepared: Prepared) -> list[str]:
    """What does not hold where the same command comes while the first one waits, its lease held: it
    must end with 5, and the first one must leave what it leaves alone.
    """
    warehouse, command = prepared.copy(), prepared.scenario.command
    meeting = warehouse / "meeting"
    meeting.mkdir()
    first = prepared.start(command, warehouse, Plan(at="before the panes are staged", meet=str(meeting)))
    while first.poll() is None and not list(meeting.iterdir()):
        time.sleep(0.05)
    second = prepared.run(command, warehouse, Plan())
    (meeting / "second").touch()
    _, text = first.communicate()
    problems = (
        [] if second.returncode == 5 else [f"the rival ended with {second.returncode}: {second.stderr}"]
    )
    if first.poll():
        problems.append(f"the first ended with {first.poll()}: {text}")
    shutil.rmtree(meeting)
    return problems + differences(prepared, warehouse)


class Campaign:
    """Trials and their verdicts in a folder, which a second call continues."""

    def __init__(
        self, work: Path, seed: int, names: Sequence[str] = (), engines: Sequence[str] = ENGINES
    ) -> None:
        self._work, self._seed, self._engines = work, seed, engines
        self.scenarios = [one for one in SCENARIOS if not names or one.name in names]
        self._prepared: dict[tuple[str, str], Prepared] = {}
        work.mkdir(parents=True, exist_ok=True)
        self.verdicts = Verdicts(work / f"faults-{seed}.jsonl")

    @cached_property
    def source(self) -> Path:
        """A warehouse with the flights of three days, where nothing has run."""
        folder = self._work / "source"
        if not folder.exists():
            period = ("--from", "2013-01-01", "--to", "2013-01-04")
            if here("examples", "load", "departures", *period, "--warehouse", folder):
                raise RuntimeError("the flights could not be loaded")
        return folder

    def prepared(self, scenario: Scenario, engine: str) -> Prepared:
        place = (scenario.name, engine)
        if place not in self._prepared:
            self._prepared[place] = Prepared(scenario, engine, self.source, self._work)
        return self._prepared[place]

    def faults(self) -> list[Fault]:
        """All of them, in an order that the seed decides."""
        rivals = [
            Fault(scenario.name, engine, 0)
            for scenario in self.scenarios
            for engine in self._engines
            if scenario.name in WITH_RIVALS and engine in ENGINES
        ]
        faults = rivals + [
            Fault(scenario.name, engine, sign * number)
            for scenario in self.scenarios
            for engine in self._engines
            if engine not in ON_SPARK or scenario.name in WITH_TASKS
            for number in self.prepared(scenario, engine).kills
            for sign in (1, -1)
        ]
        random.Random(self._seed).shuffle(faults)
        return faults

    def run(self, at_most: int | None = None) -> Iterator[Verdict]:
        """Do trials that have no verdict yet, at most so many."""
        done = self.verdicts.trials
        scenarios = {scenario.name: scenario for scenario in self.scenarios}
        for fault in [fault for fault in self.faults() if fault.name not in done][:at_most]:
            prepared = self.prepared(scenarios[fault.scenario], fault.engine)
            problems = problems_of(prepared, fault.write) if fault.write else problems_of_a_rival(prepared)
            verdict = Verdict(fault.name, fault.group, outcome_of(problems), problems)
            self.verdicts.add(verdict)
            yield verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.faults", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO")
    parser.add_argument("--engine", action="append", choices=[*ENGINES, ROCKSDB, *ON_SPARK])
    options = parser.parse_args()
    campaign = Campaign(options.work.absolute(), options.seed, options.only, options.engine or ENGINES)
    for verdict in campaign.run(options.at_most):
        if verdict.outcome != SURVIVED:
            print(f"{verdict.outcome}: {verdict.trial}: {verdict.details}", file=sys.stderr)
    report = campaign.verdicts.report((SURVIVED, *BAD))
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome in BAD for verdict in campaign.verdicts.all))


if __name__ == "__main__":
    main()
