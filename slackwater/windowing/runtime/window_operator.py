"""The window operator: elements, watermark and clock in; rows of fired windows out, exactly as in Flink
2.3.0.

    element ── assigner ── its windows ─┬─ late ──────── missed: late output, counter or listener
                                        └─ on time ───── added to the contents ── trigger: fire, purge
    timer that is due ─────────────────────────────────────────────────────────── trigger: fire, purge
                                        └─ at the cleanup time: contents and trigger state are cleared

One control flow for merging and other windows, with and without an evictor. It knows no engine, no file and
no wall clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from slackwater.windowing.assigners import MergingWindowAssigner
from slackwater.windowing.errors import (
    PROCESSING_ELEMENT,
    ConfigurationError,
    UnknownWindowError,
    UserCodeError,
    WindowingError,
)
from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.java import LONG_MAX, LONG_MIN, wrap_long
from slackwater.windowing.own_windows import checked_windows
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.contexts import OperatorTriggerContext, OperatorWindowContext
from slackwater.windowing.runtime.keyed_operator import Domain, KeyedOperator, OperatorOptions
from slackwater.windowing.runtime.merging_windows import MergingWindows, MergingWindowSet
from slackwater.windowing.runtime.operator_output import FiredBy, OperatorOutput, SkipReason, WindowListener
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.runtime.window_ends import WindowEnds, delete_cleanup_timer
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.triggers import TriggerResult
from slackwater.windowing.windows import Window

CONTINUE, FIRE, PURGE, FIRE_AND_PURGE = TriggerResult


TIMER_SERVICE = "window-timers"


class WindowOperator(KeyedOperator):
    """Windows of the keys of one range of key groups (Flink: WindowOperator, EvictingWindowOperator).

    Beyond Flink: event-time windows whose last instant is at or before `collected_mark` (Long.MIN: no mark)
    were collected by an earlier operator, perhaps with less allowed lateness; elements are late for them
    whatever the watermark says. Flink, restored with more lateness, creates them again.

    Attributes:
        late_records_dropped: Flink's numLateRecordsDropped.
    """

    def __init__(
        self,
        config: WindowOperatorConfig,
        output: OperatorOutput,
        clock: ProcessingTimeService,
        *,
        listener: WindowListener | None = None,
        collected_mark: int = LONG_MIN,
        storage: OperatorStorage = IN_MEMORY,
        **options: Unpack[OperatorOptions],
    ) -> None:
        super().__init__(
            TIMER_SERVICE,
            config.function,
            config.key_type,
            output,
            clock,
            listener=listener,
            storage=storage,
            **options,
        )
        self.config = config
        self.late_records_dropped = 0
        self._evictor, self._trigger = config.evictor, config.trigger
        # About every element, whatever the trigger promises; so also once the watermark has gone back.
        self._asks_always = not config.trigger.arms_once
        self._contents = self.backend.state(config.contents)
        self._are_contents_listed = config.contents.kind == "list"
        self._lateness_ms = config.allowed_lateness_ms
        self._is_event_time = config.assigner.is_event_time
        # Without a mark: below every last instant, so that no window is late for it.
        has_mark = self._is_event_time and collected_mark > LONG_MIN
        self._collected_mark = collected_mark if has_mark else LONG_MIN - 1
        self._ends = WindowEnds(is_event_time=self._is_event_time, allowed_lateness_ms=self._lateness_ms)
        self._context = OperatorTriggerContext(self, self.timer_service, self.backend)
        self._merging = self._merging_windows(config)
        self._window_context = OperatorWindowContext(
            self, self.timer_service, self.backend, self._emit_side, self._merging is None
        )
        self._assign = checked_windows(config.assigner.bind(self._context), config.assigner.window_type)
        # The newest value, reused: many timers in a row have one timestamp.
        self._fired_by = FiredBy("event", LONG_MIN)

    def _merging_windows(self, config: WindowOperatorConfig) -> MergingWindows | None:
        if not isinstance(config.assigner, MergingWindowAssigner):
            return None
        return MergingWindows(
            config.assigner,
            config,
            self,
            backend=self.backend,
            timers=self.timer_service,
            context=self._context,
            ends=self._ends,
            listener=self._listener,
            transaction=self._transaction,
        )

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None:
        """Add an element to its windows, and fire those whose trigger says so. Contents keep `value`."""
        self.current_key = key
        time = LONG_MIN if timestamp is None else timestamp
        transaction = self._transaction
        if transaction is not None:
            transaction.begin()
        windows: Sequence[Window] | None = None
        try:
            windows = self._assign(value, time)
            if self._merging is None:
                missed_windows = self._add_to_windows(key, value, timestamp, time, windows)
            else:
                missed_windows = self._add_to_sessions(value, timestamp, time, windows, self._merging)
            if missed_windows is not None:
                self._on_missed(value, timestamp, time, windows, missed_windows)
        except WindowingError as error:
            error.locate(key, None if windows is None else self._context.window, timestamp)
            self._take_back(error)
            raise
        except Exception as error:
            window = None if windows is None else self._context.window
            failure = UserCodeError.of(error, PROCESSING_ELEMENT, key, window, timestamp)
            raise self._take_back(failure) from error
        if transaction is not None:
            transaction.commit()

    def _add_to_windows(
        self, key: Any, value: Any, timestamp: int | None, time: int, windows: Sequence[Window]
    ) -> list[Window] | None:
        """Add an element to its windows. Returns the windows for which it is late; None for none."""
        missed_windows: list[Window] | None = None if windows else []
        contents, listener, context, ends = self._contents, self._listener, self._context, self._ends
        timers = self.timer_service
        watermark, must_ask = timers.current_watermark, self._asks_always or timers.has_gone_back
        is_event_time, collected_mark = self._is_event_time, self._collected_mark
        element = TimestampedValue(value, timestamp) if self._evictor is not None else value
        for window in windows:
            last_instant, cleanup = ends[window]
            if (cleanup <= watermark and is_event_time) or last_instant <= collected_mark:
                missed_windows = [window] if missed_windows is None else [*missed_windows, window]
                continue
            context.window = window
            is_new = contents.add(key, window, element)
            if listener is not None:
                listener.element_added(key, window, value, timestamp)
            if is_new or last_instant <= watermark or must_ask:
                self._ask_trigger(window, window, cleanup, value, time)
        return missed_windows

    def _add_to_sessions(
        self, value: Any, timestamp: int | None, time: int, windows: Sequence[Window], merging: MergingWindows
    ) -> list[Window] | None:
        """`_add_to_windows` for windows that merge: an element goes to the session that its window joins."""
        key = self.current_key
        missed_windows: list[Window] | None = None if windows else []
        element = TimestampedValue(value, timestamp) if self._evictor is not None else value
        timers = self.timer_service
        watermark, must_ask = timers.current_watermark, self._asks_always or timers.has_gone_back
        sessions: MergingWindowSet | None = None
        for window in windows:
            self._context.window = window
            session = merging.add_to_only_session(key, window) if sessions is None else None
            if session is None:
                sessions = sessions or merging.load(key)
                actual = sessions.add_window(window, merging.on_merge)
                session = actual, sessions.state_window(actual), sessions.is_touched
            actual, state_window, is_touched = session
            last_instant, cleanup = self._ends[actual]
            if (self._is_event_time and cleanup <= watermark) or last_instant <= self._collected_mark:
                sessions = sessions or merging.load(key)
                sessions.retire_window(actual)
                missed_windows = [window] if missed_windows is None else [*missed_windows, window]
                continue
            if state_window is None:
                raise UnknownWindowError(
                    f"{actual!r} has no state window; the assigner merged it away. "
                    "It must report every merge of windows in flight."
                )
            self._context.window = actual
            is_new = self._contents.add(key, state_window, element)
            if self._listener is not None:
                self._listener.element_added(key, actual, value, timestamp)
            if is_new or is_touched or last_instant <= watermark or must_ask:
                self._ask_trigger(actual, state_window, cleanup, value, time)
        if sessions is not None:
            merging.persist(key, sessions)
        return missed_windows

    def _ask_trigger(self, window: Window, state_window: Window, cleanup: int, value: Any, time: int) -> None:
        """Ask the trigger about an added element, obey it, and register the cleanup timer."""
        key = self.current_key
        result = self._trigger.on_element(value, time, window, self._context)
        if result is not CONTINUE:
            self._obey(result, key, window, state_window, None)
        if cleanup != LONG_MAX:
            if self._is_event_time:
                self.timer_service.register_event_time_timer(cleanup, key, window)
            else:
                self.timer_service.register_processing_time_timer(cleanup, key, window)

    def _on_missed(
        self,
        value: Any,
        timestamp: int | None,
        time: int,
        windows: Sequence[Window],
        missed_windows: Sequence[Window],
    ) -> None:
        key = self.current_key
        if len(missed_windows) < len(windows):
            if self._listener is not None:
                self._listener.windows_missed(key, value, timestamp, missed_windows)
            return
        watermark = self.timer_service.current_watermark
        is_late = self._is_event_time and wrap_long(time + self._lateness_ms) <= watermark
        is_late = is_late or time <= self._collected_mark
        if is_late and self.config.has_late_output:
            self._output.late(value, timestamp, key)
        elif is_late:
            self.late_records_dropped += 1
        if self._listener is not None:
            reason = SkipReason.WINDOWS_LATE if missed_windows else SkipReason.NO_WINDOW
            if is_late:
                reason = SkipReason.LATE
            self._listener.element_skipped(key, value, timestamp, reason, missed_windows)

    def _on_timer(self, domain: Domain, timestamp: int, key: Any, namespace: Window) -> None:
        context, merging, window = self._context, self._merging, namespace
        context.window = window
        try:
            sessions = None if merging is None else merging.load(key)
            state_window = window if sessions is None else sessions.state_window(window)
            if state_window is None:
                return  # a timer of a session that has been absorbed or collected
            if domain == "event":
                result = self._trigger.on_event_time(timestamp, window, context)
            else:
                result = self._trigger.on_processing_time(timestamp, window, context)
            if result is not CONTINUE:
                by = self._fired_by
                if timestamp != by.timestamp or domain != by.domain:
                    by = self._fired_by = FiredBy(domain, timestamp)
                self._obey(result, key, window, state_window, by)
            if self._is_event_time == (domain == "event") and timestamp == self._ends.cleanup_time(window):
                self._clear_all_state(key, window, state_window, sessions)
            if merging is not None and sessions is not None:
                merging.persist(key, sessions)
        except WindowingError as error:
            error.locate(key, window, timestamp)
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, f"handling a timer of {domain} time", key, window, timestamp
            ) from error

    def _obey(
        self, result: TriggerResult, key: Any, window: Window, state_window: Window, by: FiredBy | None
    ) -> None:
        if not isinstance(result, TriggerResult):
            raise TypeError(f"{self._trigger!r} answered {result!r}; a trigger answers with a TriggerResult.")
        if result is FIRE_AND_PURGE and not self._trigger.purges:
            raise ConfigurationError(
                f"{self._trigger!r} answered FIRE_AND_PURGE, but its class does not say `purges = True`; add "
                "that."
            )
        transaction = self._transaction
        if result is not PURGE:
            if transaction is not None:
                transaction.is_undoable = False  # a firing emits what other elements have left
            contents = self._contents.get(key, state_window)
            if self._listener is not None:
                self._listener.window_fired(
                    key, window, by, contents is not None or self._contents.contains(key, state_window)
                )
            if contents is not None:
                self._emit_contents(key, window, state_window, contents)
            if self._listener is not None:
                self._listener.firing_ended(key, window)
            if transaction is not None:
                transaction.is_undoable = True
        if result is not FIRE:
            self._contents.clear(key, state_window)
            if self._listener is not None:
                self._listener.window_purged(key, window)

    def _emit_contents(self, key: Any, window: Window, state_window: Window, contents: Any) -> None:
        """Emit the rows of a firing. The function gets a copy of a list in memory; a long list in RocksDB is
        read as it iterates. An evictor evicts before and after it.
        """
        if self._evictor is None:
            is_copied = self._are_contents_listed and type(contents) is list
            self._emit(key, window, list(contents) if is_copied else contents)
            return
        elements = list(contents)
        self._evictor.evict_before(elements, len(elements), window, self._context)
        self._emit(key, window, [element.value for element in elements])
        self._evictor.evict_after(elements, len(elements), window, self._context)
        self._contents.update(key, state_window, elements)

    def _emit(self, key: Any, window: Window, contents: Any) -> None:
        self._window_context.window = window
        timestamp, collect = window.max_timestamp(), self._output.collect
        for row in self._function.process(key, window, self._window_context, contents) or ():
            collect(row, timestamp, window, key)

    def _emit_side(self, tag: str, value: Any, window: Window) -> None:
        self._output.side(tag, value, window.max_timestamp(), window, self.current_key)

    def collect_expired(self, key: Any, window: Window) -> None:
        """Collect a restored window that is past its cleanup time because the allowed lateness is now
        shorter, without waiting for its timer or asking its trigger. Raises UserCodeError.
        """
        self.current_key = key
        self._context.window = window
        merging = self._merging
        try:
            sessions = None if merging is None else merging.load(key)
            state_window = window if sessions is None else sessions.state_window(window)
            if state_window is None:
                raise UnknownWindowError(
                    f"{window!r} has no state window; the snapshot is incomplete. Restore an earlier one."
                )
            delete_cleanup_timer(self.timer_service, self._ends, key, window)
            self._clear_all_state(key, window, state_window, sessions)
            if merging is not None and sessions is not None:
                merging.persist(key, sessions)
        except WindowingError as error:
            error.locate(key, window, None)
            raise
        except Exception as error:
            raise UserCodeError.of(error, "collecting a window", key, window, None) from error

    def _clear_all_state(
        self, key: Any, window: Window, state_window: Window, sessions: MergingWindowSet | None
    ) -> None:
        self._contents.clear(key, state_window)
        self._trigger.clear(window, self._context)
        self._forget(window)
        if sessions is not None:
            sessions.retire_window(window)
        if self._listener is not None:
            self._listener.window_cleared(key, window)

    def _forget(self, window: Window) -> None:
        """Call the function's `clear` for a collected window."""
        self._window_context.window = window
        self._function.clear(self._window_context)
