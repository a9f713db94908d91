"""The collector rests and comes back, whatever happens meanwhile."""

import gc

import pytest

from slackwater.engine.calls.garbage import collector_resting, collector_waiting, objects_set_aside


def test_the_collector_rests_and_comes_back_also_after_an_error() -> None:
    with pytest.raises(ValueError), collector_resting():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_resting():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_set_aside_is_looked_at_again_later() -> None:
    before = gc.get_freeze_count()
    with objects_set_aside():
        assert gc.get_freeze_count() > before
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
        assert gc.collect() >= 1
    assert gc.get_freeze_count() == 0


def test_many_objects_at_a_time_are_not_looked_at_and_cycles_are_after_some_more() -> None:
    looks: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        looks.append(info["generation"])

    thresholds = gc.get_threshold()
    with collector_waiting():
        gc.callbacks.append(look)
        try:
            for _ in range(100):
                elements = [[number] for number in range(4096)]
                del elements
            assert looks == []
            for _ in range(100_000):
                cycle: list[object] = []
                cycle.append(cycle)
            assert looks != []
        finally:
            gc.callbacks.remove(look)
    assert gc.get_threshold() == thresholds
