"""`python -m slackwater.jobs.spark_submit ARGUMENTS`: runs the spark-submit of this environment with the
jars, Java and settings that our jobs need, and then the caller's own arguments.

So whatever starts a job (Airflow, a shell) needs to know one path, and nothing of jars, Java or Spark's
settings.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

from slackwater.jobs.errors import SlackwaterError
from slackwater.jobs.runtime.jars import jars, spark_home
from slackwater.jobs.runtime.java import java_home
from slackwater.jobs.runtime.packaging import SubmitSettings, submit_settings
from slackwater.jobs.runtime.settings import LOCAL_SETTINGS, is_local


def command(arguments: Sequence[str], settings: SubmitSettings) -> list[str]:
    """The command line of spark-submit. The caller's arguments come last, because the last value of a setting
    counts.
    """
    conf = {**settings.conf, **(LOCAL_SETTINGS if _is_local(arguments) else {})}
    conf_arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return [settings.spark_binary, "--jars", settings.jars, *conf_arguments, *arguments]


def environment(
    arguments: Sequence[str], settings: SubmitSettings, caller_variables: Mapping[str, str]
) -> dict[str, str]:
    """The variables for spark-submit: the caller's, with this environment's Spark, Python and Java. On a
    cluster the caller's PYSPARK_PYTHON stays, because it is a path on the cluster's nodes.
    """
    ours = {**settings.env_vars, "SPARK_HOME": str(spark_home())}
    if _is_local(arguments):
        return {"SPARK_LOCAL_IP": "127.0.0.1", **caller_variables, **ours}
    python_of_nodes = {
        name: caller_variables[name] for name in ("PYSPARK_PYTHON",) if name in caller_variables
    }
    return {**caller_variables, **ours, **python_of_nodes}


def _is_local(arguments: Sequence[str]) -> bool:
    return is_local(next((master for name, master in pairwise(arguments) if name == "--master"), None))


def main() -> None:
    """Become spark-submit: the process keeps its id, so that killing it kills the JVM. Exits 1 or 3 when Java
    or the jars are missing.
    """
    arguments = sys.argv[1:]
    try:
        jars()
        java_home()
    except SlackwaterError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    settings = submit_settings()
    os.execve(
        settings.spark_binary, command(arguments, settings), environment(arguments, settings, os.environ)
    )


if __name__ == "__main__":
    main()
