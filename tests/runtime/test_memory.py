"""What a task may take is a setting of the machine, and an executor of Spark gets it for each of its
cores."""

import pytest

from slackwater.runtime.memory import (
    DEFAULT_MB,
    VARIABLE,
    StateMemoryError,
    cluster_settings,
    overhead_mb,
    state_memory_mb,
)


def test_what_a_task_may_take_is_a_setting_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_memory_mb() == DEFAULT_MB
    monkeypatch.setenv(VARIABLE, "64")
    assert state_memory_mb() == 64
    for wrong in ("", "1g", "-1", "1.5"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(StateMemoryError, match="megabytes"):
            state_memory_mb()


def test_an_executor_needs_the_memory_of_a_task_for_each_core_beside_its_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [overhead_mb(1000, cores) for cores in (1, 4)] == [384 + 1000, 384 + 4000]
    monkeypatch.setenv(VARIABLE, "512")
    # A Python process takes 230 MB without rows.
    assert cluster_settings(2) == {"spark.executor.minMemoryOverhead": f"{384 + 2 * (230 + 512)}m"}
