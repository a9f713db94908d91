"""A simulated year:
`python -m tests.campaigns.soak --work FOLDER [--days 365] [--seed 1] [--runs 3000] [--plot FILE]`.

Two pipelines run once a day over the flights of 2013; the clock of their processes goes on by a week after
seven of them. One flight in 200 reports one to five days late. One run in ten is killed (-9) at one of its
writes, if it has so many, and repeated. On the tenth of each month one flight in fifty of the twentieth
before appears, and that day is restated. Each week ends with upkeep.

The year is then held against one run over all rows of the same source: the same rows must be published. What
a run takes, and what the tables hold after upkeep, must be as flat as the guide "Keep it small" says; the
report is a table, JSON (report.json), and a plot. A second call goes on where the first ended. Then comes a
month with a run each quarter of an hour (`quarter_hours`).
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from slackwater.examples.appending import append_missing, within
from slackwater.examples.flights import SCHEMA, SOURCE, read_flights
from tests.campaigns.faults import published
from tests.campaigns.quarter_hours import DAY, FIRST_DAY, PIPELINES, RUNS, excesses, month_in
from tests.integration.command import environment
from tests.integration.driver import Plan
from tests.integration.fork_server import ForkServer
from tests.integration.stored import ROOT, StoredTables

NAMES = ("departures", "turnarounds")
LATE, HELD_BACK, KILLED = 1 / 200, 1 / 50, 1 / 10
MOST_WRITES = 24  # a kill that would come after a run's end is none
# The days that are compared: what is kept for 60 days, and dropped snapshots that go a week later, are
# all there by the first of these quarters.
EARLY, QUARTER = 90, 91
# Tables that keep each day's rows, and a row or two of each run.
GROWS = ("published", "quarantine", "runs", "attempts", "validations")


class Failure(Exception):
    """A command ended as it must not."""


@dataclass
class DayFacts:
    """What one day took and left.

    Attributes:
        day: from 1 on.
        cpu_s: CPU seconds of the day's run, by pipeline.
        windows: parked when it ended, by pipeline.
        kills: how many runs were killed.
        restated: whether a day was restated.
        restated_cpu_s, upkeep_cpu_s: CPU seconds of both pipelines' backfills, and of their upkeep.
        files, megabytes: of live files, by pipeline and table, after the week's upkeep; empty on other days.
        disk_mb: of all files of a pipeline but those of tables that grow, live or not, after upkeep.
    """

    day: int
    cpu_s: dict[str, float] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    restated: bool = False
    restated_cpu_s: float = 0
    upkeep_cpu_s: float = 0
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    megabytes: dict[str, dict[str, float]] = field(default_factory=dict)
    disk_mb: dict[str, float] = field(default_factory=dict)


def clock_ahead(days: int) -> dict[str, str]:
    """Variables of a process whose clock is so many days ahead. The times of files stay as they are."""
    package = find_spec("libfaketime")
    assert package is not None and package.submodule_search_locations
    [library] = Path(package.submodule_search_locations[0]).rglob("libfaketime.so.1")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"+{days}d", "NO_FAKE_STAT": "1"}


class Year:
    """The year in a folder, as far as it has come."""

    def __init__(self, work: Path, seed: int, killed: float = KILLED) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.work, self.seed, self._killed = work, seed, killed
        self.warehouse = work / "warehouse"
        self._servers: dict[int, ForkServer] = {}
        self._facts_file = work / "days.jsonl"
        lines = self._facts_file.read_text().splitlines() if self._facts_file.exists() else []
        self.days = [DayFacts(**json.loads(line)) for line in lines]

    @property
    def server(self) -> ForkServer:
        """What starts the processes of this week."""
        week = len(self.days) // 7
        if week not in self._servers:
            self.close()
            self._servers[week] = ForkServer({**environment(), **clock_ahead(7 * week)}, ROOT)
        return self._servers[week]

    def close(self) -> None:
        """End what starts processes."""
        while self._servers:
            self._servers.popitem()[1].close()

    @cached_property
    def flights(self) -> pa.Table:
        """The year's flights with their stragglers, and in `held_back` whether they appear later."""
        rows = read_flights()
        generator = np.random.default_rng(self.seed)
        chance, days = generator.random(rows.num_rows), generator.integers(1, 6, rows.num_rows)
        arrivals = pc.add(
            rows["arrival_time"].cast(pa.int64()), pa.array(np.where(chance < LATE, days * 86_400_000_000, 0))
        ).cast(SCHEMA.field("arrival_time").type)
        rows = rows.set_column(rows.schema.get_field_index("arrival_time"), "arrival_time", arrivals)
        rows = rows.set_column(
            rows.schema.get_field_index("arrival_date"), "arrival_date", arrivals.cast(pa.date32())
        )
        is_twentieth = pc.equal(pc.day(rows["arrival_time"]), 20)
        return rows.append_column("held_back", pc.and_(is_twentieth, pa.array(chance > 1 - HELD_BACK)))

    def load(self, day: datetime, held_back: bool) -> None:
        """Append the flights that arrived on that day, or those of them that were held back."""
        rows = self.flights.filter(within(day, day + DAY) & (pc.field("held_back") == held_back))
        append_missing(str(self.warehouse), SOURCE, rows.drop_columns("held_back"), day, day + DAY)

    def command(
        self, *words: str, warehouse: Path | None = None, plan: Plan | None = None
    ) -> tuple[int, float]:
        """(exit code, CPU seconds) of `slackwater WORDS`; -9 only if the plan kills it."""
        options = ("--warehouse", str(warehouse or self.warehouse), "--pipelines", str(PIPELINES))
        process = self.server.start((plan or Plan()).text(), *words, *options)
        _, errors = process.communicate(timeout=3600)
        code = process.poll()
        if code != 0 and not (code == -9 and plan):
            raise Failure(f"`slackwater {' '.join(words)}` ended with {code}: {errors[-2000:]}")
        return code, process.cpu_s

    def go_on(self, days: int) -> Iterator[DayFacts]:
        """Live through the days that are left."""
        for number in range(len(self.days) + 1, days + 1):
            facts = self._live(number)
            self.days.append(facts)
            with self._facts_file.open("a") as file:
                file.write(json.dumps(asdict(facts)) + "\n")
            yield facts

    def _live(self, number: int) -> DayFacts:
        facts, chance = DayFacts(number), random.Random(f"{self.seed} {number}")
        day = FIRST_DAY + (number - 1) * DAY
        self.load(day, held_back=False)
        if day.day == 10 and day.month > 1:
            facts.restated = True
            twentieth = (day.replace(day=1) - DAY).replace(day=20)
            self.load(twentieth, held_back=True)
            bounds = ("--from", f"{twentieth:%F}", "--to", f"{twentieth + DAY:%F}")
            facts.restated_cpu_s = sum(
                self.command("backfill", name, *bounds, "--reason", "reported late")[1] for name in NAMES
            )
        for name in NAMES:
            run = ("run", name, "--to", f"{day + DAY:%F}")
            if chance.random() < self._killed:
                code, _ = self.command(*run, plan=Plan(dies_at_write=chance.randint(1, MOST_WRITES)))
                facts.kills += code == -9
            _, facts.cpu_s[name] = self.command(*run)
            facts.windows[name] = StoredTables(self.warehouse, name).ledger()[-1]["windows_open"]
        if number % 7 == 0:
            for name in NAMES:
                facts.upkeep_cpu_s += self.command("maintain", name)[1]
                self._measure_tables(name, facts)
        return facts

    def _measure_tables(self, name: str, facts: DayFacts) -> None:
        folder = self.warehouse / name
        for table in sorted(path.parent.name for path in folder.glob("*/_delta_log")):
            actions = DeltaTable(str(folder / table)).get_add_actions(flatten=True)
            sizes = pa.table(actions)["size_bytes"].to_pylist()
            facts.files.setdefault(name, {})[table] = len(sizes)
            facts.megabytes.setdefault(name, {})[table] = sum(sizes) / 1e6
        facts.disk_mb[name] = (
            sum(
                path.stat().st_size
                for path in folder.rglob("*")
                if path.is_file() and path.relative_to(folder).parts[0] not in GROWS
            )
            / 1e6
        )

    def problems(self) -> list[str]:
        """What does not hold at the end."""
        problems = []
        for name in NAMES:
            for words in (("verify", name, "--tables"), ("health", name)):
                try:
                    self.command(*words)
                except Failure as failure:
                    problems.append(str(failure))
        problems += self._differences_from_one_run()
        return problems + (unevenness(self.days) if len(self.days) >= EARLY + 2 * QUARTER else [])

    def _differences_from_one_run(self) -> list[str]:
        """What is published otherwise than by one run over all that the source holds."""
        alone = self.work / "alone"
        if not alone.exists():
            alone.mkdir()
            (alone / "sources").symlink_to(self.warehouse / "sources")
        problems = []
        for name in NAMES:
            end = FIRST_DAY + len(self.days) * DAY
            # A day at a time: a row counts by the watermark of its arrival, however a run is cut.
            self.command("run", name, "--from", f"{FIRST_DAY:%F}", "--to", f"{end:%F}", warehouse=alone)
            year, one_run = (published(StoredTables(root, name)) for root in (self.warehouse, alone))
            lost, doubled = one_run - year, year - one_run
            if lost or doubled:
                problems.append(f"{name}: {lost.total()} rows lost, {doubled.total()} rows too much")
        return problems


def unevenness(days: Sequence[DayFacts]) -> list[str]:
    """What the last quarter has more of than the one from day EARLY on, where it should not."""
    early = [one for one in days if EARLY <= one.day < EARLY + QUARTER]
    late = days[-QUARTER:]
    problems = []
    for what, of_day, most in (
        ("CPU seconds of a run", lambda one: one.cpu_s, 1.25),
        ("windows parked", lambda one: one.windows, 1.25),
        ("MB on disk but for tables that grow", lambda one: one.disk_mb, 1.25),
        ("live files", _files_that_stay, 1.25),
    ):
        for name in NAMES:
            before, after = (
                mean(of_day(one)[name] for one in some if name in of_day(one)) for some in (early, late)
            )
            if after > most * before:
                problems.append(f"{name}: {what} went from {before:.2f} to {after:.2f}")
    return problems


def _files_that_stay(day: DayFacts) -> dict[str, int]:
    """Live files of each pipeline's tables but those that grow by the day."""
    return {
        name: sum(count for table, count in tables.items() if table not in GROWS)
        for name, tables in day.files.items()
    }


def by_month(days: Sequence[DayFacts]) -> list[dict[str, Any]]:
    """A row for each pipeline and thirty days: means, and what stood after the last upkeep in them."""
    months: dict[tuple[str, int], list[DayFacts]] = defaultdict(list)
    for one in days:
        for name in NAMES:
            months[name, (one.day - 1) // 30].append(one)
    rows = []
    for (name, _), some in sorted(months.items()):
        measured = [one for one in some if one.disk_mb]
        last = measured[-1] if measured else None
        rows.append(
            {
                "pipeline": name,
                "days": f"{some[0].day}–{some[-1].day}",
                "runs killed": sum(one.kills for one in some),
                "CPU s a run": round(mean(one.cpu_s[name] for one in some), 2),
                "windows parked": round(mean(one.windows[name] for one in some)),
                "live files": _files_that_stay(last)[name] if last else None,
                "files of published": last.files[name]["published"] if last else None,
                "MB on disk": round(last.disk_mb[name], 1) if last else None,
                "MB of published": round(last.megabytes[name]["published"], 1) if last else None,
            }
        )
    return rows


def plot(days: Sequence[DayFacts], file: Path) -> None:
    """Four panels over the year: CPU of a run, windows parked, live files, megabytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 5.6), layout="constrained", sharex=True)
    measured = [one for one in days if one.disk_mb]
    weeks = [one.day for one in measured]
    numbers = [one.day for one in days]
    for name, color in zip(NAMES, ("C0", "C1"), strict=True):
        style = {"label": name, "color": color}
        axes[0, 0].plot(numbers, [one.cpu_s[name] for one in days], linewidth=1, **style)
        axes[0, 1].plot(numbers, [one.windows[name] for one in days], linewidth=1, **style)
        axes[1, 0].plot(weeks, [_files_that_stay(one)[name] for one in measured], **style)
        axes[1, 1].plot(weeks, [one.disk_mb[name] for one in measured], **style)
        published_mb = [one.megabytes[name]["published"] for one in measured]
        axes[1, 1].plot(weeks, published_mb, label=f"{name}: published", color=color, linestyle="--")
    titles = (
        "CPU seconds of a daily run",
        "windows parked",
        "live files but for tables that grow",
        "MB on disk but for tables that grow, and MB of published",
    )
    for axis, title in zip(axes.flat, titles, strict=True):
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylim(0, 1.35 * axis.get_ylim()[1])
        axis.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[1]:
        axis.set_xlabel("day")
    figure.savefig(file, dpi=110)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.soak", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=RUNS, help="how many the month has")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    year = Year(options.work.absolute(), options.seed)
    for facts in year.go_on(options.days):
        print(json.dumps(asdict(facts)), file=sys.stderr)
    problems = year.problems()
    year.close()
    problems += [
        problem for sizes in month_in(year.work / "month", options.runs) for problem in excesses(sizes)
    ]
    rows = by_month(year.days)
    kills, restated = sum(one.kills for one in year.days), sum(one.restated for one in year.days)
    report = {
        "days": len(year.days),
        "kills": kills,
        "restated": restated,
        "months": rows,
        "problems": problems,
    }
    (year.work / "report.json").write_text(json.dumps(report, indent=2))
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    print(f"{len(year.days)} days, {kills} runs killed, {restated} days restated")
    for problem in problems:
        print(problem, file=sys.stderr)
    if options.plot is not None:
        plot(year.days, options.plot)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
