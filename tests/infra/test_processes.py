"""The processes that scripts in `infra` start: which of them live, as `ps` says. Its answers are scripted."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Answers with the first line that is left, and takes it away unless it is the last; ends with 1 without one.
PS = """#!/bin/sh
sed -n 1p "$ANSWERS" | grep . || exit 1
[ "$(wc -l <"$ANSWERS")" = 1 ] || sed -i 1d "$ANSWERS"
"""


@pytest.mark.parametrize(
    ("answers", "lives"),
    [
        (["airflow api_server -- host:127.0.0.1 port:8080"], True),
        (
            ["[python]", "[python]", "/venv/bin/python /venv/bin/airflow scheduler"],
            True,
        ),  # between two programs
        (["(python)", "/venv/bin/python /venv/bin/airflow scheduler"], True),  # as other systems write it
        (["[python] <defunct>"], False),
        (["sleep 1000"], False),  # another's: the process id was used again
        ([], False),
    ],
)
def test_a_process_that_is_becoming_another_program_lives(
    tmp_path: Path, answers: list[str], lives: bool
) -> None:
    (tmp_path / "scheduler.pid").write_text("4711\n")
    (tmp_path / "answers").write_text("".join(f"{answer}\n" for answer in answers))
    ps = tmp_path / "ps"
    ps.write_text(PS)
    ps.chmod(0o755)
    process = subprocess.run(
        [
            "bash",
            "-c",
            f". {ROOT}/infra/processes.sh; run={tmp_path} program=airflow; "
            f'PATH="{tmp_path}:$PATH"; lives scheduler',
        ],
        env={"ANSWERS": str(tmp_path / "answers"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode == 0, process.stderr) == (lives, "")
