"""A campaign of other tools: `python -m tests.campaigns.other_tools --work FOLDER [--at-most N] [--spark]`.

Each trial changes one table of a pipeline, or its source, in a fresh copy of a warehouse, as another tool
does (`tests.campaigns.foreign_changes`). Then verbs that look and `run` are called. The outcome must be:

    equal      the verbs succeed, and leave what they leave in an untouched warehouse.
    refused    `run` names the table and what to do before anything is replayed, readers refuse too or answer
               rightly, and `health` is not green. After the cure that is named the same commands succeed and
               leave what they leave in an untouched warehouse.
    named      as refused, where files that are needed have been deleted, so that nothing can bring them back.
    not done   the tool itself has refused, so nothing was changed: Spark clusters no partitioned table.

Anything else is a fault. Trials that have a verdict in the folder are not repeated.
"""

import argparse
import io
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import write_deltalake

from tests.campaigns.faults import state_of
from tests.campaigns.foreign_changes import CHANGES, Change, changes_rows, kind_of, of_spark
from tests.campaigns.verdicts import Verdict, Verdicts, as_table
from tests.integration.command import here

PIPELINE = "watched"
SOURCE = "source"
GOOD = ("equal", "refused", "named", "not done")
BAD = ("silently wrong", "traceback", "unnamed", "not cured")
TABLES = (
    "runs",
    "attempts",
    "window_state",
    "keyed_state",
    "timers",
    "source_progress",
    "panes",
    "late_events",
    "quarantine",
    "published",
    "corrections",
    "validations",
    "overrides",
)
START = datetime(2024, 3, 1, tzinfo=UTC)
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [("e", _TIME), ("a", _TIME), ("k", pa.string()), ("x", pa.int64()), ("note", pa.string())]
)
_FILE = """
from datetime import timedelta

from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg, expect

HOUR = timedelta(hours=1)
watched = Pipeline(
    name="watched",
    source=DeltaSource("sources/watched", event_time="e", arrival_time="a"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=30)),
    key_by="k",
    window=TumblingEventTimeWindows.of(3 * HOUR),
    allowed_lateness=2 * HOUR,
    select={"n": agg.count(), "total": agg.sum("x")},
    expect=[expect.between("n", min=1)],
    start="2024-03-01",
    slice=12 * HOUR,
)
"""
_TO, _LAST = "2024-03-02T12:00", "2024-03-03T12:00"
_ANSWER = ("sql", PIPELINE, "SELECT * FROM published ORDER BY ALL", "--output", "json")


class Done(NamedTuple):
    """How a verb has ended, and what it has said."""

    code: int
    stdout: str
    text: str


def call(warehouse: Path, *command: object) -> Done:
    """Run a verb in this process."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = here(*command, "--warehouse", warehouse, "--pipelines", warehouse.parent / "watched.py")
    return Done(code, stdout.getvalue(), stdout.getvalue() + stderr.getvalue())


def source_rows(first: int, last: int) -> list[dict[str, object]]:
    """Three rows an hour, each tenth of them four hours late, and some without a key."""
    rows: list[dict[str, object]] = []
    for number in range(3 * first, 3 * last):
        arrival = START + timedelta(minutes=20 * number)
        late = timedelta(hours=7 if number % 23 == 7 else 4 if number % 10 == 3 else 0)
        key = None if number % 41 == 40 else "abc"[number % 3]
        rows.append({"e": arrival - late, "a": arrival, "k": key, "x": number, "note": None})
    return rows


@dataclass
class Prepared:
    """A warehouse before the trials, and what the verbs say and leave of it when nobody has touched it."""

    folder: Path
    answer: str = ""
    final_state: Mapping[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "watched.py").write_text(_FILE)
        before = self.folder / "before"
        for first, last in ((0, 20), (20, 40), (40, 60)):
            rows = pa.Table.from_pylist(source_rows(first, last), schema=_SCHEMA)
            write_deltalake(before / "sources" / "watched", rows, mode="append")
        self._must_succeed(call(before, "run", PIPELINE, "--to", _TO))
        warehouse = self.copy()
        self.answer = self._must_succeed(call(warehouse, *_ANSWER)).stdout
        for command in self.writers:
            self._must_succeed(call(warehouse, *command))
        self.final_state = state_of(warehouse, PIPELINE)

    @property
    def writers(self) -> tuple[tuple[str, ...], ...]:
        return (("run", PIPELINE, "--to", _LAST), ("maintain", PIPELINE))

    def copy(self) -> Path:
        """A fresh warehouse, always at the same place."""
        warehouse = self.folder / "warehouse"
        shutil.rmtree(warehouse, ignore_errors=True)
        return Path(shutil.copytree(self.folder / "before", warehouse))

    @staticmethod
    def _must_succeed(done: Done) -> Done:
        if done.code:
            raise RuntimeError(done.text)
        return done


def place_of(warehouse: Path, table: str) -> Path:
    return warehouse / "sources" / PIPELINE if table == SOURCE else warehouse / PIPELINE / table


def judge(prepared: Prepared, table: str, name: str, change: Change) -> Verdict:
    """Do a trial on a fresh copy."""
    trial = _Trial(prepared, table, prepared.copy())
    try:
        change(place_of(trial.warehouse, table))
    except Exception as error:  # noqa: BLE001 - the tool itself has refused, so nothing was changed
        return Verdict(f"{table}: {name}", kind_of(name), "not done", [str(error)[:200]])
    return Verdict(f"{table}: {name}", kind_of(name), trial.outcome(), trial.details)


class _Trial:
    """Calls the verbs on a changed warehouse, and says how they have ended."""

    def __init__(self, prepared: Prepared, table: str, warehouse: Path) -> None:
        self._prepared, self._table, self.warehouse = prepared, table, warehouse
        self.details: list[str] = []

    def outcome(self) -> str:
        ledger = self._versions()
        answer = self._call(*_ANSWER)
        if answer.code == 0 and answer.stdout != self._prepared.answer:
            return self._bad("silently wrong", answer)
        health = self._call("health", PIPELINE)
        run = self._call(*self._prepared.writers[0])
        if self._has_traceback():
            return "traceback"
        if run.code == 0:
            return self._outcome_of_success()
        if not self._is_named(run):
            return self._bad("unnamed", run)
        if self._table == SOURCE:
            return "refused"
        if self._versions() != ledger:
            return self._bad("silently wrong", run, "something was written before it was refused")
        if health.code == 0:
            return self._bad("silently wrong", health, "health is green")
        return self._outcome_of_cure()

    def _outcome_of_success(self) -> str:
        maintained = self._call(*self._prepared.writers[1])
        if self._has_traceback():
            return "traceback"
        if maintained.code:
            return self._bad("unnamed", maintained)
        return "equal" if self._is_equal() else "silently wrong"

    def _outcome_of_cure(self) -> str:
        cure = self._call("publish", PIPELINE, "--rebuild")
        done = [cure, *(self._call(*command) for command in self._prepared.writers)]
        if self._has_traceback():
            return "traceback"
        failed = next((one for one in done if one.code), None)
        if failed is not None:
            is_lost = "is missing" in failed.text or "is not there" in failed.text
            return "named" if is_lost else self._bad("not cured", failed)
        checked = self._call("verify", PIPELINE, "--tables")
        if checked.code:
            return self._bad("not cured", checked)
        return "refused" if self._is_equal() else "not cured"

    def _is_equal(self) -> bool:
        state, is_equal = state_of(self.warehouse, PIPELINE), True
        for name, facts in self._prepared.final_state.items():
            if name == "quarantine" and self._table == SOURCE:
                continue  # its rows name the source's version and file
            before, after = (_without_nulls(one) for one in (facts, state[name]))
            lost, surplus = before - after, after - before
            if lost or surplus:
                self.details.append(f"{name}: {lost.total()} rows lost, {surplus.total()} too much")
                is_equal = False
        return is_equal

    def _versions(self) -> dict[str, int]:
        """The versions of the ledger and of the attempts, which a replay moves."""
        return {
            name: max(
                int(file.stem) for file in (self.warehouse / PIPELINE / name / "_delta_log").glob("*.json")
            )
            for name in ("runs", "attempts")
        }

    def _call(self, *command: str) -> Done:
        try:
            done = call(self.warehouse, *command)
        except Exception as error:  # noqa: BLE001 - what `here` lets through is a traceback to a user
            done = Done(1, "", f"Traceback {type(error).__name__}: {error}")
        self.details.append(f"`{' '.join(command[:2])}` ended with {done.code}: {done.text[-500:]}")
        return done

    def _has_traceback(self) -> bool:
        return any("Traceback" in line or "fault of slackwater" in line for line in self.details)

    def _is_named(self, done: Done) -> bool:
        name = "sources/watched" if self._table == SOURCE else self._table
        return name in done.text and ("`" in done.text or self._table == SOURCE)

    def _bad(self, outcome: str, done: Done, why: str = "") -> str:
        self.details.append(f"{outcome}: {why} {done.text[-1500:]}")
        return outcome


def _without_nulls(facts: Counter[str]) -> Counter[str]:
    """Rows without their nulls: `late_events` takes over a column that its source has gained."""
    counts: Counter[str] = Counter()
    for fact, count in facts.items():
        row = {name: value for name, value in json.loads(fact).items() if value is not None}
        counts[json.dumps(row, sort_keys=True)] += count
    return counts


def trials(changes: Mapping[str, Change], seed: int) -> list[tuple[str, str]]:
    """(table, change) for every pair, in an order that the seed decides."""
    pairs = [(table, name) for name in changes for table in TABLES]
    pairs += [(SOURCE, name) for name in changes if not changes_rows(name)]
    random.Random(seed).shuffle(pairs)
    return pairs


def run(
    work: Path, changes: Mapping[str, Change], seed: int, at_most: int | None = None
) -> Iterator[Verdict]:
    """Do trials that have no verdict yet, at most so many."""
    verdicts, prepared = Verdicts(work / f"other-tools-{seed}.jsonl"), None
    waiting = [pair for pair in trials(changes, seed) if f"{pair[0]}: {pair[1]}" not in verdicts.trials]
    for table, name in waiting[:at_most]:
        prepared = prepared or Prepared(work / "prepared")
        verdict = judge(prepared, table, name, changes[name])
        verdicts.add(verdict)
        yield verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.other_tools", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--spark", action="store_true", help="the changes of Spark, too")
    options = parser.parse_args()
    changes = dict(CHANGES)
    if options.spark:
        from slackwater.runtime.session import session

        changes |= {f"Spark: {name}": change for name, change in of_spark(session("other tools")).items()}
    work = options.work.absolute()
    shutil.rmtree(work / "prepared", ignore_errors=True)
    for verdict in run(work, changes, options.seed, options.at_most):
        print(f"{verdict.outcome}: {verdict.trial}", file=sys.stderr)
        if verdict.outcome in BAD:
            print(f"  {verdict.details}", file=sys.stderr)
    verdicts = Verdicts(work / f"other-tools-{options.seed}.jsonl")
    report = verdicts.report((*GOOD, *BAD))
    print(as_table(report))
    print(json.dumps(report))
    sys.exit(any(verdict.outcome in BAD for verdict in verdicts.all))


if __name__ == "__main__":
    main()
