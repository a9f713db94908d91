"""The border between DAGs and commands: the command lines that a DAG starts, and the manifest in which
a job leaves its outcome for the next task.

Standard library only, since both sides import this file. It knows how verbs are spelled, not what they do.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from slackwater.errors import PermanentError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Outcome = Literal["staged", "nothing", "published", "kept", "rejected", "refused", "failed", "lost"]
Verdict = Literal["passed", "warned", "failed"]

FORMAT = 3

# A task's log has a line for a slice, and for a step that goes on for seconds.
_SHORT_LOG = ("--log-format", "progress")


class ManifestError(PermanentError):
    """A manifest is missing or is not one of ours. Facts: file."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One expectation that the panes of a staged run did not meet. Counts are in panes; samples are a few
    values that broke it, as JSON.
    """

    run_id: str
    expectation: str
    column_name: str | None
    severity: str
    observed: str | None
    unexpected: int | None
    checked: int | None
    samples: str | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The outcome of a `run --no-publish` or a `backfill`. With a manifest the process itself exits 0,
    because Spark's launcher hides other exit codes.

    Args:
        pipeline: its name.
        outcome: ``staged`` (run_ids wait for `publish`), ``nothing`` (the range is covered already),
            ``published`` (a restatement is live) or ``kept`` (it stays a branch), ``rejected`` by validation,
            ``refused`` (a gap, too many missed slices, no such source: a person must decide), ``failed`` (and
            would fail again), or ``lost`` (another run was first).
        exit_code: what the process would have exited with: 0, 1, 2, 4 or 5.
        run_id: the last staged run, for `publish`; None when nothing was staged.
        run_ids: all staged runs, in slice order; of these a rejected one is the last.
        verdict: the worst of the staged runs; None when nothing was staged.
        message: one sentence for the person who reads the task's log.
        failures: the expectations that failed, warnings included.
        slices: the staged ranges [start, end) of arrival time, ISO 8601, UTC.
        stale: where the range is covered already, the ranges [start, end) of which rows of the source have
            appeared, changed or gone since they were run.
        counts: of all staged runs rows_read, windows_fired, windows_refired, rows_late and rows_quarantined.
        seconds: that they took.
    """

    pipeline: str
    outcome: Outcome
    exit_code: int
    run_id: str | None
    run_ids: tuple[str, ...]
    verdict: Verdict | None
    message: str
    failures: tuple[Failure, ...]
    slices: tuple[tuple[str, str], ...]
    stale: tuple[tuple[str, str], ...]
    counts: Mapping[str, int]
    seconds: float

    def summary(self, timezone: str = "UTC") -> str:
        """What was staged, in two lines that fit a page of a log, by the clocks of `timezone`; the message
        where nothing was.
        """
        from zoneinfo import ZoneInfo  # which reads how this Python was built

        if not self.slices:
            return self.message
        count = f"{len(self.slices)} slice{'' if len(self.slices) == 1 else 's'}"
        titles = {
            "rows": "rows_read",
            "fired": "windows_fired",
            "refired": "windows_refired",
            "late": "rows_late",
            "quarantined": "rows_quarantined",
        }
        counts = "  ".join(f"{title} {self.counts[name]:,}" for title, name in titles.items())
        start, end = (
            _short_time(time, ZoneInfo(timezone)) for time in (self.slices[0][0], self.slices[-1][1])
        )
        zone = "" if timezone == "UTC" else f" {timezone}"
        return f"{count}, {start} to {end}{zone}: {self.verdict}, {self.seconds:.1f} s\n{counts}"

    @property
    def good_run_ids(self) -> tuple[str, ...]:
        """The staged runs that may be published: those before one that was rejected, refused or that failed;
        none where another run was first.
        """
        if self.outcome == "lost":
            return ()
        return self.run_ids[:-1] if self.verdict == "failed" else self.run_ids


def run(
    pipeline: str,
    *,
    to: str,
    accept: str = "",
    manifest: str,
    warehouse: str,
    pipelines: str | None = None,
) -> list[str]:
    """Arguments that stage every slice up to `to` (ISO 8601); the first that validation rejects is accepted
    where `accept` is a reason. Both may be Airflow templates.
    """
    return [
        "run",
        pipeline,
        "--to",
        to,
        "--accept",
        accept,
        "--no-publish",
        "--manifest",
        manifest,
        *_SHORT_LOG,
        *_where(warehouse, pipelines),
    ]


def on(place: str | None) -> list[str]:
    """Arguments that say where slices are replayed; none where the pipeline says it."""
    return [] if place is None else ["--on", place]


def backfill(
    pipeline: str,
    *,
    from_: str,
    to: str,
    until: str,
    publish: str,
    reason: str,
    manifest: str,
    warehouse: str,
    pipelines: str | None = None,
) -> list[str]:
    """Arguments that restate [from, to); all may be templates. `until` is --until-converged or
    --until-same-code, `publish` is --publish or --preview."""
    range_and_mode = ["--from", from_, "--to", to, until, publish, "--reason", reason, "--manifest", manifest]
    return ["backfill", pipeline, *range_and_mode, "--no-deliver", *_SHORT_LOG, *_where(warehouse, pipelines)]


def publish(pipeline: str, run_id: str, *, warehouse: str, pipelines: str | None = None) -> list[str]:
    """Arguments that make all staged runs up to `run_id` live. Sinks have tasks of their own."""
    return ["publish", pipeline, run_id, "--no-deliver", *_SHORT_LOG, *_where(warehouse, pipelines)]


def deliver(pipeline: str, sink: str, *, warehouse: str, pipelines: str | None = None) -> list[str]:
    """Arguments that deliver to one sink what it lacks."""
    return ["sinks", "deliver", pipeline, sink, *_where(warehouse, pipelines)]


def runs(pipeline: str, *, since: int, warehouse: str, pipelines: str | None = None) -> list[str]:
    """Arguments that print the ledger's rows with a seq above `since` as a JSON list, oldest first."""
    return ["runs", pipeline, "--since", str(since), *_where(warehouse, pipelines), "--output", "json"]


def maintain(pipeline: str, *, warehouse: str, pipelines: str | None = None) -> list[str]:
    """Arguments that keep the tables of a pipeline small."""
    return ["maintain", pipeline, *_SHORT_LOG, *_where(warehouse, pipelines)]


def health(*, warehouse: str, pipelines: str | None = None, as_json: bool) -> list[str]:
    """Arguments that judge all pipelines of the warehouse, as a table or as JSON."""
    return ["health", *_where(warehouse, pipelines), "--output", "json" if as_json else "table"]


def write_manifest(manifest: Manifest, file: Path) -> None:
    """Write the manifest to `file` atomically, over that of an earlier try; makes the folder. Called by
    commands, never by a DAG.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(manifest_text(manifest), encoding="utf-8")
    draft.replace(file)


def manifest_text(manifest: Manifest) -> str:
    """The manifest as its file holds it."""
    return json.dumps(manifest_fields(manifest), indent=1) + "\n"


def manifest_fields(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON has it, in which a task hands it to the next: no tuples, which are lists there."""
    as_json: dict[str, Any] = json.loads(json.dumps({"format": FORMAT, **asdict(manifest)}))
    return as_json


def manifest_of(fields_of_json: Any) -> Manifest:
    """The inverse of `manifest_fields`; None is what a task has returned that did not run. Raises
    ManifestError.
    """
    if fields_of_json is None:
        raise ManifestError(
            "there is no outcome: the task before this one has replayed nothing, as where it was marked a "
            "success by hand. Clear the task `replay` or `restate`."
        )
    try:
        return _manifest(fields_of_json)
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestError(
            f"this is no outcome of format {FORMAT}: {error}. Clear the task `replay` or `restate`; where it "
            "runs another version of slackwater than this task, install one version on both sides first."
        ) from error


class TextFile(Protocol):
    """A file of this machine or of a store."""

    def read_text(self, encoding: str | None = None) -> str:
        """Its text. Raises OSError where there is none."""


def read_manifest(file: TextFile) -> Manifest:
    """The manifest that a job left in `file`. Raises ManifestError."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(
            f"{file}: the outcome of the replay cannot be read ({error.strerror}). Clear the task `replay` "
            "or `restate`; if Spark's driver runs in a cluster, SLACKWATER_MANIFESTS must be a URI, or a "
            "folder that it shares with Airflow's workers.",
            file=file,
        ) from error
    try:
        return _manifest(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestError(
            f"{file}: not a manifest of format {FORMAT}: {error}. The task `replay` was run by another "
            "version of slackwater than this "
            "one, or the file was changed; install one version on both sides and clear `replay` or "
            "`restate`.",
            file=file,
        ) from error


_COMMAND = re.compile(r"`(slackwater [^`]*)`")


def with_places(text: str, *, warehouse: str, pipelines: str | None = None) -> str:
    """`text`, in which each command of ours says where the warehouse and the pipelines are, so that it works
    in any shell.
    """
    places = " " + " ".join(map(shlex.quote, _where(warehouse, pipelines)))

    def with_places_of(command: re.Match[str]) -> str:
        return f"`{command[1]}{'' if ' --warehouse ' in command[1] else places}`"

    return _COMMAND.sub(with_places_of, text)


def _short_time(text: str, zone: "ZoneInfo") -> str:
    """What clocks of a zone show at an ISO 8601 time, without the parts that are zero."""
    clock = datetime.fromisoformat(text).astimezone(zone).replace(tzinfo=None)
    return clock.isoformat().removesuffix(":00").removesuffix("T00:00")


def _where(warehouse: str, pipelines: str | None) -> list[str]:
    return ["--warehouse", warehouse, *(["--pipelines", pipelines] if pipelines else [])]


def _manifest(fields_of_json: Any) -> Manifest:
    """The manifest with these fields. Raises ValueError, TypeError or KeyError where they are not those of
    one.
    """
    if not isinstance(fields_of_json, dict):
        raise TypeError(f"it holds a {type(fields_of_json).__name__}, not an object")
    if fields_of_json.get("format") != FORMAT:
        raise ValueError(f"its format is {fields_of_json.get('format')!r}")
    values = _exact_fields(
        Manifest, {name: value for name, value in fields_of_json.items() if name != "format"}
    )
    manifest = Manifest(
        **{
            **values,
            "run_ids": tuple(values["run_ids"]),
            "failures": tuple(Failure(**_exact_fields(Failure, failure)) for failure in values["failures"]),
            "slices": tuple((start, end) for start, end in values["slices"]),
            "stale": tuple((start, end) for start, end in values["stale"]),
        }
    )
    if manifest.outcome not in get_args(Outcome):
        raise ValueError(f"its outcome is {manifest.outcome!r}; known: {', '.join(get_args(Outcome))}")
    if manifest.verdict is not None and manifest.verdict not in get_args(Verdict):
        raise ValueError(f"its verdict is {manifest.verdict!r}; known: {', '.join(get_args(Verdict))}")
    if manifest.outcome == "staged" and (not manifest.run_id or manifest.verdict is None):
        raise ValueError("it says staged and names no run or no verdict")
    return manifest


def _exact_fields(kind: type[Manifest | Failure], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, whose keys must be exactly the fields of `kind`: more or fewer are the format of another
    version. Raises ValueError.
    """
    names = {field.name for field in fields(kind)}
    if set(values) != names:
        raise ValueError(
            f"{kind.__name__} has {sorted(set(values) - names)} too much and lacks "
            f"{sorted(names - set(values))}"
        )
    return dict(values)
