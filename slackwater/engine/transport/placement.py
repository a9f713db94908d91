"""The choice of where a slice is replayed: by Spark's tasks, or beside the driver by threads or processes.
What `on` asks for decides, else the size of the slice and what its tasks need.

    on       spark                  here                             auto
    place    spark                  threads, or processes where      threads or processes for a small slice,
                                    tasks need them or it is large   spark for any other

Every place gives the same results. Knows sizes and reasons; no transport and no engine.
"""

from typing import Literal, NamedTuple

from slackwater.errors import UsageError
from slackwater.readable import size_text
from slackwater.runtime.settings import SparkPlace

On = Literal["auto", "here", "spark"]
Place = Literal["spark", "threads", "processes"]

# Ten million rows and more, for which threads take no longer than as many tasks of Spark on this machine,
# which pack and send their results.
SMALL_BYTES = 256 << 20
# A cluster may have more processors than this machine, and the driver little memory.
_SHARE_ELSEWHERE = 0.25


class SparkNeeded(UsageError):
    """`on` forbids Spark for a slice that only Spark's tasks can replay."""


class Placement(NamedTuple):
    place: Place
    reason: str


class SliceNeeds(NamedTuple):
    """What the replay of a slice takes; `in_threads`: its tasks hardly hold the GIL and call no user code."""

    size: float
    ranges: int
    in_threads: bool = True
    why_not_direct: str | None = None


class Workers(NamedTuple):
    """What this machine has for the tasks of a slice; `slots` tasks run at a time."""

    slots: int
    spark: SparkPlace
    has_processes: bool = True


def placement_of(needs: SliceNeeds, workers: Workers, on: On = "auto") -> Placement:
    """Where a slice is replayed. It is small if `slots` threads replay its ranges in at most two rounds, or
    processes, where Spark has not started. Raises SparkNeeded where `on` is `here` and nothing here can.
    """
    if on == "spark":
        return Placement("spark", "asked for by on=spark")
    obstacle = _why_not_here(needs, workers)
    if on == "here":
        if obstacle is not None:
            raise SparkNeeded(
                f"on=here forbids Spark, and nothing else can replay this slice: {obstacle}. Repeat the "
                "command with `--on auto`, which wins over what the pipeline declares."
            )
        is_large = needs.size > SMALL_BYTES and workers.has_processes
        return Placement(
            "threads" if needs.in_threads and not is_large else "processes", "asked for by on=here"
        )
    reason = obstacle or _why_not_small(needs, workers)
    if reason is not None:
        return Placement("spark", reason)
    limit = f"{size_text(needs.size)}, at most {_megabytes(_most_bytes(workers))}"
    if needs.in_threads:
        return Placement("threads", limit)
    return Placement("processes", f"{limit}, and Spark does not run")


def _why_not_here(needs: SliceNeeds, workers: Workers) -> str | None:
    """Why Spark's tasks alone can replay a slice, whatever its size; None where others can."""
    if needs.why_not_direct is not None:
        return f"Spark has to read the source ({needs.why_not_direct})"
    if not needs.in_threads and not workers.has_processes:
        return "its tasks need processes, to which pyspark's pickles bring them, and pyspark is not installed"
    return None


def _why_not_small(needs: SliceNeeds, workers: Workers) -> str | None:
    most_bytes, most_ranges = _most_bytes(workers), 2 * workers.slots
    if needs.size > most_bytes:
        return f"{size_text(needs.size)}, more than {_megabytes(most_bytes)}"
    if needs.ranges > most_ranges:
        return f"{needs.ranges} key-group ranges, more than {most_ranges}"
    if not needs.in_threads and workers.spark is not SparkPlace.NOT_STARTED:
        return "its tasks need processes, and Spark's run"
    return None


def _most_bytes(workers: Workers) -> float:
    return SMALL_BYTES * (_SHARE_ELSEWHERE if workers.spark is SparkPlace.ELSEWHERE else 1)


def _megabytes(size: float) -> str:
    return f"{size / (1 << 20):.0f} MB"
