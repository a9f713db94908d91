"""A failure of storage, of the disk or of user code ends a command with the exit code of its cause and one
message, without a traceback.
"""

import ctypes
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.errors import SlackwaterError, without_credentials
from tests.cli.conftest import Hourly
from tests.integration.command import SCRIPT, environment, here
from tests.integration.stored import StoredTables

NOBODY = 65534
MISSING = "raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"


def is_told(text: str, *parts: str) -> bool:
    """Whether the last line says all of it, and nothing is a traceback."""
    return "Traceback" not in text and all(part in text.splitlines()[-1] for part in parts)


@pytest.mark.parametrize(
    "words", [("run", "--to", "2013-01-02"), ("publish",), ("plan", "--to", "2013-01-02")]
)
@pytest.mark.parametrize("code", ["0", "", "'done'"])
def test_2_when_a_pipelines_file_ends_the_process(
    hourly: Hourly, new_output: Callable[[], str], words: tuple[str, ...], code: str
) -> None:
    hourly.file.write_text(f"import sys\n\nsys.exit({code})\n")
    verb, *others = words
    assert here(verb, "hourly", *others, *hourly.where) == 2
    assert is_told(
        new_output(), str(hourly.file), "SystemExit while loading: sys.exit(", '`if __name__ == "__main__":`'
    )


def test_2_when_a_pipelines_module_ends_the_process(
    warehouse: Path, tmp_path: Path, new_output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending_pipelines.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (
        here(
            "run", "hourly", "--to", "2013-01-02", "--warehouse", warehouse, "--pipelines", "ending_pipelines"
        )
        == 2
    )
    assert is_told(new_output(), "ending_pipelines: SystemExit while loading")


@pytest.mark.parametrize("seq", ["1e30", str(10**30), "0", "-1"])
def test_2_when_a_seq_is_none(replayed: StoredTables, new_output: Callable[[], str], seq: str) -> None:
    where = ("--warehouse", replayed.warehouse)
    for words in (
        ("state", "restore", "departures", "--", seq),
        ("state", "fork", "departures", "fix", f"--run={seq}"),
        ("runs", "departures", "--", seq),
        ("verify", "departures", "--", seq),
        ("state", "windows", "departures", f"--run={seq}"),
        ("late", "list", "departures", f"--run={seq}"),
    ):
        first = words.index("--") if "--" in words else len(words)
        assert here(*words[:first], *where, *words[first:]) == 2, words
        assert is_told(new_output(), "Invalid value for"), words


class TestAFullDisk:
    @pytest.fixture
    def disk(self, warehouse: Path, tmp_path: Path) -> Iterator[Path]:
        """A warehouse with the flights on a disk of its own, of 16 MB."""
        place = tmp_path / "disk"
        place.mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=16m") != 0:
            pytest.skip("only root may mount a file system")
        try:
            shutil.copytree(warehouse, place / "w")
            yield place / "w"
        finally:
            libc.umount2(os.fsencode(place), 2)

    @staticmethod
    def fill(disk: Path) -> None:
        with (disk / "rest").open("wb", buffering=0) as rest, pytest.raises(OSError, match="No space left"):
            while True:
                rest.write(b"0" * 4096)

    @staticmethod
    def make_read_only(disk: Path) -> None:
        assert ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(disk.parent), b"tmpfs", 32 | 1, b"") == 0

    @pytest.mark.usefixtures("without_spark")
    def test_is_3_and_told_and_the_next_run_goes_on(self, disk: Path, new_output: Callable[[], str]) -> None:
        words = ("run", "departures", "--warehouse", disk, "--to")
        assert here(*words, "2013-01-02") == 0
        self.fill(disk)
        new_output()
        assert here(*words, "2013-01-03") == 3
        assert is_told(new_output(), "the disk is full", "Make room on it", "repeat the command")
        (disk / "rest").unlink()
        assert here(*words, "2013-01-03") == 0
        assert [row["seq"] for row in StoredTables(disk, "departures").ledger()] == [1, 2]

    @pytest.mark.usefixtures("without_spark")
    def test_is_3_for_upkeep_and_2_where_the_disk_is_read_only(
        self, disk: Path, new_output: Callable[[], str]
    ) -> None:
        for day in ("2013-01-02", "2013-01-03"):
            assert here("run", "departures", "--to", day, "--warehouse", disk) == 0
        self.fill(disk)
        new_output()
        assert here("maintain", "departures", "--warehouse", disk) == 3
        assert is_told(new_output(), "the disk is full")
        (disk / "rest").unlink()
        self.make_read_only(disk)
        for words in (
            ("maintain", "departures"),
            ("run", "departures", "--to", "2013-01-04"),
            ("state", "restore", "departures", "1"),
        ):
            new_output()
            assert here(*words, "--warehouse", disk) == 2, words
            assert is_told(new_output(), "Read-only file system"), words


def test_3_when_too_many_files_are_open(replayed: StoredTables) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))

    command = [SCRIPT, "runs", "departures", "--warehouse", replayed.warehouse]
    process = subprocess.run(
        command, env=environment(), preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 3, process.stderr
    assert is_told(process.stderr, "too many files are open", "`ulimit -n 4096`")


# Enough for Python and the packages, and too few for tables on top.
FEW_FILES = 14


@pytest.fixture
def as_nobody() -> Iterator[Callable[[], None]]:
    """Gives up root's right to read everything, until the test ends."""
    if os.geteuid() != 0:
        pytest.skip("root alone may become somebody else")
    yield lambda: os.seteuid(NOBODY)
    os.seteuid(0)


def test_2_when_the_warehouse_may_not_be_read(
    warehouse: Path, new_output: Callable[[], str], as_nobody: Callable[[], None]
) -> None:
    (warehouse / "departures/runs/_delta_log").mkdir(parents=True)
    warehouse.chmod(0o700)
    as_nobody()
    for words in (("runs", "departures"), ("run", "departures", "--to", "2013-01-02")):
        new_output()
        assert here(*words, "--warehouse", warehouse) == 2
        text = new_output()
        assert is_told(text, "can't be read", "permissions") and "never run" not in text


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--engine", "operator"), ("--partitions", "100")])
def test_1_when_spark_s_extra_is_not_installed(
    hourly: Hourly, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "pyspark.py").write_text(MISSING.format(name="pyspark"))
    process = run_in_process("hourly", tmp_path, *hourly.where, *options)
    assert process.returncode == 1, process.stderr
    assert is_told(process.stderr, "pyspark is not installed", 'pip install "slackwater[spark]"')


def run_in_process(pipeline: str, hidden: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [SCRIPT, "run", pipeline, "--to", "2013-01-02", *options]
    variables = environment(PYTHONPATH=str(hidden))
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=180, check=False)


class TestCredentials:
    SECRETS = (
        "s3://user:geheim@host/bucket/t",
        "https://a.blob.core.windows.net/c/t?sv=1&sig=geheim",
        "s3://u:a@b:geheim@host/t",
    )

    @pytest.mark.parametrize("uri", SECRETS)
    def test_are_shown_by_no_verb_and_no_error(
        self, hourly: Hourly, new_output: Callable[[], str], uri: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        hourly.declare(settings=f'"source": replace(departures.source, table="{uri}")')
        for words in (("pipelines",), ("pipelines", "--output", "json")):
            assert here(*words, *hourly.where[2:]) == 0
            text = new_output()
            assert "geheim" not in text and "***" in text
        assert "geheim" not in str(SlackwaterError(f"source {uri}: there is no Delta table"))

    def test_are_in_no_error_of_a_warehouse_that_holds_some(self, new_output: Callable[[], str]) -> None:
        assert here("runs", "departures", "--warehouse", "ftp://user:geheim@host/warehouse") != 0
        text = new_output()
        assert "geheim" not in text and "user:***@host" in text and "Traceback" not in text

    @pytest.mark.parametrize(
        "text",
        ["abfss://container@account.dfs.core.windows.net/t", "s3://bucket/a:b@c", "mail a:b@c", "/w/a?x=1"],
    )
    def test_are_not_seen_where_there_are_none(self, text: str) -> None:
        assert without_credentials(text) == text
