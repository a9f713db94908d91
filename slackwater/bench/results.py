"""The measurements of a work folder, one line of JSON a run, and their medians. The file outlives the
process, so that a benchmark goes on where it was stopped.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from slackwater.bench.contenders import floor
from slackwater.bench.nexmark import published_flink

FILE = "results.jsonl"
PROJECT, LAST_EIGHTH, ANCHOR, DUCKDB = "slackwater", "slackwater_last_eighth", "spark_native", "duckdb"


@dataclass(frozen=True)
class Key:
    """What a run measured: a workload with a number of rows, a contender, and, for the project itself, its
    code and engine.
    """

    workload: str
    rows_asked: int
    contender: str
    code: str


class Results:
    def __init__(self, work: Path) -> None:
        self._path = work / FILE
        self._lines: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                self._add_line(json.loads(line))

    def runs(self, key: Key) -> list[dict[str, Any]]:
        return self._lines[key]

    def add(self, key: Key, run: dict[str, Any]) -> None:
        """Keep one more run, on disk at once."""
        line = {**vars(key), **run}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._add_line(line)

    def _add_line(self, line: dict[str, Any]) -> None:
        self._lines[Key(line["workload"], line["rows_asked"], line["contender"], line["code"])].append(line)

    def summary(self, keys: Iterable[Key]) -> list[dict[str, Any]]:
        """One row a key that has runs: medians, and how they compare with Spark's own on the same rows and
        with Flink's rows per second.

        `wall_ratio` is wall time by that of spark_native (less is better), `duckdb_ratio` and `floor_ratio`
        by those of duckdb and of the floor; `committed_ratio` is the time until the ledger is committed by
        the wall time of spark_native, `part_ratio` that time of the last eighth by that of everything;
        `per_cpu_ratio` is rows per CPU second by those of flink (more is better), `committed_per_cpu_ratio`
        the same of the CPU time until the ledger is committed; None where there is none to compare with.
        """
        rows = [self._medians(key) for key in keys if self._lines[key]]
        for row in rows:
            rows_of_case = [other for other in rows if other["workload"] == row["workload"]]
            row_by_contender = {
                other["contender"]: other for other in rows_of_case if other["rows"] == row["rows"]
            }
            anchor, flink = row_by_contender.get(ANCHOR, {}), row_by_contender.get("flink", {})
            full_recompute = (
                next((other for other in rows_of_case if other["contender"] == PROJECT), {})
                if row["contender"] == LAST_EIGHTH
                else {}
            )
            row["wall_ratio"] = _ratio(row["wall_s"], anchor.get("wall_s"))
            for name in (DUCKDB, floor.NAME):
                row[f"{name}_ratio"] = _ratio(row["wall_s"], row_by_contender.get(name, {}).get("wall_s"))
            row["committed_ratio"] = _ratio(row["committed_s"], anchor.get("wall_s"))
            row["part_ratio"] = _ratio(row["committed_s"], full_recompute.get("committed_s"))
            row["per_cpu_ratio"] = _ratio(flink.get("cpu_s"), row["cpu_s"])
            row["committed_per_cpu_ratio"] = _ratio(flink.get("cpu_s"), row["committed_cpu_s"])
        return rows

    def _medians(self, key: Key) -> dict[str, Any]:
        runs = self._lines[key]
        medians = {name: median(run[name] for run in runs) for name in ("wall_s", "cpu_s", "peak_mb")}
        rows, flink_figure = runs[-1]["rows"], published_flink(key.workload)
        optional_facts = ("committed_s", "committed_cpu_s", "task_mb")
        committed_s, committed_cpu_s, task_mb = (
            _median_of_known([run.get(name) for run in runs]) for name in optional_facts
        )
        checks = sorted({run["check"] for run in runs if run.get("check")})
        return {
            "workload": key.workload,
            "contender": key.contender,
            "rows": rows,
            **medians,
            "committed_s": committed_s,
            "committed_cpu_s": committed_cpu_s,
            "rows_per_s": round(rows / medians["wall_s"]) if medians["wall_s"] else None,
            "rows_per_cpu_s": round(rows / medians["cpu_s"]) if medians["cpu_s"] else None,
            "published_flink": None if flink_figure is None else round(flink_figure * 1000),
            "engine": runs[-1].get("engine"),
            "phases": runs[-1].get("phases"),
            "state_share": _share([run.get("state_s") for run in runs], medians["cpu_s"]),
            "validation_share": _share(
                [(run.get("phases") or {}).get("validate") for run in runs], medians["wall_s"]
            ),
            "task_mb": task_mb,
            "runs": len(runs),
            "check": "; ".join(checks) or None,
        }


def _median_of_known(values: list[float | None]) -> float | None:
    """The median of the values that are neither None nor 0; None where there is none."""
    known_values = [value for value in values if value]
    return median(known_values) if known_values else None


def _ratio(part: float | None, total: float | None) -> float | None:
    return round(part / total, 2) if part and total else None


def _share(parts: list[float | None], total: float) -> float | None:
    part = _median_of_known(parts)
    return round(part / total, 3) if part and total else None
