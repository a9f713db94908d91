"""How each ending of a run is told to the task that follows: a manifest, or none where another try may end
otherwise.

The runs are real, on two days of the example, in this process; only endings that need another machine or a
fault are raised by hand.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from slackwater.args import Manifest, ManifestError, read_manifest
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import LostRaceError, PermanentError, RetryableError, SlackwaterError, UsageError
from slackwater.examples import find_example
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runs.outcome import report_to
from slackwater.runs.staging.run import Runner, wall_clock
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.warehouse import Warehouse
from tests.tables.ledger.ledger_rows import day

# Great Expectations imports modules of Python's that are on their way out.
pytestmark = pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning")

# The example, and a twin of which at least one hour has less than the flights that it expects.
TWIN = """
import slackwater.examples.departures as example
from dataclasses import replace
from slackwater.pipelines import expect

expected = expect.between("flights", min={least}, severity="{severity}")
departures_twin = replace(example.departures, name="departures_twin", expect=[expected])
"""
UP_TO = {number: int(day(number).timestamp() * 1000) for number in range(1, 100)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with what arrived on the first two days. No test writes more than the tables of a pipeline
    of its own into it.
    """
    folder = tmp_path_factory.mktemp("warehouse")
    find_example("departures").load(str(folder), day(0), day(2))
    return folder


@pytest.fixture
def warehouse(source: Path, tmp_path: Path) -> Path:
    (tmp_path / "sources").symlink_to(source / "sources")
    return tmp_path


def ended(warehouse: Path, to_ms: int, pipeline: str = "departures", file: Path | None = None) -> Manifest:
    """What `run PIPELINE --to … --no-publish --manifest …` leaves."""
    request = CatchUpRequest(pipeline, to_ms, publish=False)
    opened = OpenedPipeline(pipeline, str(warehouse), str(file) if file else None)
    work = CatchUp(request, lambda: opened.runner(transport=InProcess), lines=lambda line: None)
    with report_to(warehouse / "manifest.json", work):
        work.run()
    return read_manifest(warehouse / "manifest.json")


def twin(warehouse: Path, least: int, severity: str) -> Path:
    file = warehouse / "twin.py"
    file.write_text(TWIN.format(least=least, severity=severity))
    return file


def test_staged_slices_are_named_in_order_and_the_last_one_publishes_them_all(warehouse: Path) -> None:
    staged = ended(warehouse, UP_TO[2])
    assert (staged.outcome, staged.exit_code, staged.verdict, staged.message) == (
        "staged",
        0,
        "passed",
        "2 slices staged",
    )
    assert staged.slices == tuple((day(number).isoformat(), day(number + 1).isoformat()) for number in (0, 1))
    assert staged.run_id == staged.run_ids[-1]
    assert (
        tuple(
            row.run_id
            for row in OpenedPipeline("departures", str(warehouse)).publisher().publish(staged.run_id)
        )
        == staged.run_ids
    )
    covered = ended(warehouse, UP_TO[2])
    assert (covered.outcome, covered.exit_code, covered.run_id, covered.run_ids, covered.verdict) == (
        "nothing",
        0,
        None,
        (),
        None,
    )
    assert covered.message == "nothing to do: the lineage covers everything up to 2013-01-03T00:00:00Z"


def test_a_warning_is_staged_with_what_was_observed(warehouse: Path) -> None:
    staged = ended(warehouse, UP_TO[1], "departures_twin", twin(warehouse, 20, "warn"))
    assert (staged.outcome, staged.exit_code, staged.verdict, staged.message) == (
        "staged",
        0,
        "warned",
        "1 slice staged",
    )
    (failure,) = staged.failures
    assert (failure.run_id, failure.column_name, failure.severity) == (staged.run_id, "flights", "warn")
    assert failure.unexpected and failure.checked and failure.unexpected < failure.checked


def test_a_rejected_slice_is_told_with_its_values_and_ends_the_run(warehouse: Path) -> None:
    rejected = ended(warehouse, UP_TO[2], "departures_twin", twin(warehouse, 20, "reject"))
    assert (rejected.outcome, rejected.exit_code, rejected.verdict) == ("rejected", 4, "failed")
    assert [failure.severity for failure in rejected.failures] == ["reject"]
    assert len(rejected.run_ids) == 1, "nothing is staged on a rejected slice"
    assert f"publish departures_twin {rejected.run_id} --accept" in rejected.message


@pytest.mark.parametrize(
    ("pipeline", "to_ms", "file", "said"),
    [
        ("departures", UP_TO[50], None, "takes 50 slices, more than max_catch_up = 40"),
        ("arrivals", UP_TO[1], None, "no pipeline is called 'arrivals'; registered: departures"),
        ("departures", UP_TO[1], "missing.py", "there is no such file"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(
    warehouse: Path, pipeline: str, to_ms: int, file: str | None, said: str
) -> None:
    refused = ended(warehouse, to_ms, pipeline, warehouse / file if file else None)
    assert (refused.outcome, refused.exit_code, refused.run_id, refused.verdict) == ("refused", 2, None, None)
    assert said in refused.message


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    refused = ended(tmp_path, UP_TO[1])
    assert (refused.outcome, refused.exit_code) == ("refused", 2)
    assert "there is no Delta table at" in refused.message and "examples load" in refused.message


def test_a_living_lease_asks_for_another_try_and_leaves_no_manifest(warehouse: Path) -> None:
    ended(warehouse, UP_TO[1])
    attempts = AttemptsWriter(Warehouse.at(str(warehouse)).stored_tables("departures")["attempts"])
    other = Attempt(run_id="other", parent_seq=None, slice_start=day(0), slice_end=day(1), at=wall_clock())
    claimed = attempts.claim(other, wall_clock)
    assert claimed is not None
    with pytest.raises(RetryableError, match="another run is alive") as caught:
        ended(warehouse, UP_TO[2])
    assert caught.value.exit_code == 3
    assert not (warehouse / "manifest.json").exists(), "that of the try before must not be read as this one's"
    attempts.record(claimed, wall_clock(), outcome="failed")
    assert ended(warehouse, UP_TO[2]).outcome == "staged"


def failing(error: Exception) -> Callable[[], Runner]:
    def make() -> Runner:
        raise error

    return make


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PermanentError("no Java was found"), "failed"),
        (UsageError("a gap"), "refused"),
        (LostRaceError("the head has moved"), "lost"),
    ],
)
def test_an_end_that_another_try_would_meet_again_is_told(
    tmp_path: Path, error: SlackwaterError, outcome: str
) -> None:
    work = CatchUp(CatchUpRequest("departures", UP_TO[1]), failing(error))
    with report_to(tmp_path / "m.json", work):
        work.run()
    told = read_manifest(tmp_path / "m.json")
    assert (told.outcome, told.exit_code, told.message) == (outcome, error.exit_code, error.message)


@pytest.mark.parametrize(
    "error", [RetryableError("not settled"), RuntimeError("the JVM is gone"), KeyboardInterrupt()]
)
def test_an_end_that_another_try_may_not_meet_leaves_no_manifest(tmp_path: Path, error: Exception) -> None:
    file = tmp_path / "m.json"
    file.write_text("of an earlier try")
    work = CatchUp(CatchUpRequest("departures", UP_TO[1]), failing(error))
    with pytest.raises(type(error)), report_to(file, work):
        work.run()
    with pytest.raises(ManifestError):
        read_manifest(file)


def test_a_slice_that_has_not_settled_is_tried_again(warehouse: Path) -> None:
    ended(warehouse, UP_TO[1])
    soon = int((wall_clock() + timedelta(hours=1)).timestamp() * 1000)
    request = CatchUpRequest("departures", soon, from_ms=UP_TO[2], publish=False, start_ms=UP_TO[2])
    opened = OpenedPipeline("departures", str(warehouse))
    work = CatchUp(request, lambda: opened.runner(transport=InProcess), lines=lambda line: None)
    with pytest.raises(RetryableError, match="settles at"), report_to(warehouse / "manifest.json", work):
        work.run()
    assert not (warehouse / "manifest.json").exists()
