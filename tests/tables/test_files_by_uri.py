"""Outcomes and pipelines in a store: written as a whole, fetched with what lies beside them, and local files
by path or URI.

The store is delta-rs's, on a folder of this machine.
"""

from pathlib import Path

import pyarrow.fs as pafs
import pytest
from deltalake.fs import DeltaStorageHandler

from slackwater.tables import files_by_uri
from slackwater.tables.files_by_uri import (
    NoPythonFile,
    delete,
    fetch_python_files,
    is_uri,
    local_path,
    write_text,
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands behind s3://lake."""
    folder = tmp_path / "store"
    folder.mkdir()

    def filesystem(uri: str) -> pafs.FileSystem:
        place = folder / uri.removeprefix("s3://lake").strip("/")
        place.mkdir(parents=True, exist_ok=True)
        return pafs.PyFileSystem(DeltaStorageHandler(str(place)))

    monkeypatch.setattr(files_by_uri, "filesystem", filesystem)
    return folder


@pytest.mark.parametrize(
    ("location", "path", "has_scheme"),
    [
        ("/data/m.json", "/data/m.json", False),
        ("m.json", "m.json", False),
        ("file:/data/m.json", "/data/m.json", True),
        ("file:///data/a%20b.json", "/data/a b.json", True),
        ("s3://lake/m.json", None, True),
        ("hdfs://name/m.json", None, True),
    ],
)
def test_a_location_is_a_local_path_or_a_uri(location: str, path: str | None, has_scheme: bool) -> None:
    assert local_path(location) == (None if path is None else Path(path))
    assert is_uri(location) is has_scheme


def test_a_file_is_written_over_an_earlier_one_and_removed_twice(store: Path) -> None:
    for text in ("longer than the second", "zweiter – Versuch"):
        write_text("s3://lake/outcomes/run 1.json", text)
    assert (store / "outcomes" / "run 1.json").read_text() == "zweiter – Versuch"
    delete("s3://lake/outcomes/run 1.json")
    delete("s3://lake/outcomes/run 1.json")
    assert list((store / "outcomes").iterdir()) == []


def test_a_pipelines_file_comes_with_the_python_files_and_suites_below_its_folder(
    store: Path, tmp_path: Path
) -> None:
    folder = store / "sales"
    (folder / "common").mkdir(parents=True)
    texts = {"orders.py": "import common.hours", "common/hours.py": "HOUR = 1", "common/__init__.py": ""}
    texts["suites/orders.json"] = "{}"
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "table" / "_delta_log").mkdir(parents=True)
    (folder / "table" / "_delta_log" / "00000000000000000000.json").write_text("no suite")
    (folder / "big.parquet").write_text("no code")
    copy = fetch_python_files("s3://lake/sales/orders.py", tmp_path / "cache")
    assert copy.name == "orders.py"
    paths = [path for path in copy.parent.rglob("*") if path.is_file()]
    assert {path.relative_to(copy.parent).as_posix(): path.read_text() for path in paths} == texts
    assert fetch_python_files("s3://lake/sales/", tmp_path / "cache") == copy.parent, "the same files once"

    (folder / "orders.py").write_text("import common.days")
    assert fetch_python_files("s3://lake/sales/orders.py", tmp_path / "cache") != copy
    assert copy.read_text() == "import common.hours", "a command that has read it may read it again"


def test_local_files_are_copied_by_their_uri(tmp_path: Path) -> None:
    (tmp_path / "own pipelines").mkdir()
    (tmp_path / "own pipelines" / "p.py").write_text("a = 1")
    copy = fetch_python_files((tmp_path / "own pipelines" / "p.py").as_uri(), tmp_path / "cache")
    assert copy.read_text() == "a = 1"


@pytest.mark.parametrize("uri", ["s3://lake/sales/orders.py", "s3://lake/nothing"])
def test_what_is_not_there_is_refused_by_name(store: Path, tmp_path: Path, uri: str) -> None:
    (store / "sales").mkdir()
    (store / "sales" / "others.py").write_text("")
    with pytest.raises(NoPythonFile, match=f"{uri}: there is no Python file here"):
        fetch_python_files(uri, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
