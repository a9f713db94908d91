"""The kit for users' own tests: an operator harness, clocks that a test moves, and runs that follow each
other with a snapshot in between.
"""

from slackwater.windowing.testing import *  # noqa: F403 - exactly the names of its __all__
from slackwater.windowing.testing import __all__ as __all__
