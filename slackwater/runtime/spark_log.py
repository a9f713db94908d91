"""The file for Spark's output: SLACKWATER_SPARK_LOG_FILE, or this process's own in the cache, for a week."""

import os
import time
from contextlib import suppress

from slackwater.runtime.cache import cache
from slackwater.runtime.settings import SPARK_LOG_FILE, spark_log_file

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
