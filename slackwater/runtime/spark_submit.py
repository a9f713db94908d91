"""`python -m slackwater.runtime.spark_submit ARGUMENTS`: runs this environment's spark-submit with the jars,
Java and settings that our applications need, then the caller's own arguments. So whatever starts a job
(Airflow, a shell) needs to know only one path.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from slackwater.errors import SlackwaterError
from slackwater.runtime.jars import jar_locations, spark_home
from slackwater.runtime.java import java_home
from slackwater.runtime.memory import cluster_settings
from slackwater.runtime.packaging import SubmitSettings, submit_settings
from slackwater.runtime.settings import CLUSTER_DRIVER_OPTIONS, LOCAL_SETTINGS, choose_log_file, is_local


def command(arguments: Sequence[str], settings: SubmitSettings) -> list[str]:
    """The command line of spark-submit. The caller's arguments come last, because the last value of a setting
    counts. A driver in a cluster gets no file of this machine that spark-submit does not upload. Raises
    StateMemoryError.
    """
    own_conf = LOCAL_SETTINGS if _is_local(arguments) else cluster_settings(_cores(arguments))
    conf = {**settings.conf, **own_conf}
    if _is_in_cluster(arguments):
        conf["spark.driver.extraJavaOptions"] = CLUSTER_DRIVER_OPTIONS
    conf_arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    # A properties file of the caller replaces Spark's own unless that is asked for.
    defaults = ["--load-spark-defaults"] if "--properties-file" in arguments else []
    return [settings.spark_binary, "--jars", settings.jars, *conf_arguments, *defaults, *arguments]


def environment(
    arguments: Sequence[str], settings: SubmitSettings, caller_variables: Mapping[str, str]
) -> dict[str, str]:
    """The variables for spark-submit: the caller's, with this environment's Spark, Python and Java. On a
    cluster the caller's PYSPARK_PYTHON stays, because it is a path on the cluster's nodes; to a driver there
    spark-submit would hand on this environment's Python, which nodes need not have.
    """
    ours = {**settings.env_vars, "SPARK_HOME": str(spark_home())}
    if _is_in_cluster(arguments):
        return {**caller_variables, **{name: ours[name] for name in ours if not name.startswith("PYSPARK_")}}
    if _is_local(arguments):
        return {"SPARK_LOCAL_IP": "127.0.0.1", **caller_variables, **ours}
    python_of_nodes = {
        name: caller_variables[name] for name in ("PYSPARK_PYTHON",) if name in caller_variables
    }
    return {**caller_variables, **ours, **python_of_nodes}


def _is_local(arguments: Sequence[str]) -> bool:
    return is_local(_setting(arguments, "--master", "spark.master"))


def _is_in_cluster(arguments: Sequence[str]) -> bool:
    """Whether the driver will run on a node of the cluster."""
    return _setting(arguments, "--deploy-mode", "spark.submit.deployMode") == "cluster"


def _cores(arguments: Sequence[str]) -> int:
    """How many cores an executor has: one, as on YARN and Kubernetes, where the caller does not say it."""
    cores = _setting(arguments, "--executor-cores", "spark.executor.cores") or ""
    return int(cores) if cores.isdigit() else 1


def _setting(arguments: Sequence[str], option: str, key: str) -> str | None:
    """What the caller says by an option, else by a property, else in a properties file."""
    pairs = list(pairwise(arguments))
    option_values = [value for name, value in pairs if name == option]
    properties = [value.partition("=") for name, value in pairs if name == "--conf"]
    files = [Path(value) for name, value in pairs if name == "--properties-file"]
    lines = [
        line.split(maxsplit=1) for file in files if file.is_file() for line in file.read_text().splitlines()
    ]
    file_values = [line[1].strip() for line in lines if len(line) > 1 and line[0] == key]
    values = (
        option_values[-1:] or [value for name, _, value in properties if name == key][-1:] or file_values[-1:]
    )
    return values[0] if values else None


def main() -> None:
    """Become spark-submit, in the same process, so that killing it kills the JVM. Exits 1 or 3 when Java or
    the jars are missing, 2 when a variable makes no sense.
    """
    arguments = sys.argv[1:]
    try:
        jar_locations()
        java_home()
        if not _is_in_cluster(arguments):
            choose_log_file()
        settings = submit_settings()
        submission = command(arguments, settings)
    except SlackwaterError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    os.execve(settings.spark_binary, submission, environment(arguments, settings, os.environ))


if __name__ == "__main__":
    main()
