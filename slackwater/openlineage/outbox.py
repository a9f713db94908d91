"""Sends events from a thread of its own, so that no run waits for a server while it works, nor for long when
it is done.

It sends events and does not look into them.
"""

import logging
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent

from slackwater.errors import without_credentials

# How long the end of a verb waits for events that have not been sent yet.
PATIENCE_S = 5.0


class Outbox:
    """Sends events in the order in which they are put into it.

    The client is made in the caller's thread: it sets variables of the process's environment, which other
    threads may be reading.

    Raises:
        Exception: the client's configuration is invalid; the client or a transport chooses the class.
    """

    def __init__(self) -> None:
        _show_console_events()
        self._client = OpenLineageClient()
        self._events: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._newest_error: str | None = None
        self._thread = threading.Thread(target=self._send_all, name="openlineage", daemon=True)
        self._thread.start()

    def put(self, event: RunEvent) -> None:
        self._events.put(event)

    def close(self) -> str | None:
        """Wait until all events are sent, PATIENCE_S at most. Returns why one was not sent, or None."""
        self._events.put(None)
        self._thread.join(PATIENCE_S)
        if self._newest_error is None and self._thread.is_alive():
            return f"no answer within {PATIENCE_S:g} s"
        return self._newest_error

    def _send_all(self) -> None:
        while (event := self._events.get()) is not None:
            self._attempt(partial(self._client.emit, event))
        self._attempt(partial(self._client.close, PATIENCE_S))

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - transports raise errors of any class
            self._newest_error = without_credentials(str(error) or type(error).__name__)


def _show_console_events() -> None:
    """Give the logger of the transport `console` a handler: a command line has none."""
    logger = logging.getLogger("openlineage.client.transport.console")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.setLevel(logging.INFO)
        logger.propagate = False
