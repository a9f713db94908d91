"""One run in OpenLineage's sense: a verb on a pipeline, with a START event and an event of its end. Its job
is the verb on that pipeline.

Events are sent from a thread of its own, so that no run waits for a server while it works, nor for long when
it is done.
"""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    set_producer,
)
from openlineage.client.facet_v2 import (
    RunFacet,
    error_message_run,
    job_type_job,
    nominal_time_run,
    parent_run,
    processing_engine_run,
    test_run,
)
from openlineage.client.uuid import generate_new_uuid

from slackwater.errors import without_credentials
from slackwater.openlineage.datasets import Datasets
from slackwater.openlineage.results import VerbResults
from slackwater.pipelines.registry import product_version
from slackwater.runs.opened_pipeline import OpenedPipeline

# How long the end of a verb waits for events that have not been sent yet.
PATIENCE_S = 5.0


class Outbox:
    """Sends events in the order in which they are put into it.

    The client is made in the caller's thread: it sets variables of the process's environment, which other
    threads may be reading.

    Raises:
        Exception: the client's configuration is invalid; the client or a transport chooses the class.
    """

    def __init__(self) -> None:
        _show_console_events()
        self._client = OpenLineageClient()
        self._events: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._newest_error: str | None = None
        self._thread = threading.Thread(target=self._send_all, name="openlineage", daemon=True)
        self._thread.start()

    def put(self, event: RunEvent) -> None:
        self._events.put(event)

    def close(self) -> str | None:
        """Wait until all events are sent, PATIENCE_S at most. Returns why one was not sent, or None."""
        self._events.put(None)
        self._thread.join(PATIENCE_S)
        if self._newest_error is None and self._thread.is_alive():
            return f"no answer within {PATIENCE_S:g} s"
        return self._newest_error

    def _send_all(self) -> None:
        while (event := self._events.get()) is not None:
            self._attempt(partial(self._client.emit, event))
        self._attempt(partial(self._client.close, PATIENCE_S))

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - transports raise errors of any class
            self._newest_error = without_credentials(str(error) or type(error).__name__)


def _show_console_events() -> None:
    """Give the logger of the transport `console` a handler: a command line has none."""
    logger = logging.getLogger("openlineage.client.transport.console")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.setLevel(logging.INFO)
        logger.propagate = False


# The run that has started this process and the outermost run, as ``namespace/job/run id``. Airflow's macros
# `lineage_parent_id` and `lineage_root_parent_id` write them.
PARENT, ROOT_PARENT = "OPENLINEAGE_PARENT_ID", "OPENLINEAGE_ROOT_PARENT_ID"
_SEVERITIES = {"reject": "error", "warn": "warn"}
Warn = Callable[[str], object]


class ReportedRun:
    """A verb's run, whose START event has been sent.

    Args:
        opened_pipeline: its sources and tables are read only when the verb ends.
        warn: gets a line for each event that could not be sent in full.
        publishes: whether the verb changes what readers see, if all goes well.

    Raises:
        SlackwaterError: there is no such pipeline, as the verb itself will find.
        Exception: see `Outbox`.
    """

    def __init__(self, verb: str, opened_pipeline: OpenedPipeline, warn: Warn, *, publishes: bool) -> None:
        set_producer(f"urn:slackwater:{product_version()}")
        self._warn = warn
        self._publishes = publishes
        self._datasets = Datasets(opened_pipeline)
        parent = _parent_facet(warn)
        namespace = "default" if parent is None else parent.job.namespace
        job_type = job_type_job.JobTypeJobFacet("BATCH", "SLACKWATER", verb.upper())
        self._job = Job(
            namespace=os.environ.get("OPENLINEAGE_NAMESPACE") or namespace,
            name=f"slackwater.{opened_pipeline.name}.{verb}",
            facets={"jobType": job_type},
        )
        self._run_id = str(generate_new_uuid())
        self._run_facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=product_version(), name="slackwater", openlineageAdapterVersion=product_version()
            ),
            **({} if parent is None else {"parent": parent}),
        }
        self._outbox = Outbox()
        self._put(RunState.START, {}, *self._names())

    def end(self, results: VerbResults, error: BaseException | None) -> None:
        """Send its last event: COMPLETE; FAIL with the message of `error`; or ABORT if it was stopped."""
        facets = _facets_of(results)
        state = RunState.COMPLETE
        if error is not None:
            state = RunState.FAIL if isinstance(error, Exception) else RunState.ABORT
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=without_credentials(str(error) or type(error).__name__), programmingLanguage="PYTHON"
            )
        self._put(state, facets, *self._descriptions(results))
        reason = self._outbox.close()
        if reason is not None:
            self._warn(f"warning: OpenLineage: not every event of this run was sent: {reason}")

    def _names(self) -> tuple[list[InputDataset], list[OutputDataset]]:
        return self._datasets.inputs, self._datasets.outputs

    def _descriptions(self, results: VerbResults) -> tuple[list[InputDataset], list[OutputDataset]]:
        try:
            return self._datasets.describe(results.runs, results.publications)
        except Exception as error:  # noqa: BLE001 - the end is reported with names alone
            reason = without_credentials(str(error) or type(error).__name__)
            self._warn(f"warning: OpenLineage: versions and columns are not reported: {reason}")
            return self._names()

    def _put(
        self,
        state: RunState,
        facets: dict[str, RunFacet],
        inputs: list[InputDataset],
        outputs: list[OutputDataset],
    ) -> None:
        self._outbox.put(
            RunEvent(
                eventType=state,
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(self._run_id, {**self._run_facets, **facets}),
                job=self._job,
                inputs=inputs,
                outputs=outputs if self._publishes else [],
            )
        )


def _parent_facet(warn: Warn) -> parent_run.ParentRunFacet | None:
    """The run that has started this process; None if the environment names none."""
    text, root_text = os.environ.get(PARENT), os.environ.get(ROOT_PARENT)
    if not text:
        return None
    try:
        namespace, name, run_id = text.rsplit("/", 2)
        root = None
        if root_text:
            root_namespace, root_name, root_run_id = root_text.rsplit("/", 2)
            root = parent_run.Root(
                run=parent_run.RootRun(root_run_id),
                job=parent_run.RootJob(namespace=root_namespace, name=root_name),
            )
        return parent_run.ParentRunFacet(
            run=parent_run.Run(run_id), job=parent_run.Job(namespace=namespace, name=name), root=root
        )
    except ValueError:
        warn(
            f"warning: OpenLineage: {PARENT} is {text!r} and {ROOT_PARENT} {root_text!r}; they are written "
            "NAMESPACE/JOB/RUN_ID. The run is reported without a parent."
        )
        return None


def _facets_of(results: VerbResults) -> dict[str, RunFacet]:
    """The range of arrivals, and the checks that may keep a run from being published."""
    facets: dict[str, RunFacet] = {}
    rows = results.runs or results.publications
    starts = [row.slice_start for row in rows if row.slice_start is not None]
    ends = [row.slice_end for row in rows if row.slice_end is not None]
    if starts and ends:
        facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(
            nominalStartTime=min(starts).isoformat(), nominalEndTime=max(ends).isoformat()
        )
    executions: dict[tuple[str, str | None], test_run.TestExecution] = {}
    for check in results.checks:
        name = (check.expectation, check.column_name)
        if check.severity not in _SEVERITIES or (name in executions and executions[name].status == "fail"):
            continue
        executions[name] = test_run.TestExecution(
            name=check.expectation,
            status="pass" if check.passed else "fail",
            severity=_SEVERITIES[check.severity],
            actual=check.observed,
            params={} if check.column_name is None else {"column": check.column_name},
        )
    if executions:
        facets["test"] = test_run.TestRunFacet(tests=list(executions.values()))
    return facets
