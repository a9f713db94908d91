"""The live clock: in which thread it calls back, what it does with errors and busy operators, when its
threads end; and that no other file of windowing reads a wall clock.

Only the tests of threads use the wall clock, for some milliseconds each.
"""

import ast
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slackwater import windowing
from slackwater.windowing.system_processing_time_service import Mail, SystemProcessingTimeService, WallClock
from tests.contracts.clocks import ManualTimeSource, SystemClock

LONG_MAX = 2**63 - 1
SOON_S = 5.0  # a test waits no longer for what takes milliseconds


def refuse(error: Exception) -> None:
    raise AssertionError("no callback was to fail here") from error


def threads_since(before: set[threading.Thread]) -> int:
    return len(set(threading.enumerate()) - before)


def test_a_real_timer_runs_in_the_thread_that_runs_the_mailbox_after_its_time_has_passed() -> None:
    before = set(threading.enumerate())
    mailbox, calls = queue.SimpleQueue[Mail](), list[tuple[int, int, int]]()
    with SystemProcessingTimeService(mailbox.put, refuse) as service:
        assert threads_since(before) == 0, "without timers there is no thread"
        target = service.current_processing_time + 20

        def callback(timestamp: int) -> None:
            calls.append((timestamp, service.current_processing_time, threading.get_ident()))

        service.register_timer(target, callback)
        service.schedule_at_fixed_rate(callback, 40, 10)
        assert threads_since(before) == 1, "one thread, whatever the number of timers"
        for _ in range(3):
            mailbox.get(timeout=SOON_S)()
    assert threads_since(before) == 0
    assert calls[0][0] == target
    assert calls[2][0] - calls[1][0] == 10
    assert calls[0][1] > target and all(reading >= timestamp for timestamp, reading, _ in calls)
    assert {thread for _, _, thread in calls} == {threading.get_ident()}


def test_the_wall_clock_reads_milliseconds_since_1970() -> None:
    before = time.time()
    now = WallClock().now_ms()
    assert int(before * 1000) - 1 <= now <= int(time.time() * 1000) + 1


def test_the_wall_clock_wakes_once_for_a_request_and_at_the_last_one_alone() -> None:
    clock, wakes = WallClock(), queue.SimpleQueue[str]()
    try:
        clock.wake_at(clock.now_ms() + 3_600_000, lambda: wakes.put("replaced"))
        clock.wake_at(clock.now_ms() + 5, lambda: wakes.put("due"))
        assert wakes.get(timeout=SOON_S) == "due"
        with pytest.raises(queue.Empty):
            wakes.get(timeout=0.02)
    finally:
        clock.close()


def test_a_timer_too_far_for_any_wait_does_not_stop_the_clock() -> None:
    was_called = threading.Event()
    with SystemProcessingTimeService(lambda mail: mail(), refuse) as service:
        service.register_timer(LONG_MAX, lambda _: None)
        assert not was_called.wait(0.01)
        service.register_timer(service.current_processing_time, lambda _: was_called.set())
        assert was_called.wait(SOON_S)
        assert service.pending() == 1


def test_a_callback_in_the_clocks_own_thread_may_shut_it_down() -> None:
    before, is_released = set(threading.enumerate()), threading.Event()
    service = SystemProcessingTimeService(lambda mail: mail(), refuse)

    def callback(timestamp: int) -> None:
        service.shutdown()
        is_released.set()

    service.schedule_at_fixed_rate(callback, 0, 1)
    assert is_released.wait(SOON_S)
    service.shutdown()
    assert threads_since(before) == 0


def test_the_clocks_thread_ends_with_the_clock_even_while_it_waits_for_timers() -> None:
    before = set(threading.enumerate())
    service = SystemProcessingTimeService(queue.SimpleQueue[Mail]().put, refuse)
    service.schedule_with_fixed_delay(lambda _: None, 3_600_000, 1)
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    service.shutdown()
    assert not thread.is_alive()


@pytest.mark.parametrize("end", [SystemProcessingTimeService.quiesce, SystemProcessingTimeService.shutdown])
def test_ending_waits_for_a_callback_that_another_thread_is_running(
    end: Callable[[SystemProcessingTimeService], None],
) -> None:
    source = ManualTimeSource(0)
    began, may_end, news = threading.Event(), threading.Event(), list[str]()

    def callback(timestamp: int) -> None:
        began.set()
        assert may_end.wait(SOON_S)
        news.append("callback ended")

    with ThreadPoolExecutor(1) as operator, ThreadPoolExecutor(1) as closer:
        service = SystemProcessingTimeService(operator.submit, refuse, source)
        service.register_timer(5, callback)
        source.advance_to(6)
        assert began.wait(SOON_S)
        ending = closer.submit(lambda: (end(service), news.append("clock ended")))
        with pytest.raises(TimeoutError):
            ending.result(timeout=0.02)
        may_end.set()
        ending.result(timeout=SOON_S)
    assert news == ["callback ended", "clock ended"]


def test_a_callback_may_quiesce_its_clock_without_waiting_for_itself() -> None:
    clock = SystemClock(0)
    clock.service.register_timer(5, lambda _: clock.service.quiesce())
    clock.service.register_timer(6, lambda _: pytest.fail("called after quiescing"))
    clock.advance_to(20)
    assert (clock.service.pending(), clock.errors) == (1, [])


@pytest.mark.parametrize("stop, pending", [("cancel", 0), ("quiesce", 1), ("shutdown", 0)])
def test_a_mail_that_was_handed_over_does_nothing_after_cancelling_or_the_end(
    stop: str, pending: int
) -> None:
    clock, calls = SystemClock(0), list[int]()
    timer = clock.service.register_timer(5, calls.append)
    clock.mailbox.is_busy = True
    clock.advance_to(10)
    assert (len(clock.mailbox.mails), clock.service.pending()) == (1, 1)
    {"cancel": timer.cancel, "quiesce": clock.service.quiesce, "shutdown": clock.service.shutdown}[stop]()
    clock.mailbox.is_busy = False
    clock.mailbox.run()
    assert (calls, clock.service.pending()) == ([], pending)


def slow_first(clock: SystemClock, calls: list[tuple[int, int]]) -> Callable[[int], None]:
    """Takes 25 ms at its first call, and no time afterwards."""

    def callback(timestamp: int) -> None:
        calls.append((timestamp, clock.service.current_processing_time))
        if len(calls) == 1:
            clock.source.now += 25

    return callback


def test_a_fixed_rate_makes_up_for_calls_that_were_missed() -> None:
    clock, calls = SystemClock(0), list[tuple[int, int]]()
    clock.service.schedule_at_fixed_rate(slow_first(clock, calls), 10, 10)
    clock.advance_to(50)
    assert calls == [(10, 10), (20, 35), (30, 35), (40, 40), (50, 50)]


def test_a_fixed_delay_counts_from_the_end_of_a_call() -> None:
    clock, calls = SystemClock(0), list[tuple[int, int]]()
    clock.service.schedule_with_fixed_delay(slow_first(clock, calls), 10, 10)
    clock.advance_to(60)
    assert calls == [(10, 10), (45, 45), (55, 55)]


def test_the_mails_of_a_periodic_task_do_not_pile_up_before_a_busy_operator() -> None:
    clock, calls = SystemClock(0), list[int]()
    clock.service.schedule_at_fixed_rate(calls.append, 10, 10)
    clock.mailbox.is_busy = True
    clock.advance_to(45)
    assert len(clock.mailbox.mails) == 1
    clock.mailbox.is_busy = False
    clock.mailbox.run()
    clock.advance_to(45)
    assert calls == [10, 20, 30, 40]


@pytest.mark.parametrize("schedule", ["schedule_at_fixed_rate", "schedule_with_fixed_delay"])
def test_an_error_of_a_callback_reaches_the_handler_and_a_periodic_task_goes_on(schedule: str) -> None:
    clock, calls = SystemClock(0), list[int]()

    def fails(timestamp: int) -> None:
        calls.append(timestamp)
        raise ZeroDivisionError(f"at {timestamp}")

    clock.service.register_timer(7, fails)
    getattr(clock.service, schedule)(fails, 10, 10)
    clock.advance_to(25)
    assert calls == [7, 10, 20]
    assert [str(error) for error in clock.errors] == ["at 7", "at 10", "at 20"]
    assert clock.service.pending() == 1


def test_the_handler_may_shut_the_clock_down() -> None:
    errors, source = list[Exception](), ManualTimeSource(0)
    service = SystemProcessingTimeService(
        lambda mail: mail(), lambda error: (errors.append(error), service.shutdown()), source
    )
    service.schedule_at_fixed_rate(lambda _: 1 // 0, 1, 1)  # type: ignore[arg-type, return-value]
    source.advance_to(10)
    assert [type(error) for error in errors] == [ZeroDivisionError]
    assert source.is_closed


def test_an_error_of_the_mailbox_reaches_the_handler_and_the_clock_goes_on() -> None:
    errors, source, mails = list[Exception](), ManualTimeSource(0), queue.Queue[Mail](maxsize=1)
    service = SystemProcessingTimeService(mails.put_nowait, errors.append, source)
    calls: list[str] = []
    service.register_timer(5, lambda _: calls.append("first"))
    service.register_timer(5, lambda _: calls.append("refused"))
    service.schedule_at_fixed_rate(lambda time: calls.append(f"periodic at {time}"), 6, 10)
    source.advance_to(6)
    assert [type(error) for error in errors] == [queue.Full, queue.Full]
    assert service.pending() == 2, "the first, and the periodic one at 16"
    mails.get_nowait()()
    source.advance_to(16)
    mails.get_nowait()()
    assert calls == ["first", "periodic at 16"]


def test_an_earlier_timer_sets_the_alarm_back() -> None:
    clock, calls = SystemClock(0), list[int]()
    clock.service.register_timer(50, calls.append)
    clock.service.register_timer(10, calls.append)
    clock.advance_to(11)
    assert calls == [10]
    clock.advance_to(51)
    assert calls == [10, 50]


def test_a_timer_for_the_past_is_due_now_and_so_after_those_that_were_due_before() -> None:
    clock, calls = SystemClock(40), list[int]()
    clock.service.register_timer(50, calls.append)
    clock.source.now = 100
    clock.service.register_timer(5, calls.append)
    clock.advance_to(100)
    assert calls == [50, 5]


def test_a_clock_that_is_set_back_meanwhile_makes_a_timer_wait_for_its_time() -> None:
    source, calls = ManualTimeSource(100), list[int]()
    service = SystemProcessingTimeService(lambda mail: mail(), refuse, source)
    service.register_timer(110, calls.append)
    source.now = 50
    source.advance_to(110)
    assert calls == []
    source.advance_to(111)
    assert calls == [110]


PACKAGE = Path(windowing.__file__).parent
SYSTEM = "system_processing_time_service"


def reads_a_clock(tree: ast.AST) -> bool:
    """Whether it imports `time`, or asks anything for now, utcnow or today."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "time" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"now", "utcnow", "today"}
        ):
            return True
    return False


def test_nothing_else_in_windowing_reads_a_wall_clock_or_imports_the_file_that_does() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert [path.stem for path, tree in trees.items() if reads_a_clock(tree)] == [SYSTEM]
    imported = {
        path.stem
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and SYSTEM in ast.unparse(node)
    }
    assert imported == set()
