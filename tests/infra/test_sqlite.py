"""Airflow on SQLite: two writers wait for each other instead of failing."""

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import OperationalError

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "infra" / "sqlite" / "airflow_local_settings.py"


@pytest.fixture
def settings() -> Iterator[ModuleType]:
    """The settings, in force for every engine that is made during the test."""
    spec = importlib.util.spec_from_file_location("settings_under_test", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    event.remove(Engine, "savepoint", module.lock_before_savepoint)
    event.remove(Engine, "connect", module.wait_for_other_writers)


def database(file: Path) -> Engine:
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))  # as Airflow's is
        connection.execute(text("CREATE TABLE t (x)"))
    return engine


def write_between_read_and_write_of_a_savepoint(engine: Engine) -> None:
    impatient = create_engine(engine.url, poolclass=NullPool)
    with engine.connect() as ours, ours.begin(), ours.begin_nested():
        ours.execute(text("SELECT count(*) FROM t"))
        with impatient.connect() as theirs:
            theirs.execute(text("PRAGMA busy_timeout = 50"))
            try:
                theirs.execute(text("INSERT INTO t VALUES ('theirs')"))
                theirs.commit()
            except OperationalError:
                theirs.rollback()
        ours.execute(text("INSERT INTO t VALUES ('ours')"))


def test_without_the_settings_a_savepoint_that_reads_first_loses_to_any_writer(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="database is locked"):
        write_between_read_and_write_of_a_savepoint(database(tmp_path / "airflow.db"))


def test_a_savepoint_that_reads_first_can_write(tmp_path: Path, settings: ModuleType) -> None:
    engine = database(tmp_path / "airflow.db")
    write_between_read_and_write_of_a_savepoint(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT x FROM t")).scalars().all() == ["ours"], (
            "the other writer had to wait"
        )
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == settings.PATIENCE_MS


def test_a_savepoint_within_a_transaction_starts_no_second_one(tmp_path: Path, settings: ModuleType) -> None:
    engine = database(tmp_path / "airflow.db")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        with connection.begin_nested() as savepoint:
            connection.execute(text("INSERT INTO t VALUES (2)"))
            savepoint.rollback()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT x FROM t")).scalars().all() == [1]


@pytest.mark.slow
def test_airflow_starts_with_the_settings_unless_there_are_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    program = (
        "from airflow import settings; settings.initialize(); import airflow_local_settings as local; "
        "print(local.__file__)"
    )

    def settings_file() -> str:
        process = subprocess.run(
            [ROOT / "infra" / "airflow", "run", "python", "-c", program],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AIRFLOW_HOME": str(home)},
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout.splitlines()[-1]

    assert settings_file() == str(FILE)
    own_file = home / "config" / FILE.name
    own_file.parent.mkdir()
    own_file.write_text("")
    assert settings_file() == str(own_file)
