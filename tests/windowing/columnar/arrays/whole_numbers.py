"""Python's integers as limbs: what the tests of limbs start from. Not a test."""

from __future__ import annotations

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.limbs import BITS


def of_integers(values: list[int]) -> Longs:
    """The inverse of `limbs.to_integers`, normalised."""
    width = max((value.bit_length() for value in values), default=0) // BITS + 1
    data = b"".join(value.to_bytes(4 * width, "little", signed=True) for value in values)
    words = np.frombuffer(data, "<u4").reshape(len(values), width).astype(np.int64)
    words[:, -1] = words[:, -1].astype(np.uint32).view(np.int32)
    return words
