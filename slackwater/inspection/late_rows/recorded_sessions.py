"""Puts recorded firings and late rows of sessions together by the session that all of them would have made.

Sessions merge, so one session may have fired under several bounds; a late row that no session took may have
belonged to one of them. Windows of a key that touch are one session here, whether they merged or not:

    fired      ├── 3 rows ──┤      ├── 2 rows ──┤
    late row            ├── t ──┤ ├── t ──┤          one session of 7 rows, 5 of them on time

Pure functions on columns of equal length, times in milliseconds.
"""

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


def sessions_of(keys: npt.NDArray[np.uint64], starts: Longs, ends: Longs) -> Longs:
    if not len(keys):
        return np.zeros(0, np.int64)
    order = np.lexsort((ends, starts, keys))
    is_new_key = np.ones(len(order), np.bool_)
    is_new_key[1:] = keys[order][1:] != keys[order][:-1]
    # Times of each key are moved behind those of the key before, so that one running maximum does for all.
    first = starts.min()
    offsets = (np.cumsum(is_new_key) - 1) * (ends.max() - first + 2)
    latest_end = np.maximum.accumulate(ends[order] - first + offsets)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = starts[order][1:] - first + offsets[1:] > latest_end[:-1]
    sessions = np.empty(len(order), np.int64)
    sessions[order] = np.cumsum(is_new) - 1
    return sessions


def rise_of_elements(sessions: Longs, starts: Longs, ends: Longs, elements: Longs) -> Longs:
    """How many rows each firing has more than the firings before it of the windows that it has absorbed, or
    of the same window. The entries of a session are adjacent, in the order in which it fired.
    """
    rises = elements.copy()
    fired_elements: dict[tuple[int, int], int] = {}
    session_before = -1
    columns = (column.tolist() for column in (sessions, starts, ends, elements))
    for place, (session, start, end, count) in enumerate(zip(*columns, strict=True)):
        if session != session_before:
            fired_elements, session_before = {}, session
        absorbed_windows = [window for window in fired_elements if start <= window[0] and window[1] <= end]
        rises[place] = max(count - sum(fired_elements.pop(window) for window in absorbed_windows), 0)
        fired_elements[start, end] = count
    return rises
