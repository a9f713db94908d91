"""Each recipe gives the naive way's results, holds a fraction of its memory, and leaves nothing behind."""

import pytest

from tests.windowing.recipes import (
    incremental_aggregate,
    memory,
    projection_before_the_window,
    purge_with_window_state,
)

VIEWS = 4_500


@pytest.mark.slow
# The least ratios are far below what is measured (README), so that only a recipe that has stopped working
# falls short of them.
@pytest.mark.parametrize(
    ("recipe", "least_ratio"),
    [(purge_with_window_state, 3), (incremental_aggregate, 5), (projection_before_the_window, 3)],
    ids=lambda value: getattr(value, "__name__", "").rpartition(".")[2] or None,
)
def test_a_recipe_holds_a_fraction_for_the_same_result(recipe, least_ratio):
    naive, lean = memory.both_ways(recipe, VIEWS)
    assert lean.panes == naive.panes
    assert {pane.key for pane in lean.panes} == {"site-0", "site-1", "site-2"}
    assert naive.peak > least_ratio * lean.peak
    assert (naive.left, lean.left) == ({}, {})


def test_every_recipe_is_measured():
    assert set(memory.RECIPES) == {
        purge_with_window_state,
        incremental_aggregate,
        projection_before_the_window,
    }


@pytest.mark.slow
def test_the_command_prints_one_line_a_recipe(capsys):
    assert memory.main(["--views", "900"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(memory.RECIPES)
