"""The cache: a folder per user for downloads, archives and measured rates; it can be deleted at any time."""

import os
from pathlib import Path


def cache() -> Path:
    """SLACKWATER_CACHE, else `slackwater` under XDG_CACHE_HOME or `.cache`. It need not exist yet."""
    chosen_folder = os.environ.get("SLACKWATER_CACHE")
    if chosen_folder:
        return Path(chosen_folder).expanduser().absolute()
    parent = os.environ.get("XDG_CACHE_HOME")
    return (Path(parent) if parent else Path.home() / ".cache") / "slackwater"
