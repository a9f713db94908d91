"""Makes the one Spark session that every command, job and test uses; imports pyspark at the first call.

Of secret settings a JVM that this process starts reads a file that only this user can read, because every
user of the machine can read the arguments of a process.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn
from weakref import WeakKeyDictionary, WeakSet

from slackwater.runtime.executors import cluster_errors
from slackwater.runtime.jars import jar_locations, spark_home
from slackwater.runtime.java import java_home
from slackwater.runtime.memory import cluster_settings
from slackwater.runtime.packaging import package_zip
from slackwater.runtime.settings import (
    LOCAL_SETTINGS,
    SETTINGS,
    cache,
    choose_log_file,
    chosen_master,
    conf_of_environment,
    driver_options,
    is_local,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"
# Names of settings whose values Spark itself hides in its pages and logs: spark.redaction.regex.
_CONTROLS: Final = {"\n": "n", "\r": "r", "\t": "t"}
_SECRET: Final = re.compile(r"secret|password|token|access\.?key", re.IGNORECASE)


@contextmanager
def off_the_command_line(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The settings that may be arguments of a JVM that starts inside the block, which reads the others from a
    file that exists until the block ends.
    """
    secrets = {name: value for name, value in settings.items() if _SECRET.search(name)}
    if not secrets:
        yield dict(settings)
        return
    before = os.environ.get(SUBMIT_ARGS)
    descriptor, name = tempfile.mkstemp(prefix="slackwater-", suffix=".conf")  # for this user alone
    file = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as properties:
            properties.writelines(
                f"{_in_properties(key)}={_in_properties(value)}\n" for key, value in secrets.items()
            )
        words = f"--load-spark-defaults --properties-file {shlex.quote(name)}"
        os.environ[SUBMIT_ARGS] = f"{words} {before or 'pyspark-shell'}"
        yield {name: value for name, value in settings.items() if name not in secrets}
    finally:
        file.unlink(missing_ok=True)
        os.environ.pop(SUBMIT_ARGS)
        if before is not None:
            os.environ[SUBMIT_ARGS] = before


def _in_properties(text: str) -> str:
    """A key or a value as a file of Java properties has it."""
    return re.sub(r"[\\\s:=#!]", lambda match: "\\" + _CONTROLS.get(match[0], match[0]), text)


_log = logging.getLogger(__name__)

# The Sparks that `session` has started, and its sessions on those that the user has.
_OWN_CONTEXTS: WeakSet[SparkContext] = WeakSet()
_SESSIONS_BESIDE: WeakKeyDictionary[SparkContext, SparkSession] = WeakKeyDictionary()


def session(app: str, master: str | None = None, **conf: str) -> SparkSession:
    """The Spark session with Delta; a second call gives the same one, with `conf` applied where Spark allows
    it. Where the user has started Spark in this process, it is a session of our own beside the user's, whose
    settings stay as they are.

    `master` is a Spark master URL; without it SLACKWATER_MASTER decides, else `local[*]`. `conf` holds
    Spark's own names (`**{"spark.executor.memory": "4g"}`) and wins over ours. On a cluster our packages are
    shipped to the executors.

    In a plain Python process or under pytest this starts a JVM, whatever the user's shell has set. Under
    spark-submit the JVM runs already: master and jars are those of its command line, and its settings win
    over our defaults. Raises JavaNotFound, SparkNotInstalled, JarMismatch, JarsUnavailable,
    ClusterUnavailable.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context not in _OWN_CONTEXTS:
        return _session_beside(context, conf)
    spark = _own_session(app, master, conf)
    if spark.sparkContext is not context:
        _OWN_CONTEXTS.add(spark.sparkContext)
        _tell_where_it_is(spark)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, _interrupt)
    return spark


def _own_session(app: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """The session on the Spark of this process, which is started if need be."""
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
        chosen_conf = {**conf_of_environment(), **conf}
        cores = int(chosen_conf.get("spark.executor.cores", "1"))
        own_settings = LOCAL_SETTINGS if local else cluster_settings(cores)
        settings = {**SETTINGS, **own_settings, **chosen_conf}
        if SparkSession.getActiveSession() is None:
            _set_environment_of_jvm(local)
            _log.info(
                "a JVM starts for Spark, which takes 5 to 40 s; all that Spark says is in %s",
                choose_log_file() or "no file",
                extra={"notice": True},
            )
            settings = {**_settings_of_own_jvm(), **settings}
    with off_the_command_line(settings) as open_settings:
        for name, value in open_settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate() if local else _session_on_cluster(builder)


def _tell_where_it_is(spark: SparkSession) -> None:
    """Log where Spark runs, and where it can be looked at."""
    context = spark.sparkContext
    pages = context.uiWebUrl or "none, as spark.ui.enabled is false"
    _log.info("Spark runs on %s; its pages: %s", context.master, pages, extra={"notice": True})


def _session_beside(context: SparkContext, conf: Mapping[str, str]) -> SparkSession:
    """A session with our settings on the Spark that the user has started; always the same one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = _SESSIONS_BESIDE.get(context)
    if spark is None:
        spark = _SESSIONS_BESIDE[context] = SparkSession(context).newSession()
    for name, value in {**SETTINGS, **conf}.items():
        if name.startswith(("spark.sql.", "spark.databricks.")):
            with suppress(PySparkException):  # what only the start of Spark can set
                spark.conf.set(name, value)
    return spark


def _session_on_cluster(builder: SparkSession.Builder) -> SparkSession:
    with cluster_errors(chosen_master()):
        spark = builder.getOrCreate()
        spark.sparkContext.addPyFile(str(package_zip(cache() / "packages")))
    return spark


def _interrupt(number: int, frame: object) -> NoReturn:
    """Ends the work of this process and the jobs that it waits for; a second one ends the process at once.

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
    """Sets the variables that a JVM reads at its start; a user's SPARK_HOME would start another Spark."""
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
        "spark.jars": ",".join(jar_locations()),
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
