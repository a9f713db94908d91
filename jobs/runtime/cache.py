"""Where downloads are kept between commands: one folder per user, shared by all environments.

Everything in it can be deleted at any time; nothing in it belongs to a pipeline.
"""

import os
from pathlib import Path


def cache() -> Path:
    """SLACKWATER_CACHE, else `slackwater` under XDG_CACHE_HOME, else under the user's `.cache`. The folder
    need not exist yet.
    """
    own = os.environ.get("SLACKWATER_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    parent = os.environ.get("XDG_CACHE_HOME")
    return (Path(parent) if parent else Path.home() / ".cache") / "slackwater"
