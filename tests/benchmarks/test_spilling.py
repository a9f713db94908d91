"""The benchmark of spilling runs, and what it compares is the same work: no figure is asserted here."""

from pathlib import Path

import pytest

from tests.benchmarks.spilling import CONTENDERS, DisagreementError, check_agreement, measure


def test_both_places_come_to_the_same(tmp_path: Path) -> None:
    results = {}
    for name, limit in CONTENDERS.items():
        folder = tmp_path / name
        folder.mkdir()
        results[name] = measure(limit, 300, folder)
    check_agreement(results)
    opened, fired = (counts for _, _, counts in results["memory"]["hashes"])
    assert (opened["windows_opened"], opened["windows_open"], opened["rows_read"]) == (300, 300, 6000)
    assert (fired["windows_fired"], fired["windows_open"]) == (300, 1)


def test_a_disagreement_is_an_error() -> None:
    with pytest.raises(DisagreementError):
        check_agreement({"memory": {"hashes": ["a"]}, "RocksDB": {"hashes": ["b"]}})
