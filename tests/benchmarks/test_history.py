"""The benchmark of a growing lineage runs, and its days are equal: no figure is asserted here."""

from pathlib import Path

from tests.benchmarks import history


def test_each_day_is_one_run_with_the_same_windows_open(tmp_path: Path) -> None:
    lineage = history.Lineage(tmp_path, rows=400)
    costs = [lineage.run() for _ in range(3)]
    assert [cost.run for cost in costs] == [1, 2, 3] and all(cost.cpu > 0 for cost in costs)
    assert costs[0].open_windows > 0 and len({cost.open_windows for cost in costs}) == 1


def test_of_a_chain_each_slice_but_the_first_is_measured(tmp_path: Path) -> None:
    lineage = history.Lineage(tmp_path, rows=400)
    alone = lineage.run()
    costs = lineage.chain(3)
    assert [cost.run for cost in costs] == [3, 4] and all(cost.cpu > 0 for cost in costs)
    assert {cost.open_windows for cost in costs} == {alone.open_windows}


def test_the_figure_compares_late_runs_with_early_ones() -> None:
    cheap, dear = (history.Cost(1, cpu, cpu, {}, 0) for cpu in (1.0, 3.0))
    assert history.ratio([cheap, cheap], [dear, dear]) == 3.0
