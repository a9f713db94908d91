"""Asks all questions about a pipeline, or about each of a warehouse, and puts the answers together."""

from collections.abc import Iterable, Mapping
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

TABLES = "tables"
# What is asked of every pipeline, in this order; `tables` only where they can't be read.
QUESTIONS: Mapping[str, str] = {
    TABLES: "can the pipeline's tables be read?",
    runs.ATTEMPTS: "was a run rejected, did one fail, was one left unfinished, were all rows quarantined?",
    runs.SCHEDULE: "has the lineage come as far as the schedule asks for?",
    stored.PUBLISHED: "does `published` show what the ledger has?",
    series.WATERMARK: "how far is the watermark behind the last slice's end?",
    source.SOURCE: "do rows still arrive in the source?",
    source.PARTITIONS: "are source partitions silent?",
    series.LATE_ROWS: "did more rows come too late than usual?",
    series.STATE: "is open state growing faster than the input?",
    stored.SINKS: "do corrections wait for a sink?",
    stragglers.STRAGGLERS: "have rows appeared in slices that were run before?",
    stored.SNAPSHOTS: "is upkeep of the snapshots due?",
}
# How many of the last runs are looked at.
RUNS = 90


@dataclass(frozen=True, kw_only=True)
class PipelineHealth:
    """The answers to each question and the last runs' figures in slice order; some need a declaration."""

    pipeline: str
    is_registered: bool
    findings: tuple[Finding, ...]
    series: tuple[RunFigures, ...] = ()

    @property
    def colour(self) -> Colour:
        return worst([finding.colour for finding in self.findings if finding.colour is not None])

    @property
    def reasons(self) -> list[Finding]:
        reasons = [finding for finding in self.findings if finding.colour not in (None, Colour.GREEN)]
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
        findings = _findings(subject)
    except NoRuns:
        if declaration is None:
            raise
        finding = Finding(runs.SCHEDULE, _colour_of_absence(declaration, now), "it has never run here")
        return PipelineHealth(pipeline=pipeline, is_registered=is_registered, findings=(finding,))
    except SlackwaterError as error:
        message = explain_damage(error) if isinstance(error, DamagedFile) else error.message
        finding = Finding(TABLES, Colour.RED, f"it can't be read: {plain_text(message)}")
        return PipelineHealth(pipeline=pipeline, is_registered=is_registered, findings=(finding,))
    return PipelineHealth(
        pipeline=pipeline, is_registered=is_registered, findings=findings, series=subject.series
    )


def _colour_of_absence(declaration: Pipeline, now: datetime) -> Colour:
    """A pipeline that has a schedule and has never run is yellow once its lineage should have begun."""
    assert isinstance(declaration.start, datetime)
    has_begun = declaration.start + declaration.slice + declaration.settle <= now
    return Colour.YELLOW if declaration.schedule is not None and has_begun else Colour.GREEN


def warehouse_health(
    declarations: Mapping[str, Pipeline],
    warehouse: Warehouse,
    now: datetime,
    names: Iterable[str] | None = None,
) -> list[PipelineHealth]:
    """How each of `names` is; None: each pipeline with tables in the warehouse."""
    healths = []
    for name in names_in(warehouse) if names is None else names:
        try:
            healths.append(pipeline_health(name, declarations.get(name), warehouse, now))
        except NoRuns:
            finding = Finding(TABLES, Colour.RED, "its ledger has no rows, and it is not registered here")
            healths.append(PipelineHealth(pipeline=name, is_registered=False, findings=(finding,)))
    return healths


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


def _findings(subject: Subject) -> tuple[Finding, ...]:
    logs = None if subject.declaration is None else SourceLogs(subject)
    findings = (
        runs.judge_attempts(subject),
        runs.judge_schedule(subject),
        stored.judge_published(subject),
        series.judge_watermark(subject),
        source.judge_source(subject, logs),
        source.judge_partitions(subject),
        series.judge_late_rows(subject),
        series.judge_state(subject),
        stored.judge_sinks(subject),
        stragglers.judge_stragglers(subject, logs),
        stored.judge_snapshots(subject),
    )
    return findings
