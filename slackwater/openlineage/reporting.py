"""Reports the work of a verb to OpenLineage: a START event before it, and an event of its end.

If OpenLineage's client is not configured, by the client's own rules, this costs a look at a few variables and
two files, before anything is imported.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.errors import SlackwaterError, without_credentials

if TYPE_CHECKING:
    from slackwater.openlineage.reported_run import ReportedRun
    from slackwater.openlineage.results import VerbResults
    from slackwater.runs.opened_pipeline import OpenedPipeline

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


@contextmanager
def run_events(
    verb: str,
    opened_pipeline: "OpenedPipeline",
    results: "Callable[[], VerbResults]",
    warn: Callable[[str], object],
    *,
    publishes: bool = True,
) -> Iterator[None]:
    """A block that does the work of `verb` on `opened_pipeline`. Events that can't be sent change neither its
    result nor its errors: `warn` gets a line.

    Args:
        results: called after the block, for its results.
        publishes: whether the verb changes what readers see, if all goes well.
    """
    run = _start(verb, opened_pipeline, warn, publishes=publishes) if is_configured() else None
    try:
        yield
    except BaseException as error:
        _end(run, results, error, warn)
        raise
    _end(run, results, None, warn)


def _start(
    verb: str, opened_pipeline: "OpenedPipeline", warn: Callable[[str], object], *, publishes: bool
) -> "ReportedRun | None":
    """The run, whose START event is on its way; None if no event can be sent."""
    try:
        from slackwater.openlineage.reported_run import ReportedRun

        return ReportedRun(verb, opened_pipeline, warn, publishes=publishes)
    except SlackwaterError:
        return None  # there is no such pipeline, which the verb itself will say
    except Exception as error:  # noqa: BLE001 - the client and its transports raise errors of any class
        warn(f"warning: OpenLineage: this run is not reported: {_reason(error)}")
        return None


def _end(
    run: "ReportedRun | None",
    results: "Callable[[], VerbResults]",
    error: BaseException | None,
    warn: Callable[[str], object],
) -> None:
    if run is None:
        return
    try:
        run.end(results(), error)
    except Exception as failure:  # noqa: BLE001 - as above
        warn(f"warning: OpenLineage: the end of this run is not reported: {_reason(failure)}")


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "openlineage":
        return 'its client is not installed here. Install it: pip install "slackwater[openlineage]".'
    return without_credentials(str(error) or type(error).__name__)
