"""A bin folder in the place of Slackwater's, from which a DAG starts its commands and its PySpark
applications. Of the next replay of a pipeline something may be planned: that one is the test's driver, and
has no JVM.
"""

import sys
from pathlib import Path

_SLACKWATER = """#!/bin/sh
exec {python} -m slackwater "$@"
"""
# `python -m slackwater.runtime.spark_submit … replay.py PIPELINE …`
_PYTHON = """#!/bin/bash
arguments=("$@")
while [ $# -gt 0 ] && [[ "$1" != */jobs/replay.py ]]; do shift; done
plan={plans}/$2.json
if [ $# -gt 0 ] && mv $plan $plan.taken 2>/dev/null; then
    shift
    exec {python} -m tests.integration.driver "$(cat $plan.taken)" run "$@"
fi
exec {python} "${{arguments[@]}}"
"""


def bin_of_planned_replays(folder: Path, plans: Path) -> Path:
    """Make the folder `bin` in `folder`. A plan is the file PIPELINE.json in `plans`, of the next replay of
    that pipeline, which takes it away.
    """
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, script in (("slackwater", _SLACKWATER), ("python", _PYTHON)):
        file = bin_folder / name
        file.write_text(script.format(plans=plans, python=sys.executable))
        file.chmod(0o755)
    return bin_folder
