"""The memory that a process had before a task does not count as the task's."""

from pathlib import Path

from slackwater.engine.transport.process_memory import forget_peak, peak_kb

MB = 1 << 10  # in kilobytes


def test_a_peak_from_before_is_forgotten_where_the_kernel_can() -> None:
    forgets = Path("/proc/self/clear_refs").exists()
    before = bytearray(300 << 20)
    with_it = peak_kb()
    del before
    forget_peak()
    without = peak_kb()
    during = bytearray(100 << 20)
    assert (with_it - without > 200 * MB) is forgets
    assert (peak_kb() - without > 50 * MB) is forgets
    assert len(during) == 100 << 20


def test_where_the_kernel_has_no_peak_getrusage_has_one(tmp_path: Path) -> None:
    forget_peak(tmp_path)
    assert peak_kb(tmp_path) > 10 * MB
