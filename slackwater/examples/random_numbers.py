"""Random numbers as a pure function of an event's number and a purpose (splitmix64), so that an event is the
same in every range that holds it.
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def uniform(number: Int64s, purpose: int) -> npt.NDArray[np.float64]:
    """Evenly distributed in [0, 1); `purpose`, below 16, distinguishes the random numbers of one event."""
    return (_bits(number, purpose) >> np.uint64(11)) / 2.0**53


def below(number: Int64s, purpose: int, limit: int | Int64s) -> Int64s:
    """A whole number from 0, below `limit`."""
    return np.floor(uniform(number, purpose) * limit).astype(np.int64)


def _bits(number: Int64s, purpose: int) -> npt.NDArray[np.uint64]:
    """64 random bits for one purpose of an event: splitmix64 of its number and the purpose."""
    bits = number.astype(np.uint64) * np.uint64(16) + np.uint64(purpose)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
