"""The month of the simulated year that has a run each quarter of an hour; also alone:
`python -m tests.campaigns.quarter_hours --work FOLDER [--runs 3000]`.

The pipeline `quarter_hours` runs really, slice after slice, over the flights of January and February 2013,
without upkeep; each day begins with tables that are opened anew. What the logs of its tables hold (commits
and checkpoints) is measured at the end of each day. On none of them may it be more for each run than
`MOST_BYTES_OF_ATTEMPTS` and `MOST_BYTES_OF_ALL`, however many runs there were before.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from slackwater.engine.transport.in_process import InProcess
from slackwater.examples.appending import append_missing, within
from slackwater.examples.flights import SOURCE, read_flights
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from tests.integration.stored import ROOT

PIPELINES = ROOT / "tests" / "campaigns" / "year.py"
FIRST_DAY = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NAME = "quarter_hours"
SLICE = timedelta(minutes=15)
RUNS, RUNS_OF_A_DAY = 3000, DAY // SLICE
MOST_BYTES_OF_ATTEMPTS, MOST_BYTES_OF_ALL = 10_000, 60_000


@dataclass(frozen=True)
class LogSizes:
    """What the logs of the tables hold after some runs.

    Attributes:
        runs: how many there were.
        bytes: of commits and checkpoints, by table.
    """

    runs: int
    bytes: dict[str, int]

    @property
    def of_attempts(self) -> float:
        """Bytes a run of the log of `attempts`."""
        return self.bytes["attempts"] / self.runs

    @property
    def of_all(self) -> float:
        """Bytes a run of the logs of all tables."""
        return sum(self.bytes.values()) / self.runs


@dataclass
class Month:
    """The runs of a pipeline in a warehouse.

    Attributes:
        uri: of the warehouse.
        folder: of the same warehouse on this machine, where the bytes of its files are counted.
        runs: how many there have been.
    """

    uri: str
    folder: Path
    runs: int = 0

    def load(self, runs: int) -> None:
        """Write the source for so many runs."""
        end = FIRST_DAY + runs * SLICE
        append_missing(self.uri, SOURCE, read_flights().filter(within(FIRST_DAY, end)), FIRST_DAY, end)

    def go_on(self, runs: int) -> Iterator[LogSizes]:
        """Run day after day until there are so many runs."""
        while self.runs < runs:
            self._run(min(RUNS_OF_A_DAY, runs - self.runs))
            yield self._log_sizes()

    def _run(self, slices: int) -> None:
        end = FIRST_DAY + (self.runs + slices) * SLICE
        began, now = time.perf_counter(), end + timedelta(minutes=20)
        runner = replace(
            OpenedPipeline(NAME, self.uri, str(PIPELINES)).runner(transport=InProcess),
            clock=lambda: now + timedelta(seconds=time.perf_counter() - began),
        )
        request = CatchUpRequest(NAME, int(end.timestamp()) * 1000, everything=True)
        rows = CatchUp(request, lambda: runner, lambda line: None).run()
        assert len(rows) == slices
        self.runs += slices

    def _log_sizes(self) -> LogSizes:
        logs = (self.folder / NAME).glob("*/_delta_log")
        return LogSizes(
            self.runs, {log.parent.name: sum(file.stat().st_size for file in log.iterdir()) for log in logs}
        )


def excesses(sizes: LogSizes) -> list[str]:
    """What the logs hold too much of."""
    return [
        f"after {sizes.runs} runs the log of {tables} takes {size:,.0f} bytes a run, more than {most:,}"
        for tables, size, most in (
            ("`attempts`", sizes.of_attempts, MOST_BYTES_OF_ATTEMPTS),
            ("all tables", sizes.of_all, MOST_BYTES_OF_ALL),
        )
        if size > most
    ]


def month_in(work: Path, runs: int) -> list[LogSizes]:
    """Run a month anew below the folder `work`; returns what the logs held at the end of each day."""
    folder = work.absolute() / "warehouse"
    shutil.rmtree(folder, ignore_errors=True)
    month = Month(str(folder), folder)
    month.load(runs)
    days = []
    for sizes in month.go_on(runs):
        print(
            f"{sizes.runs} runs: {sizes.of_attempts:,.0f} bytes a run of attempts, {sizes.of_all:,.0f} in all"
        )
        days.append(sizes)
    (work / "report.json").write_text(json.dumps([asdict(sizes) for sizes in days], indent=2))
    return days


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.quarter_hours", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    problems = [problem for sizes in month_in(options.work, options.runs) for problem in excesses(sizes)]
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
