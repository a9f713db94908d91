"""What a walk looks up of a window once, for all elements of it that come one after the other."""

from typing import Any

from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.runtime.window_log import WindowLife
from slackwater.windowing.windows import Window


class WindowAtHand:
    """What is needed of a window for each of its elements.

    Attributes:
        life: its history; None before its first element.
        contents: what it holds; None for nothing.
        changes: of how many changes to contents and histories of the key these two know; -1 for none.
        closed_from: the watermark from which on it takes no element.
        removals: how many timers were gone when the cleanup timer was seen to be pending; -1 before.
    """

    __slots__ = (
        "changes",
        "cleanup",
        "closed_from",
        "contents",
        "last_instant",
        "life",
        "removals",
        "window",
    )

    def __init__(self, window: Window, last_instant: int, cleanup: int, collected_mark: int) -> None:
        self.window, self.last_instant, self.cleanup = window, last_instant, cleanup
        self.closed_from = cleanup if last_instant > collected_mark else LONG_MIN
        self.life: WindowLife | None = None
        self.contents: Any = None
        self.changes = self.removals = -1
