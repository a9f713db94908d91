"""The archive for executors: whole, the same bytes for the same sources, importable on its own."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slackwater.runtime.jars import JAR_DIGESTS
from slackwater.runtime.packaging import archive, package_zip, submit_settings
from slackwater.runtime.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


def test_the_archive_holds_every_file_of_ours_but_the_dags(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(package_zip(tmp_path)).namelist())
    on_disk = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "slackwater").rglob("*")
        if file.is_file() and file.suffix != ".pyc" and "airflow" not in file.relative_to(ROOT).parts
    }
    assert names == on_disk
    assert {"slackwater/windowing/__init__.py", "slackwater/runtime/ivy.xml"} <= names


def test_equal_sources_give_equal_bytes_under_an_equal_name(tmp_path: Path) -> None:
    first, second = package_zip(tmp_path / "a"), package_zip(tmp_path / "b")
    assert first.name == second.name
    assert first.suffix == ".zip"
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_another_source_gives_another_name_and_leaves_the_old_archive(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("a = 1")
    before = archive("slackwater", [("slackwater/a.py", source)], tmp_path)
    source.write_text("a = 2")
    after = archive("slackwater", [("slackwater/a.py", source)], tmp_path)
    assert after != before
    assert before.exists()


def test_nothing_but_the_archive_is_left_behind(tmp_path: Path) -> None:
    zip_file = package_zip(tmp_path)
    assert package_zip(tmp_path) == zip_file
    assert list(tmp_path.iterdir()) == [zip_file]


def test_the_package_imports_from_the_archive_alone(tmp_path: Path) -> None:
    zip_file = package_zip(tmp_path)
    # -S leaves out this environment's own packages, and with them the editable installation
    probe = (
        f"import sys; sys.path.insert(0, {str(zip_file)!r}); import slackwater.errors; "
        "print(slackwater.errors.__file__)"
    )
    imported_file = subprocess.run(
        [sys.executable, "-I", "-S", "-c", probe], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    assert imported_file.strip() == f"{zip_file}/slackwater/errors.py"


def test_the_arguments_of_spark_submit_name_our_jars_python_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path))
    settings = submit_settings()
    assert settings.jars.split(",") == [str(tmp_path / "jars" / name) for name in JAR_DIGESTS]
    assert settings.conf.items() >= SETTINGS.items()
    assert settings.env_vars["PYSPARK_PYTHON"] == sys.executable
    assert os.access(settings.spark_binary, os.X_OK)
    assert not list(tmp_path.iterdir())  # a DAG file computes this at each parse: it must not fetch
