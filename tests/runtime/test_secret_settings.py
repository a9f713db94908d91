"""Secrets among Spark's settings reach the session, and no argument of a process shows them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.runtime.session import SUBMIT_ARGS, off_the_command_line
from tests.integration.command import environment

SECRET = "geheim = \\ 'und' \"#!: lang"
SESSION = """
import contextlib, json, sys
import psutil
from slackwater.runtime.session import session

spark = session("secrets", "local[1]", **json.loads(sys.argv[1]))
children = psutil.Process().children(recursive=True)
arguments = []
for child in children:
    with contextlib.suppress(psutil.NoSuchProcess):  # a helper of the JVM that has ended, or is about to
        arguments += child.cmdline()
conf = spark.sparkContext.getConf()
print(json.dumps({"secret": conf.get("spark.hadoop.fs.s3a.secret.key"),
                  "property": conf.get("spark.property"),
                  "arguments": arguments}))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_has_them_and_no_argument_does(tmp_path: Path) -> None:
    settings = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.property": "no secret"}
    done = subprocess.run(
        [sys.executable, "-c", SESSION, json.dumps(settings)],
        env=environment(TMPDIR=str(tmp_path), SLACKWATER_SPARK_CONF="{}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["secret"], answer["property"]) == (SECRET, "no secret")
    assert any("spark.property=no secret" in word for word in answer["arguments"])
    assert not any("geheim" in word for word in answer["arguments"])
    assert not list(tmp_path.glob("slackwater-*.conf"))


def test_their_file_is_for_this_user_alone_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMIT_ARGS, "--driver-memory 4g pyspark-shell")
    settings = {"spark.ssl.keyPassword": "a", "spark.executor.memory": "4g"}
    with off_the_command_line(settings) as open_settings:
        assert open_settings == {"spark.executor.memory": "4g"}
        words = os.environ[SUBMIT_ARGS].split()
        file = Path(words[words.index("--properties-file") + 1])
        assert words[-3:] == ["--driver-memory", "4g", "pyspark-shell"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == "spark.ssl.keyPassword=a\n"
    assert not file.exists() and os.environ[SUBMIT_ARGS] == "--driver-memory 4g pyspark-shell"


def test_without_secrets_nothing_changes() -> None:
    with off_the_command_line({"spark.executor.memory": "4g"}) as settings:
        assert settings == {"spark.executor.memory": "4g"} and SUBMIT_ARGS not in os.environ
