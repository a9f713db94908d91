"""The benchmark of snapshots runs, and what it measures is right: no figure is asserted here."""

import pytest

from tests.benchmarks import snapshots


def test_what_is_measured_comes_back_and_the_command_prints_every_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshots.main(["--windows", "2000", "--repetitions", "1"])
    printed = capsys.readouterr().out
    assert "2,000 windows and as many timers: 4,000 rows" in printed
    of = snapshots.codec()
    assert all(step in printed for step in snapshots.steps(of, snapshots.columns(of, 10), objects=True))


def test_other_rows_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = snapshots.codec()
    tables = snapshots.columns(of, 100)
    snapshots.check(of, tables)
    monkeypatch.setattr(
        snapshots, "read_tables", lambda files: (tables._replace(timers=tables.timers.slice(1)), 1)
    )
    with pytest.raises(AssertionError, match="other rows"):
        snapshots.check(of, tables)
