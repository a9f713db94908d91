"""The benchmark of the state back ends runs, and what it compares is the same work: no figure is asserted
here.
"""

from pathlib import Path

import pytest

from tests.benchmarks import state_backends
from tests.benchmarks.state_backends import (
    CONTENDERS,
    STEPS,
    WINDOWS_PER_KEY,
    DisagreementError,
    check_agreement,
    measure,
)


def test_all_contenders_come_to_the_same(tmp_path: Path) -> None:
    count = 3000
    results = {}
    for name in CONTENDERS:
        folder = tmp_path / name
        folder.mkdir()
        results[name] = measure(name, count, 8, folder)
    check_agreement(results)
    total = sum(number // WINDOWS_PER_KEY + 1 for number in range(count))  # a window holds its key and a one
    for result in results.values():
        assert result["summary"][:2] == ((count, total), (count, total))
        assert tuple(result["seconds"]) == STEPS
        assert 10 < result["peak_mb"] < 10_000


def test_a_disagreement_is_an_error() -> None:
    results = {name: {"summary": ((2, 3), (2, 3), 7)} for name in CONTENDERS}
    check_agreement(results)
    with pytest.raises(DisagreementError):
        check_agreement({**results, "RocksDB": {"summary": ((2, 3), (2, 4), 7)}})
    with pytest.raises(DisagreementError, match="orders"):
        check_agreement({**results, "RocksDB": {"summary": ((2, 3), (2, 3), 8)}})


def test_the_command_prints_a_table_and_fails_above_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--windows", "500", "--memory-mb", "8", "--folder", str(tmp_path)]
    assert state_backends.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "500 windows and as many timers" in printed
    assert all(step in printed for step in STEPS)
    assert state_backends.main([*arguments, "--limit-mb", "1"]) == 1
    assert list(tmp_path.iterdir()) == []
