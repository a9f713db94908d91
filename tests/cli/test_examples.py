"""`slackwater examples load` writes each row once, however often the load is repeated."""

from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from tests.integration.command import here
from tests.model import flights as model


def rows(warehouse: Path) -> int:
    return DeltaTable(str(warehouse / "sources" / "departures")).to_pyarrow_dataset().count_rows()


def test_a_range_is_loaded_once(tmp_path: Path, new_output: Callable[[], str]) -> None:
    wanted = len(model.flights("2013-01-01", "2013-01-03"))
    load = ("examples", "load", "departures", "--warehouse", tmp_path)
    assert here(*load, "--from", "2013-01-01", "--to", "2013-01-02") == 0
    first = rows(tmp_path)
    assert f"{first:,} rows written, 0 were there" in new_output()
    assert here(*load, "--from", "2013-01-01", "--to", "2013-01-03") == 0
    assert f"{wanted - first:,} rows written, {first:,} were there" in new_output()
    assert here(*load, "--from", "2013-01-01", "--to", "2013-01-03") == 0
    assert f"0 rows written, {wanted:,} were there" in new_output()
    assert rows(tmp_path) == wanted


def test_a_load_that_cannot_be_done_is_refused_with_its_reason(
    tmp_path: Path, new_output: Callable[[], str]
) -> None:
    span = ("--from", "2013-01-01", "--to", "2013-01-02")
    assert here("examples", "load", "arrivals", *span, "--warehouse", tmp_path) == 2
    assert "no example is called 'arrivals'; there are: departures" in new_output()
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-02",
            "--to",
            "2013-01-01",
            "--warehouse",
            tmp_path,
        )
        == 2
    )
    assert "the range is empty" in new_output()
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2015-01-01",
            "--to",
            "2015-01-02",
            "--warehouse",
            tmp_path,
        )
        == 2
    )
    assert "Choose a range of 2013" in new_output()
    assert here("examples", "load", "departures", "--to", "2013-01-02", "--warehouse", tmp_path) == 2
    assert "Missing option '--from'" in new_output()
    (tmp_path / "file").write_text("")
    assert here("examples", "load", "departures", *span, "--warehouse", tmp_path / "file") == 2
    assert "can't be written" in new_output() or "can't be read" in new_output()
    assert not (tmp_path / "sources").exists()
