"""The command line with something built in at one moment of a run: it dies there by SIGKILL, or waits there
for another driver.

`python -m tests.integration.driver PLAN VERB …`, PLAN a JSON object; see `Plan`. The product itself knows no
such moments.
"""

import functools
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.fs as pafs
from deltalake import DeltaTable

from slackwater.cli import command_line
from slackwater.engine.transport import placement
from slackwater.engine.transport.in_process import InProcess, Transport
from slackwater.runs import opened_pipeline
from slackwater.runs.publishing.delivery import Delivery
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging import lease, run
from slackwater.runs.staging.run import Runner
from slackwater.sinks.targets.change_feed import ChangeFeedTarget
from slackwater.sinks.targets.redis import RedisTarget
from slackwater.sinks.targets.sql import SqlTarget
from slackwater.tables.delta import written_files
from slackwater.tables.delta.commits import PendingCommit
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger import attempts
from slackwater.tables.ledger.attempts import AttemptsWriter
from slackwater.tables.ledger.writer import LedgerWriter

# How long a driver waits for another. A test may keep one waiting while Airflow starts anew.
PATIENCE_S = 300
# Stands among the errors of a driver whose tasks are on Spark.
STARTED_SPARK = "the driver has started Spark"
# Moment -> the function around which it lies, whether it comes after it, and for which table.
MOMENTS: dict[str, tuple[type, str, bool, str | None]] = {
    "after the look at the lineage": (Runner, "lineage", True, None),
    "before the claim": (AttemptsWriter, "claim", False, None),
    "before the panes are staged": (Folder, "commit_files", False, "panes"),
    "before the ledger commit": (LedgerWriter, "commit", False, None),
    "after the ledger commit": (LedgerWriter, "commit", True, None),
    "between the roll-forward commits": (RollForward, "take_step", False, "published"),
    "after the roll-forward": (RollForward, "take_step", True, "published"),
    "before a batch reaches SQL": (SqlTarget, "deliver", False, None),
    "after a batch has reached SQL": (SqlTarget, "deliver", True, None),
    "before a batch reaches Redis": (RedisTarget, "deliver", False, None),
    "after a batch has reached Redis": (RedisTarget, "deliver", True, None),
    "before a batch is appended": (ChangeFeedTarget, "deliver", False, None),
    "after a batch was appended": (ChangeFeedTarget, "deliver", True, None),
}

# What writes to a warehouse: files, commits, checkpoints, and deletions by Delta, each of them as one step.
WRITES: tuple[tuple[Any, str], ...] = (
    (PendingCommit, "write"),
    (written_files, "write_sealed"),
    (DeltaTable, "create_checkpoint"),
    (DeltaTable, "vacuum"),
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is different about this driver.

    Attributes:
        at: the moment at which something happens; None for never.
        nth: the how-manieth time that the moment comes.
        meet: a folder in which drivers wait there for each other; None: it dies there.
        drivers: how many meet.
        spark: whether all tasks run on Spark, also those of slices that threads would replay; else in this
            process.
        lease: whether the lease is claimed.
        batch_rows: so many corrections are delivered to a sink at once.
        large_rows: a ledger row with so many corrections is delivered in lanes, one after the other here.
        variables: of its environment, besides those that it inherits.
        dies_at_write: it dies at its n-th write to disk, see `WRITES`: before it, or, if negative, after it;
            None for never.
        lists_writes: a file that gets a line for each of its writes: what it writes, and how.
        planted: a breakage of the product that is built in, by its name in `tests.campaigns.breakages`.
        lease_s: how long a lease lasts, in seconds; None for as long as ever.
        limits: soft limits of the process by their names in the module `resource`; that of open files counts
            from those that are open, that of memory in bytes beyond what the process has taken so far.
        cgroup: the folder of the control group in which the process does its work; None for that of its
            parent.
    """

    at: str | None = None
    nth: int = 1
    meet: str | None = None
    drivers: int = 2
    spark: bool = False
    lease: bool = True
    batch_rows: int = 10_000
    large_rows: int = 1_000_000
    variables: dict[str, str] = field(default_factory=dict)
    dies_at_write: int | None = None
    lists_writes: str | None = None
    planted: str | None = None
    lease_s: float | None = None
    limits: dict[str, int] = field(default_factory=dict)
    cgroup: str | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    plan = Plan(**json.loads(sys.argv.pop(1)))
    os.environ.update(plan.variables)
    if plan.spark:
        placement.SMALL_BYTES = -1  # type: ignore[misc]
        opened_pipeline.spark_transport = _that_says_so(opened_pipeline.spark_transport)
    else:
        opened_pipeline.spark_transport = lambda app: InProcess
    if not plan.lease:
        opened_pipeline.Runner = functools.partial(Runner, lease=False)
    opened_pipeline.Delivery = functools.partial(
        Delivery, batch_rows=plan.batch_rows, large_rows=plan.large_rows
    )
    if not plan.spark:
        opened_pipeline.spark_tasks = lambda pipeline: one_by_one
    if plan.dies_at_write is not None or plan.lists_writes is not None:
        _count_writes(plan)
    if plan.planted is not None:
        from tests.campaigns.breakages import BREAKAGES

        BREAKAGES[plan.planted]()
    if plan.lease_s is not None:
        _shorten_lease(timedelta(seconds=plan.lease_s))
    if plan.at is not None:
        _build_in(plan, *MOMENTS[plan.at])
    for name, value in plan.limits.items():
        _limit(name, value)
    if plan.cgroup is not None:
        Path(plan.cgroup, "cgroup.procs").write_text(str(os.getpid()))
    command_line.application()


def _that_says_so(spark_transport: Callable[[str], Callable[[], Transport]]) -> Any:
    def transport(app: str) -> Callable[[], Transport]:
        def make() -> Transport:
            made = spark_transport(app)()
            print(STARTED_SPARK, file=sys.stderr, flush=True)
            return made

        return make

    return transport


def _shorten_lease(duration: timedelta) -> None:
    attempts.LEASE = lease.LEASE = duration  # type: ignore[misc,attr-defined]
    renewing_lease = functools.partial(lease.renewing_lease, every=duration / 3)
    run.renewing_lease = lease.renewing_lease = renewing_lease  # type: ignore[attr-defined,assignment]


def _limit(name: str, value: int) -> None:
    if name == "RLIMIT_NOFILE":
        value += len(os.listdir("/proc/self/fd"))
    if name == "RLIMIT_AS":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        value += pages * resource.getpagesize()
    kind = getattr(resource, name)
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def one_by_one(task: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Stands in for tasks of Spark, in this process."""
    for number in numbers:
        task(number)


def _build_in(plan: Plan, owner: type, name: str, after: bool, table: str | None) -> None:
    original: Callable[..., Any] = getattr(owner, name)
    came = 0

    def moment(arguments: tuple[Any, ...]) -> None:
        nonlocal came
        if table is None or table in (getattr(argument, "name", None) for argument in arguments):
            came += 1
            if came == plan.nth:
                _die() if plan.meet is None else _meet(Path(plan.meet), plan.drivers)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if not after:
            moment(arguments)
        result = original(*arguments, **named)
        if after:
            moment(arguments)
        return result

    setattr(owner, name, wrapped)


def _count_writes(plan: Plan) -> None:
    lock, count = threading.Lock(), 0

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def write(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            with lock:
                count += 1
                number = count
                if plan.lists_writes is not None:
                    with Path(plan.lists_writes).open("a") as file:
                        file.write(f"{_step(original, arguments)}\n")
            if plan.dies_at_write == number:
                _die()
            result = original(*arguments, **named)
            if plan.dies_at_write == -number:
                _die()
            return result

        return write

    for owner, name in WRITES:
        setattr(owner, name, wrap(getattr(owner, name)))


def _step(write: Callable[..., Any], arguments: Sequence[Any]) -> str:
    """The function of `WRITES` and the table that it writes, as ``write panes``."""
    written = arguments[0]
    if isinstance(written, DeltaTable):
        uri = written.table_uri
    else:  # `write_sealed` takes the file system of the table's folder
        uri = written.base_path if isinstance(written, pafs.SubTreeFileSystem) else written.uri
    return f"{write.__name__} {PurePosixPath(uri).name}"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _meet(folder: Path, drivers: int) -> None:
    (folder / str(os.getpid())).touch()
    for _ in range(PATIENCE_S * 100):
        if len(list(folder.iterdir())) >= drivers:
            return
        time.sleep(0.01)
    raise TimeoutError(f"nobody else came to {folder}")


if __name__ == "__main__":
    main()
