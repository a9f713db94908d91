"""`python -m slackwater.jobs.spark_submit ARGUMENTS`: the spark-submit of this environment, told what our
jobs need before the caller's own arguments.

So that who starts a job (Airflow, a shell) needs to know one path and nothing of jars, Java or Spark's
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
    """The whole command line. What the caller says comes later, and to spark-submit the later word counts."""
    conf = {**settings.conf, **(LOCAL_SETTINGS if _is_local(arguments) else {})}
    told = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return [settings.spark_binary, "--jars", settings.jars, *told, *arguments]


def environment(
    arguments: Sequence[str], settings: SubmitSettings, inherited: Mapping[str, str]
) -> dict[str, str]:
    """What spark-submit inherits: this environment's Spark, Python and Java. A PYSPARK_PYTHON of the caller
    is a path of the cluster's nodes: it stays, unless there is no cluster.
    """
    ours = {**settings.env_vars, "SPARK_HOME": str(spark_home())}
    if _is_local(arguments):
        return {"SPARK_LOCAL_IP": "127.0.0.1", **inherited, **ours}
    kept = {name: inherited[name] for name in ("PYSPARK_PYTHON",) if name in inherited}
    return {**inherited, **ours, **kept}


def _is_local(arguments: Sequence[str]) -> bool:
    return is_local(next((master for name, master in pairwise(arguments) if name == "--master"), None))


def main() -> None:
    """Becomes spark-submit: the process keeps its id, so whoever kills it kills the JVM. Exits 1 or 3 when
    Java or the jars are missing.
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
