"""Whether OpenLineage's client is configured, by the client's own rules.

Standard library only: every verb that emits events asks this before anything is imported.
"""

import os
from pathlib import Path

_FILE = "openlineage.yml"


def is_configured() -> bool:
    """Whether the client's environment or configuration file names a place for events, and
    OPENLINEAGE_DISABLED does not switch it off.
    """
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get("OPENLINEAGE_URL") or os.environ.get("OPENLINEAGE_CONFIG"):
        return True
    if any(name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ):
        return True
    return any(os.path.isfile(folder / _FILE) for folder in (Path(), Path("~/.openlineage").expanduser()))
