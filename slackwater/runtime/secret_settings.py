"""Secret Spark settings: a JVM that this process starts reads them from a file that only this user can read,
because every user of the machine can read the arguments of a process.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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
