"""Asks all questions about a pipeline, or about each of a warehouse, and puts the answers together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.fs as pafs

from slackwater.errors import SlackwaterError
from slackwater.inspection.health import runs, series, source, stored, stragglers
from slackwater.inspection.health.findings import Colour, Finding, Subject, worst
from slackwater.inspection.health.source import SourceLogs
from slackwater.inspection.runs.run_series import RunFigures, figures_of, snapshot_bytes
from slackwater.pipelines import Pipeline
from slackwater.readable import plain_text
from slackwater.tables.damaged_tables import explain_damage
from slackwater.tables.errors import DamagedFile, NoRuns, NoWarehouse
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.ledger.spans import seqs_of, spans_of
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import VARIABLE, Tables, Warehouse

# The names of the questions, in the order in which they are asked; `tables` only where they can't be read.
QUESTIONS: Mapping[str, str] = {
    "tables": "can the pipeline's tables be read?",
    "runs": "was a run rejected, did one fail, was one left unfinished, were all rows quarantined?",
    "schedule": "has the lineage come as far as the schedule asks for?",
    "published": "does `published` show what the ledger has?",
    "watermark": "how far is the watermark behind the last slice's end?",
    "source": "do rows still arrive in the source?",
    "source_partitions": "are source partitions silent?",
    "late_rows": "did more rows come too late than usual?",
    "state": "is open state growing faster than the input?",
    "sinks": "do corrections wait for a sink?",
    "stragglers": "have rows appeared in slices that were run before?",
    "snapshots": "is upkeep of the snapshots due?",
}
# How many of the last runs are looked at.
RUNS = 90


@dataclass(frozen=True)
class PipelineHealth:
    """The answers by question and the last runs' figures in slice order; some answers need a declaration."""

    pipeline: str
    is_registered: bool
    findings: Mapping[str, Finding]
    series: tuple[RunFigures, ...] = ()

    @property
    def colour(self) -> Colour:
        return worst(finding.colour for finding in self.findings.values())

    @property
    def reasons(self) -> list[Finding]:
        reasons = (one for one in self.findings.values() if one.colour not in (None, Colour.GREEN))
        return sorted(reasons, key=lambda finding: finding.rank, reverse=True)

    @property
    def newest_run(self) -> RunFigures | None:
        return self.series[-1] if self.series else None

    @property
    def head(self) -> datetime | None:
        return None if self.newest_run is None else self.newest_run.slice_end

    @property
    def watermark_lag(self) -> timedelta | None:
        return None if self.newest_run is None else self.newest_run.watermark_lag


def pipeline_health(
    pipeline: str,
    declaration: Pipeline | None,
    warehouse: Warehouse,
    now: datetime,
    tables: Tables | None = None,
) -> PipelineHealth:
    """How a pipeline is at the moment `now` of the wall clock; `tables` where they are open already. Raises
    NoRuns: it is neither registered nor in the warehouse.
    """
    is_registered = declaration is not None
    try:
        sides = () if declaration is None else declaration.side_columns
        stored_tables = warehouse.stored_tables(pipeline, sides) if tables is None else tables
        subject = _subject(pipeline, declaration, warehouse, stored_tables, now)
        return PipelineHealth(pipeline, is_registered, _findings(subject), subject.series)
    except NoRuns:
        if declaration is None:
            raise
        findings = {"schedule": Finding(_colour_of_absence(declaration, now), "it has never run here")}
    except SlackwaterError as error:
        message = explain_damage(error) if isinstance(error, DamagedFile) else error.message
        findings = {"tables": Finding(Colour.RED, f"it can't be read: {plain_text(message)}")}
    return PipelineHealth(pipeline, is_registered, findings)


def _colour_of_absence(declaration: Pipeline, now: datetime) -> Colour:
    """A pipeline that has a schedule and has never run is yellow once its lineage should have begun."""
    assert isinstance(declaration.start, datetime)
    has_begun = declaration.start + declaration.slice + declaration.settle <= now
    return Colour.YELLOW if declaration.schedule is not None and has_begun else Colour.GREEN


def warehouse_health(
    declarations: Mapping[str, Pipeline], warehouse: Warehouse, now: datetime, names: Iterable[str]
) -> Iterator[PipelineHealth]:
    for name in names:
        try:
            yield pipeline_health(name, declarations.get(name), warehouse, now)
        except NoRuns:
            finding = Finding(Colour.RED, "its ledger has no rows, and it is not registered here")
            yield PipelineHealth(name, is_registered=False, findings={"tables": finding})


def refuse_missing(warehouse: Warehouse) -> None:
    """Raise NoWarehouse for a warehouse whose folder on this machine does not exist."""
    if "://" not in warehouse.root and not Path(warehouse.root).is_dir():
        raise NoWarehouse(
            f"there is no folder {warehouse.root}, so no pipeline has run in it. Name the warehouse with "
            f"--warehouse or {VARIABLE}; the first `slackwater run` makes a new one.",
            uri=warehouse.root,
        )


def names_in(warehouse: Warehouse) -> list[str]:
    root = filesystem(warehouse.root)
    return sorted(name for name in _folders_in(root, "") if "_delta_log" in _folders_in(root, f"{name}/runs"))


def _folders_in(root: pafs.FileSystem, folder: str) -> list[str]:
    """The names of the folders in a folder. An object store has none of its own, but lists them."""
    infos = root.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    return [info.base_name for info in infos if info.type == pafs.FileType.Directory]


def _subject(
    pipeline: str, declaration: Pipeline | None, warehouse: Warehouse, tables: Tables, now: datetime
) -> Subject:
    head = tables.ledger.head()
    live: tuple[LedgerRow, ...] = ()
    if head is not None:
        last_seqs = spans_of(seqs_of(head.live)[-RUNS:])
        live = tuple(tables.ledger.live_runs(replace(head, live=last_seqs)))
    return Subject(
        pipeline=pipeline,
        declaration=declaration,
        warehouse=warehouse,
        tables=tables,
        head=head,
        runs=live,
        series=figures_of(live, snapshot_bytes(tables)),
        now=now,
    )


def _findings(subject: Subject) -> dict[str, Finding]:
    logs = None if subject.declaration is None else SourceLogs(subject, subject.declaration)
    return {
        "runs": runs.judge_attempts(subject),
        "schedule": runs.judge_schedule(subject),
        "published": stored.judge_published(subject),
        "watermark": series.judge_watermark(subject),
        "source": source.judge_source(subject, logs),
        "source_partitions": source.judge_partitions(subject),
        "late_rows": series.judge_late_rows(subject),
        "state": series.judge_state(subject),
        "sinks": stored.judge_sinks(subject),
        "stragglers": stragglers.judge_stragglers(subject, logs),
        "snapshots": stored.judge_snapshots(subject),
    }
