"""Makes the one Spark session that every command, job and test uses.

Knows configuration only. pyspark is imported when a session is asked for, so importing this file costs
nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slackwater.jobs.runtime.cache import cache
from slackwater.jobs.runtime.jars import jars, spark_home
from slackwater.jobs.runtime.java import java_home
from slackwater.jobs.runtime.packaging import package_zip
from slackwater.jobs.runtime.settings import (
    LOCAL_SETTINGS,
    SETTINGS,
    chosen_master,
    conf_of_environment,
    driver_options,
    is_local,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Held while pyspark is imported. Its modules import each other, so of two threads that import them at once,
# one would see a module that is half executed. Great Expectations imports pyspark too.
IMPORTING_PYSPARK = threading.Lock()


def session(app: str, master: str | None = None, **conf: str) -> SparkSession:
    """The Spark session with Delta; a second call gives the same one, with `conf` applied where Spark allows
    it.

    `master` is a Spark master URL; without it SLACKWATER_MASTER decides, else `local[*]`. `conf` holds
    Spark's own names (`**{"spark.executor.memory": "4g"}`) and wins over ours. On a cluster our packages are
    shipped to the executors.

    In a plain Python process or under pytest this starts a JVM, whatever the user's shell has set. Under
    spark-submit the JVM runs already: master and jars are those of its command line, and its settings win
    over our defaults. Raises JavaNotFound, SparkNotInstalled, JarMismatch, JarsUnavailable.
    """
    with IMPORTING_PYSPARK:
        from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        submit_conf = _conf_of_spark_submit()
        local = is_local(submit_conf.get("spark.master"))
        settings = {**{name: value for name, value in SETTINGS.items() if name not in submit_conf}, **conf}
    else:
        master = master or chosen_master()
        local = is_local(master)
        builder = builder.master(master)
        settings = {**SETTINGS, **(LOCAL_SETTINGS if local else {}), **conf_of_environment(), **conf}
        if SparkSession.getActiveSession() is None:
            _set_environment_of_jvm(local)
            settings = {**_settings_of_own_jvm(), **settings}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    if not local:
        spark.sparkContext.addPyFile(str(package_zip(cache() / "packages")))
    return spark


def _interrupt(number: int, frame: object) -> NoReturn:
    """Ends the work of this process and the jobs that it waits for; a second interrupt ends the process at
    once.

    Spark's own handler would call the JVM on the connection that is already waiting for an answer, and py4j
    logs the errors of that with tracebacks. So another thread, which has its own connection, cancels the
    jobs.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.disable(logging.ERROR)
    threading.Thread(target=_cancel_jobs, name="cancel", daemon=True).start()
    raise KeyboardInterrupt


def _cancel_jobs() -> None:
    from pyspark import SparkContext

    with suppress(Exception):  # the JVM may have gone
        context = SparkContext._active_spark_context
        if context is not None:
            context.setLogLevel("OFF")  # cancelled jobs and an ending session would log errors
            context.cancelAllJobs()


def _set_environment_of_jvm(local: bool) -> None:
    """Sets the variables that the start of a JVM reads; with the user's own SPARK_HOME another Spark than
    ours would start.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["SPARK_HOME"] = str(spark_home())
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _settings_of_own_jvm() -> dict[str, str]:
    """The settings that only a JVM takes that this process starts."""
    return {
        "spark.jars": ",".join(str(jar) for jar in jars()),
        "spark.driver.extraJavaOptions": driver_options(),
        # Spark makes this folder as soon as a catalog is used, by default in the current directory.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "slackwater-spark-warehouse"),
    }


def _conf_of_spark_submit() -> dict[str, str]:
    """The settings that spark-submit has from its command line and its files."""
    from pyspark import SparkConf, SparkContext

    # joins the running JVM; before that a SparkConf sees nothing of the command line
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
