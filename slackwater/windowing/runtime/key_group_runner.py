"""Replays the windows of one key-group range through one slice: a window operator, its log, `SliceRunner`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Unpack

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.runtime.keyed_operator import OperatorOptions
from slackwater.windowing.runtime.operator_snapshot import OpenWindow, OperatorSnapshot
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.runtime.slice_runner import SliceRunner, WatermarkTimeline
from slackwater.windowing.runtime.window_log import LoggedLateElement, LoggedPane, WindowLog
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig


class KeyGroupRunner(SliceRunner):
    """A window operator of one range of key groups, driven through one slice [from_ms, to_ms). Arguments as
    for `WindowOperator` and `SliceRunner`: with `on_error` "quarantine" an element on which a user's function
    raises is undone, and added to `failed_elements`.
    """

    _log: WindowLog
    _operator: WindowOperator

    def __init__(
        self,
        config: WindowOperatorConfig,
        *,
        timeline: WatermarkTimeline,
        from_ms: int,
        storage: OperatorStorage = IN_MEMORY,
        **options: Unpack[OperatorOptions],
    ) -> None:
        self._is_event_time, self._lateness_ms = config.assigner.is_event_time, config.allowed_lateness_ms
        self._collected_mark = timeline.collected_mark
        self._assignments_before = 0
        log = WindowLog(accumulates=not config.trigger.purges, is_event_time=self._is_event_time)
        make_operator = partial(
            WindowOperator, config, log, listener=log, collected_mark=timeline.collected_mark, **options
        )
        super().__init__(make_operator, log, timeline=timeline, from_ms=from_ms, storage=storage)

    def _start(self, storage: OperatorStorage) -> None:
        super()._start(storage)
        self._log.operator, self._log.processing_time = self._operator, self._clock

    @property
    def panes(self) -> list[LoggedPane]:
        return self._log.panes

    @property
    def late_elements(self) -> list[LoggedLateElement]:
        return self._log.late_elements

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Restore what earlier runs parked, ignoring other key groups.

        Restored windows may be past their cleanup time: the allowed lateness has become shorter, or they lie
        before the collected mark. They are collected at once, because their timers are not due before the
        next watermark, and until then a session could merge with them. A window without any timer stays, as
        in Flink: clearing its trigger has deleted the timer.
        """
        expired_windows, key_groups = [], self._key_groups
        for key_group, key, window, life in snapshot.windows or ():
            if key_group in key_groups:
                self._log.open_window(key, window, life)
                self._assignments_before += life.elements
                if self._is_event_time and self._is_collected(window.max_timestamp()):
                    expired_windows.append((key, window))
        super().restore(snapshot)
        if expired_windows:
            windows_with_timers = {
                (key, window) for timers in snapshot.timers for _, key, window in timers.event
            }
            for key, window in expired_windows:
                if (key, window) in windows_with_timers:
                    self._operator.collect_expired(key, window)

    def _is_collected(self, last_instant: int) -> bool:
        return last_instant + self._lateness_ms <= self._log.watermark or last_instant <= self._collected_mark

    def counts(self) -> dict[str, int]:
        tally, common = self._log.tally, super().counts()
        rows_accepted = common["rows_accepted"] - tally.rows_late - tally.rows_unassigned
        return {
            **common,
            **asdict(tally),
            "rows_accepted": rows_accepted,
            "windows_open": sum(map(len, self._log.lives.values())),
        }

    def assignments(self) -> dict[str, int]:
        log = self._log
        return {
            "assignments_before": self._assignments_before,
            "assignments_made": log.assignments_added + log.tally.assignments_missed,
            "assignments_open": sum(life.elements for lives in log.lives.values() for life in lives.values()),
            "assignments_cleaned": log.assignments_cleaned,
        }

    def snapshot(
        self, key_groups: KeyGroupRange | None = None, holds_key: Callable[[Any], bool] | None = None
    ) -> OperatorSnapshot:
        snapshot_range, key_group_of = key_groups or self._key_groups, self._operator.key_groups
        windows = [
            OpenWindow(group, key, window, life)
            for window, lives in self._log.lives.items()
            for key, life in lives.items()
            if (group := key_group_of[key]) in snapshot_range and (holds_key is None or holds_key(key))
        ]
        return replace(super().snapshot(snapshot_range, holds_key), windows=tuple(windows))
