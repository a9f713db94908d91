"""Spark's settings and the reason for each that is not Spark's own default; the cache, a folder per user for
downloads, archives and measured rates, which can be deleted at any time; and the file for Spark's own log.
Nothing here starts anything.
"""

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from slackwater.errors import UsageError


def cache() -> Path:
    """SLACKWATER_CACHE, else `slackwater` under XDG_CACHE_HOME or `.cache`. It need not exist yet."""
    chosen_folder = os.environ.get("SLACKWATER_CACHE")
    if chosen_folder:
        return Path(chosen_folder).expanduser().absolute()
    parent = os.environ.get("XDG_CACHE_HOME")
    return (Path(parent) if parent else Path.home() / ".cache") / "slackwater"


# The settings of every session.
SETTINGS: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Without the check a column of the wrong width dies far away, with "Cannot call the method getInt".
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # Delta's 50 make the first read of a small table take 5 s
    "spark.databricks.delta.snapshotPartitions": "2",
    # Spark's 10000 make any VACUUM take 26 s
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # The arrays of numpy and Arrow come from one heap that is kept from batch to batch, up to 512 MB: fresh
    # pages for each batch take a quarter of a replay's CPU time, and small pages a fifth of the remainder.
    # Without a limit each thread gets a heap of its own, and what it frees there serves no other: a worker
    # then takes twice the memory. Linux grants huge pages only to processes that ask for them. The
    # thresholds, in bytes, and GLIBC_TUNABLES are read by glibc; elsewhere nothing reads them.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "33554432",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "536870912",
    "spark.executorEnv.GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
}

_ENVIRONMENT_PREFIX = "spark.executorEnv."
SPARK_LOG_FILE = "SLACKWATER_SPARK_LOG_FILE"


def task_environment() -> dict[str, str]:
    """The variables of a process that runs tasks, as SETTINGS gives them to Spark's."""
    return {
        name.removeprefix(_ENVIRONMENT_PREFIX): value
        for name, value in SETTINGS.items()
        if name.startswith(_ENVIRONMENT_PREFIX)
    }


# The further settings of a session on one machine: few tasks, since each Python task costs 26 ms, and no
# listening on the machine's networks. Its pages are at a free port, which the log names.
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.sql.shuffle.partitions": "4",
}


# The options of the JVM of a driver in a cluster: it ends when it is out of memory. Otherwise only the thread
# that met the error might end, and Python would wait for it for ever.
CLUSTER_DRIVER_OPTIONS = "-XX:+ExitOnOutOfMemoryError"


def driver_options() -> str:
    """The options of the JVM of a driver on this machine. It logs errors only, and everything to
    `spark_log_file` if there is one; a driver in a cluster leaves its logs to the cluster.
    """
    names = ["log4j2.properties", *(["log4j2-file.properties"] if spark_log_file() else [])]
    files = ",".join((Path(__file__).parent / name).as_uri() for name in names)
    return f"-Dlog4j2.configurationFile={files} {CLUSTER_DRIVER_OPTIONS}"


def spark_log_file() -> str | None:
    """The file that SLACKWATER_SPARK_LOG_FILE names for Spark's own log."""
    return os.environ.get(SPARK_LOG_FILE) or None


def is_local(master: str | None) -> bool:
    """Whether a Spark master means threads of one process; so does None, but not `local-cluster`."""
    return master is None or (master.startswith("local") and not master.startswith("local-cluster"))


def conf_of_environment() -> dict[str, str]:
    """The Spark properties of SLACKWATER_SPARK_CONF, a JSON object; raises UsageError for anything else."""
    text = os.environ.get("SLACKWATER_SPARK_CONF") or "{}"
    try:
        return {name: str(value) for name, value in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise UsageError(
            f'SLACKWATER_SPARK_CONF is {text!r}; it is a JSON object: {{"spark.executor.memory": "4g"}}.'
        ) from error


def chosen_master() -> str:
    """The Spark master of a session that names none."""
    return os.environ.get("SLACKWATER_MASTER") or "local[*]"


def tasks_here() -> int:
    """How many tasks a session without a master runs at a time; 1 on a cluster and under spark-submit."""
    threads = re.fullmatch(r"local\[(\*|\d+)(?:,.*)?\]", chosen_master())
    if threads is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return 1
    return (os.cpu_count() or 1) if threads[1] == "*" else int(threads[1])


class SparkPlace(Enum):
    """Where Spark's tasks run, as far as this process knows.

    NOT_STARTED: on this machine, once a session is started, which takes many seconds.
    HERE: on this machine, on a session that this process has started.
    ELSEWHERE: on a cluster, or as spark-submit has it: their memory is not that of this machine.
    """

    NOT_STARTED = auto()
    HERE = auto()
    ELSEWHERE = auto()


def spark_place() -> SparkPlace:
    """Where Spark's tasks would run now."""
    if not is_local(chosen_master()) or "PYSPARK_GATEWAY_PORT" in os.environ:
        return SparkPlace.ELSEWHERE
    pyspark = sys.modules.get("pyspark")
    has_session = pyspark is not None and pyspark.SparkContext._active_spark_context is not None
    return SparkPlace.HERE if has_session else SparkPlace.NOT_STARTED


_SECONDS_KEPT = 7 * 86_400


def choose_log_file() -> str | None:
    """Choose the log file of a JVM that is to start, which finds it in the environment; None where the cache
    can't be written. Removes old ones.
    """
    if spark_log_file() is None:
        folder = cache() / "logs"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.glob("spark-*.log*"):
                if time.time() - file.stat().st_mtime > _SECONDS_KEPT:
                    file.unlink(missing_ok=True)
            if os.access(folder, os.W_OK):
                os.environ[SPARK_LOG_FILE] = str(folder / f"spark-{os.getpid()}.log")
    return spark_log_file()
