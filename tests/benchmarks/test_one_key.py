"""One key with a long list takes about as much memory as one with a shorter list, apart from the columns of
its rows; the window function sees every element once.
"""

import pytest

from tests.benchmarks.one_key import SLICES, WrongResult, measure_apart

ELEMENTS = 400_000
BYTES_OF_ROW = 68  # seven columns of eight bytes, a key group, and masks


@pytest.mark.slow
def test_the_list_of_one_key_does_not_stay_in_memory() -> None:
    """As objects the elements would take 60 MB for each 100,000: those of the greater list 240 MB."""
    small, great = (measure_apart(elements, 64) for elements in (ELEMENTS // 4, ELEMENTS))
    columns_mb = ELEMENTS * 3 / 4 * BYTES_OF_ROW / 2**20
    for name in SLICES:
        assert great["peak_mb"][name] - small["peak_mb"][name] < 2 * columns_mb + 90, (small, great)


def test_a_function_that_misses_an_element_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.one_key.subprocess.run", lambda *a, **k: Finished())
    with pytest.raises(WrongResult, match="not \\[100, "):
        measure_apart(100, 64)


class Finished:
    """A process that has measured something else."""

    stdout = '{"rows": [[99, 1]]}'
