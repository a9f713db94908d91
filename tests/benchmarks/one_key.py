"""`python -m tests.benchmarks.one_key --elements N --limit-mb M`: one key keeps N elements in the list of one
window, in the operator engine; the list is parked at the end of a slice, restored by the next, and read by a
window function.

The work has a process of its own, so that the peak of resident memory is its own; another one writes the
source before. What the function gives is computed a second time, from the numbers alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.spilling import HOUR, Work, write_source
from tests.benchmarks.state_backends import ROOT, peak_mb

SLICES = {"open and park": (0, HOUR), "restore and fire": (HOUR, 3 * HOUR)}


class WrongResult(Exception):
    """The window function has not seen every element once."""


def measure(folder: Path, limit_mb: int) -> dict[str, Any]:
    """Seconds of each slice, the greatest resident memory after each, and the rows of the window function."""
    work = Work(folder, ("x", "row"))
    before_mb = peak_mb()
    seconds, peaks, rows = {}, {}, []
    for name, slice_ in SLICES.items():
        started = time.monotonic()
        outcome = work.run(*slice_, limit_mb)
        seconds[name], peaks[name] = time.monotonic() - started, peak_mb()
        rows += [
            (row["n"], row["total"]) for table in outcome.rows.get("panes", []) for row in table.to_pylist()
        ]
    return {"before_mb": before_mb, "seconds": seconds, "peak_mb": peaks, "rows": rows}


def measure_apart(elements: int, limit_mb: int) -> dict[str, Any]:
    """`measure`, in a process of its own.

    Raises:
        WrongResult: the window function has not seen every element once.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __spec__.name, "--elements", str(elements), "--folder", folder]
        subprocess.run([*command, "--write"], cwd=ROOT, check=True)
        output = subprocess.run(
            [*command, "--limit-mb", str(limit_mb)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    result: dict[str, Any] = json.loads(output)
    expected_row = [elements, sum(range(97)) * (elements // 97) + sum(range(elements % 97))]
    if expected_row not in result["rows"]:
        raise WrongResult(f"the function gave {result['rows']}, not {expected_row}")
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.one_key", description=__doc__)
    parser.add_argument("--elements", type=int, default=5_000_000, help="default: %(default)s")
    parser.add_argument("--limit-mb", type=int, default=1024, help="SLACKWATER_STATE_MEMORY_MB (%(default)s)")
    parser.add_argument("--folder", type=Path, help="measure in this process what is there, and print JSON")
    parser.add_argument("--write", action="store_true", help="write the source into the folder, and end")
    chosen = parser.parse_args(arguments)
    if chosen.write:
        write_source(chosen.folder, 1, chosen.elements)
        return 0
    if chosen.folder:
        print(json.dumps(measure(chosen.folder, chosen.limit_mb)))
        return 0
    result = measure_apart(chosen.elements, chosen.limit_mb)
    print(f"one key, {chosen.elements:,} elements, state memory {chosen.limit_mb:,} MB")
    print(f"  before: {result['before_mb']:,.0f} MiB of resident memory")
    for name, seconds in result["seconds"].items():
        print(
            f"  {name}: {seconds:.1f} s, {chosen.elements / seconds:,.0f} elements a second, "
            f"peak {result['peak_mb'][name]:,.0f} MiB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
