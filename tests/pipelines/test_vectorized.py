"""A vectorized function is declared like any other, and a change of it is a change of the declarations."""

import pytest

from slackwater import vectorized
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash
from tests.pipelines.test_config_hash import declared


def medians(firings):
    return firings


def means(firings):
    return firings


@vectorized
def decorated(firings):
    return firings


OF_WINDOWS = {"select": {}, "output": "middle double"}


def test_function_and_frame_are_part_of_the_config_hash():
    functions = [vectorized(medians), vectorized(means), vectorized(medians, frame="pandas"), decorated]
    hashes = [config_hash(declared(process=function, **OF_WINDOWS)) for function in functions]
    assert len(set(hashes)) == 4
    assert config_hash(declared(process=vectorized(medians), **OF_WINDOWS)) == hashes[0]


def test_windows_of_all_rows_may_have_one():
    assert declared(process=decorated, key_by=None, **OF_WINDOWS).process is decorated


def test_a_decorated_function_can_be_called():
    assert decorated(7) == 7


def test_a_frame_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="it is one of arrow, pandas, polars"):
        vectorized(medians, frame="dask")


@pytest.mark.parametrize("changes", [{"reduce": max}, {"side_outputs": {"odd": "x int"}}], ids=str)
def test_it_gets_elements_and_returns_results_alone(changes):
    with pytest.raises(PipelineError, match="gets the elements of windows and returns results"):
        declared(process=vectorized(medians), **OF_WINDOWS, **changes)
