"""What happens to a person on call: a scheduler dies, tasks and runs are marked by hand, runs come together,
a DAG was paused, too much was missed, a pool has no slots, warnings want an answer, files break. Each time
every slice is run once, the published windows are those of the rows, and each changed day is announced once.

One story on one Airflow, told in the order of the file. Each scenario has a pipeline of its own.
"""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.airflow.conftest import POSTGRES, ROOT, Airflow, Task, await_, start
from tests.integration.airflow.orders import (
    DAY,
    MINUTE,
    MINUTES_FILE,
    ORDERS,
    ORDERS_FILE,
    SECOND,
    START,
    Order,
    OrdersPipeline,
    assert_once,
    load,
)
from tests.integration.airflow.planned_replays import bin_of_planned_replays
from tests.integration.command import start_driver
from tests.integration.driver import Plan
from tests.integration.stored import StoredTables

TASKS = ("replay", "validate", "publish", "announce", "conclude")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """With sources, pipelines, DAG files, and a command of which something may be planned."""
    with tempfile.TemporaryDirectory(prefix="slackwater-on-call-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # for the user postgres
        for part in ("pipelines", "plans"):
            (folder / part).mkdir()
        shutil.copytree(ROOT / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "pipelines" / "orders.py").write_text(ORDERS_FILE)
        bin_of_planned_replays(folder, folder / "plans")
        load(folder, "orders", ORDERS)
        yield folder


@pytest.fixture(scope="module")
def each_minute(folder: Path) -> OrdersPipeline:
    """The pipeline with a schedule of minutes; it begins some minutes ago. Its rows reach into the future."""
    first = datetime.now(UTC).replace(second=0, microsecond=0) - 3 * MINUTE
    rows = [Order("a", time, time, 1) for time in (first + step * 20 * SECOND for step in range(3 * 120))]
    load(folder, "minutes", rows)
    file = folder / "pipelines" / "minutes.py"
    file.write_text(MINUTES_FILE.format(start=first.isoformat()))
    return OrdersPipeline(StoredTables(folder / "warehouse", "each_minute"), rows, MINUTE)


@pytest.fixture(scope="module")
def airflow(folder: Path, each_minute: OrdersPipeline) -> Iterator[Airflow]:
    options = ["--postgres"] if POSTGRES else []
    for airflow in start(
        folder / "home",
        *options,
        AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
        SLACKWATER_WAREHOUSE=str(folder / "warehouse"),
        SLACKWATER_PIPELINES=str(folder / "pipelines"),
        SLACKWATER_SPARK_BIN=str(folder / "bin"),
        SLACKWATER_RETRY_MINUTES="0",
        SLACKWATER_RETRIES="8",
        # So that the story need not wait for minutes until Airflow looks after what is left behind.
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="5",
        AIRFLOW__SCHEDULER__PARSING_CLEANUP_INTERVAL="2",
        AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD="1",
    ):
        for dag in ("outage", "by_hand", "at_once", "backlog", "approval", "slackwater__health"):
            await_dag(airflow, dag)
            pause(airflow, dag, paused=False)
        yield airflow


def await_dag(airflow: Airflow, dag: str) -> None:
    await_(lambda: airflow.ask(f"dags/{dag}"), f"the DAG {dag}")


def pipeline_of(folder: Path, pipeline: str) -> OrdersPipeline:
    return OrdersPipeline(StoredTables(folder / "warehouse", pipeline))


def pause(airflow: Airflow, dag: str, *, paused: bool) -> None:
    airflow.ask(f"dags/{dag}", {"is_paused": paused}, "PATCH")


def trigger(airflow: Airflow, dag: str, day: int) -> str:
    """A run by hand up to the end of this day; gives its id."""
    conf = {"to": (START + day * DAY).isoformat()}
    run: str = airflow.ask(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
    return run


def clear(airflow: Airflow, dag: str, run: str, task: str) -> None:
    """As a person does: the task, and all behind it."""
    body = {"dag_run_id": run, "task_ids": [task], "include_downstream": True}
    airflow.ask(f"dags/{dag}/clearTaskInstances", {**body, "dry_run": False, "only_failed": False})


def mark_success(airflow: Airflow, dag: str, run: str, task: str) -> None:
    """Mark a task a success by hand."""
    airflow.ask(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}", {"new_state": "success"}, "PATCH")


def await_task(airflow: Airflow, dag: str, run: str, task: str, state: str) -> None:
    def is_so() -> bool | None:
        return airflow.tasks(dag, run)[task].state == state or None

    await_(is_so, f"{task} of {dag} to be {state}")


def states(airflow: Airflow, dag: str, run: str) -> dict[str, str | None]:
    return {name: task.state for name, task in airflow.tasks(dag, run).items()}


def command_line(airflow: Airflow, command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as it stands in a log, where Airflow's processes run."""
    return airflow.script("run", *shlex.split(command))


def stop_inside(folder: Path, pipeline: str, moment: str) -> Path:
    """Plans that the pipeline's next `slackwater run` waits at a moment for another driver. Gives the folder
    in which each leaves a file with its process id as the name.
    """
    meeting = Path(tempfile.mkdtemp(dir=folder))
    draft = folder / "plans" / "draft"
    draft.write_text(Plan(at=moment, meet=str(meeting)).text())
    draft.rename(folder / "plans" / f"{pipeline}.json")
    return meeting


def waiting_process(meeting: Path) -> int:
    return int(await_(lambda: next(meeting.iterdir(), None), "the command to come to its moment").name)


def is_gone(process: int) -> bool | None:
    return not Path(f"/proc/{process}").exists() or None


# --- a DAG that is paused while intervals pass: it goes on at the end of the file


def intervals(airflow: Airflow) -> list[tuple[datetime, datetime]]:
    """The data intervals of the scheduled runs, oldest first."""
    runs = airflow.ask("dags/each_minute/dagRuns?order_by=run_after")["dag_runs"]
    time = datetime.fromisoformat
    return [(time(run["data_interval_start"]), time(run["data_interval_end"])) for run in runs]


def test_a_scheduled_run_begins_where_the_pipeline_does(
    airflow: Airflow, each_minute: OrdersPipeline
) -> None:
    await_dag(airflow, "each_minute")
    pause(airflow, "each_minute", paused=False)
    run = await_(lambda: next(iter(airflow.runs("each_minute")), None), "a scheduled run")
    assert airflow.ended("each_minute", run) == "success", airflow.log("each_minute", run, "replay")
    pause(airflow, "each_minute", paused=True)
    assert each_minute.end >= intervals(airflow)[0][1]
    assert each_minute.published == each_minute.windows_of_rows(each_minute.end)


# --- the scheduler


def kill_and_start_again(airflow: Airflow, name: str) -> int:
    """Kills one of Airflow's processes, nothing that it has started, and starts it as it was started before.
    Gives the process id of the old one, which was the leader of its session.
    """
    run = airflow.home / "run"
    leader = int((run / f"{name}.pid").read_text())
    variables = Path(f"/proc/{leader}/environ").read_bytes().decode().split("\0")
    os.kill(leader, signal.SIGKILL)
    environment = dict(variable.split("=", 1) for variable in variables if variable)
    script = f". {ROOT}/infra/processes.sh; run={run} python={sys.executable} start {name} airflow {name}"
    subprocess.run(["bash", "-c", script], env=environment, check=True)
    airflow.leaders.add(int((run / f"{name}.pid").read_text()))
    return leader


def test_a_replay_outlives_its_scheduler_and_is_run_a_second_time_beside_itself(
    airflow: Airflow, folder: Path
) -> None:
    """The new scheduler takes the task for lost, and starts it while its first process still runs and holds
    the lease (apache/airflow#23520). Airflow ends that one when it next asks whether it may live.
    """
    meeting = stop_inside(folder, "outage", "before the panes are staged")
    run = trigger(airflow, "outage", 2)
    first_process = waiting_process(meeting)
    old_leader = kill_and_start_again(airflow, "scheduler")
    try:
        assert airflow.ended("outage", run) == "success", airflow.log("outage", run, "replay")
    finally:
        os.killpg(old_leader, signal.SIGKILL)  # the workers of the old one wait for ever
    assert is_gone(first_process)
    tasks = airflow.tasks("outage", run)
    assert tasks.pop("replay").tries > 1
    assert tasks == dict.fromkeys(TASKS[1:], Task("success", 1))
    assert_once(airflow, pipeline_of(folder, "outage"), START + 2 * DAY)


# --- a pool without slots, and marks set by hand


def give_slots(airflow: Airflow, slots: int) -> None:
    pool = {"name": "slackwater", "slots": slots, "description": "", "include_deferred": False}
    airflow.ask("pools/slackwater", pool, "PATCH")


def test_without_slots_a_replay_waits_and_nothing_fails(airflow: Airflow, folder: Path) -> None:
    give_slots(airflow, 0)
    run = trigger(airflow, "by_hand", 1)
    # Another run goes from its start to its end meanwhile: the scheduler has looked at the pool.
    health = airflow.ask("dags/slackwater__health/dagRuns", {"logical_date": None})["dag_run_id"]
    airflow.ended("slackwater__health", health)
    assert airflow.runs("by_hand") == {run: "running"}
    assert states(airflow, "by_hand", run) == {**dict.fromkeys(TASKS), "replay": "scheduled"}
    give_slots(airflow, 1)
    assert airflow.ended("by_hand", run) == "success"
    assert airflow.tasks("by_hand", run) == dict.fromkeys(TASKS, Task("success", 1))
    assert_once(airflow, pipeline_of(folder, "by_hand"), START + DAY)


def test_a_replay_marked_a_success_before_it_ran_publishes_nothing(airflow: Airflow, folder: Path) -> None:
    give_slots(airflow, 0)
    run = trigger(airflow, "by_hand", 2)
    await_task(airflow, "by_hand", run, "replay", "scheduled")
    mark_success(airflow, "by_hand", run, "replay")
    assert airflow.ended("by_hand", run) == "failed"
    assert airflow.tasks("by_hand", run)["validate"] == Task("failed", 1), "it is not tried again"
    assert "Clear the task `replay`" in airflow.log("by_hand", run, "validate")
    assert_once(airflow, pipeline_of(folder, "by_hand"), START + DAY)
    give_slots(airflow, 1)
    clear(airflow, "by_hand", run, "replay")
    assert airflow.ended("by_hand", run) == "success"
    assert_once(airflow, pipeline_of(folder, "by_hand"), START + 2 * DAY)


def test_a_run_marked_failed_ends_its_replay_and_the_next_run_makes_up_for_it(
    airflow: Airflow, folder: Path
) -> None:
    meeting = stop_inside(folder, "by_hand", "before the panes are staged")
    run = trigger(airflow, "by_hand", 3)
    process = waiting_process(meeting)
    airflow.ask(f"dags/by_hand/dagRuns/{run}", {"state": "failed"}, "PATCH")
    await_(lambda: is_gone(process), "the replay to end")
    assert states(airflow, "by_hand", run) == {**dict.fromkeys(TASKS, "skipped"), "replay": "failed"}
    assert_once(airflow, pipeline_of(folder, "by_hand"), START + 2 * DAY)
    later_run = trigger(airflow, "by_hand", 4)
    assert airflow.ended("by_hand", later_run) == "success"
    assert_once(airflow, pipeline_of(folder, "by_hand"), START + 4 * DAY)
    # Its last tasks are skipped, and other versions have made a success of that (apache/airflow#57061).
    assert airflow.runs("by_hand")[run] == "failed"


# --- several at once


def test_runs_of_one_pipeline_at_once_run_each_slice_once(airflow: Airflow, folder: Path) -> None:
    to = START + 2 * DAY
    meeting = stop_inside(folder, "at_once", "before the claim")
    runs = [trigger(airflow, "at_once", 2) for _ in range(2)]
    waiting_process(meeting)
    command = ("run", "at_once", "--to", to.isoformat(), "--warehouse", str(folder / "warehouse"))
    command += ("--pipelines", str(folder / "pipelines"))
    driver = start_driver(Plan(at="before the claim", meet=str(meeting)), *command)
    _, errors = driver.communicate(300)
    assert driver.poll() in (0, 5), errors
    assert [airflow.ended("at_once", run) for run in runs] == ["success"] * 2
    first_run, second_run = (airflow.ask(f"dags/at_once/dagRuns/{run}") for run in runs)
    first_end, second_start = map(datetime.fromisoformat, (first_run["end_date"], second_run["start_date"]))
    assert first_end <= second_start, "one run of a DAG at a time"
    assert_once(airflow, pipeline_of(folder, "at_once"), to)


# --- too much was missed


def test_more_slices_than_may_be_caught_up_are_refused_with_a_command_that_does_it(
    airflow: Airflow, folder: Path
) -> None:
    backlog = pipeline_of(folder, "backlog")
    run = trigger(airflow, "backlog", 4)
    assert airflow.ended("backlog", run) == "failed"
    assert airflow.tasks("backlog", run)["replay"] == Task("failed", 1), "it is not tried again"
    others = ["skipped", "skipped", "skipped", "upstream_failed"]
    assert list(states(airflow, "backlog", run).values())[1:] == others
    assert backlog.end == START
    log = airflow.log("backlog", run, "replay")
    assert "takes 4 slices, more than max_catch_up = 2" in log
    command_line(airflow, re.search(r"`(slackwater run backlog [^`]* --pipelines [^`]*)`", log)[1])  # type: ignore[index]
    assert backlog.end == START + 4 * DAY
    later_run = trigger(airflow, "backlog", 5)
    assert airflow.ended("backlog", later_run) == "success"
    assert_once(airflow, backlog, START + 5 * DAY)


# --- warnings that a person approves or rejects


def question(airflow: Airflow, run: str) -> dict[str, Any]:
    """What the person reads, once the task waits for an answer."""
    await_task(airflow, "approval", run, "validate", "awaiting_input")
    (details,) = airflow.ask(f"dags/approval/dagRuns/{run}/hitlDetails")["hitl_details"]
    return dict(details)


def answer(airflow: Airflow, run: str, choice: str) -> None:
    task = f"dags/approval/dagRuns/{run}/taskInstances/validate/-1/hitlDetails"
    airflow.ask(task, {"chosen_options": [choice], "params_input": {}}, "PATCH")


def answer_as_a_person(airflow: Airflow, run: str, choice: str) -> None:
    """Later than in the instant in which the task asks: once the scheduler has heard that it has stopped."""
    question(airflow, run)
    number = airflow.tasks("approval", run)["validate"].tries
    key = f"dag_id='approval', task_id='validate', run_id='{run}', try_number={number}"
    event = f"Received executor event with state success for task instance TaskInstanceKey({key}"
    log = airflow.home / "run" / "scheduler.log"
    await_(lambda: event in log.read_text() or None, "the scheduler to hear of the task")
    answer(airflow, run, choice)


def test_warnings_are_published_once_they_are_approved(airflow: Airflow, folder: Path) -> None:
    """An answer in the instant in which the task asks is lost: the scheduler takes the task's first end for
    that of its second process, and has it tried again (apache/airflow#72716). It asks again then.
    """
    approval = pipeline_of(folder, "approval")
    run = trigger(airflow, "approval", 1)
    request = question(airflow, run)
    assert request["subject"] == "Publish approval in spite of warnings?"
    assert "1 slice, 2024-01-01 to 2024-01-02: warned, " in request["body"]
    assert "rows 24  fired 3  refired 0  late 0  quarantined 0" in request["body"]
    panes = "shop a, 2024-01-01 06:00–12:00: 51; shop a, 2024-01-01 12:00–18:00: 87, 2 of 3 panes"
    assert f"warn: total <= 50 of total observed 15 … 87, e.g. {panes}" in request["body"]
    assert approval.end == START

    def is_approved() -> bool | None:
        task = airflow.tasks("approval", run)["validate"]
        if task.state == "awaiting_input":
            answer(airflow, run, "Approve")
        return task.state == "success" or None

    await_(is_approved, "the approval")
    assert airflow.ended("approval", run) == "success"
    tasks = airflow.tasks("approval", run)
    assert tasks.pop("validate").state == "success"
    assert tasks == dict.fromkeys(tasks, Task("success", 1))
    assert_once(airflow, approval, START + DAY)


@pytest.fixture(scope="module")
def rejected_run(airflow: Airflow) -> str:
    """A run over the second day, whose warnings a person rejects."""
    run = trigger(airflow, "approval", 2)
    answer_as_a_person(airflow, run, "Reject")
    assert airflow.ended("approval", run) == "failed"
    return run


def test_rejected_warnings_are_not_published(airflow: Airflow, folder: Path, rejected_run: str) -> None:
    tasks = airflow.tasks("approval", rejected_run)
    assert tasks["validate"] == Task("failed", 1), "it is not tried again"
    assert [tasks[name].state for name in TASKS[2:]] == ["skipped", "skipped", "upstream_failed"]
    log = airflow.log("approval", rejected_run, "validate")
    assert "has rejected it. To be asked again, clear this task" in log
    assert_once(airflow, pipeline_of(folder, "approval"), START + DAY)


def test_a_validation_marked_a_success_publishes_nothing(
    airflow: Airflow, folder: Path, rejected_run: str
) -> None:
    """Airflow then runs what could not begin, which is `conclude`, and nothing that was skipped."""
    mark_success(airflow, "approval", rejected_run, "validate")
    assert airflow.ended("approval", rejected_run) == "failed"
    assert states(airflow, "approval", rejected_run) == {
        **dict.fromkeys(("replay", "validate"), "success"),
        **dict.fromkeys(("publish", "announce"), "skipped"),
        "conclude": "failed",
    }
    log = airflow.log("approval", rejected_run, "conclude")
    assert "marked a success by hand" in log and (START + 2 * DAY).isoformat() in log
    assert_once(airflow, pipeline_of(folder, "approval"), START + DAY)


def test_an_approval_that_comes_after_another_run_changes_nothing(
    airflow: Airflow, folder: Path, rejected_run: str
) -> None:
    clear(airflow, "approval", rejected_run, "validate")
    question(airflow, rejected_run)
    command_line(airflow, f"slackwater run approval --to {(START + 2 * DAY).isoformat()}")
    answer_as_a_person(airflow, rejected_run, "Approve")
    assert airflow.ended("approval", rejected_run) == "failed"
    assert airflow.tasks("approval", rejected_run)["publish"].state == "failed"
    assert "clear the task `replay`" in airflow.log("approval", rejected_run, "publish")
    clear(airflow, "approval", rejected_run, "replay")
    assert airflow.ended("approval", rejected_run) == "success"
    assert_once(airflow, pipeline_of(folder, "approval"), START + 2 * DAY)


# --- files of pipelines come, break and go


def parse_again(folder: Path) -> None:
    """A DAG file that was touched is parsed at once."""
    for file in (folder / "dags").glob("*.py"):
        file.touch()


def dag_ids(airflow: Airflow) -> set[str]:
    return {dag["dag_id"] for dag in airflow.ask("dags")["dags"]}


def import_errors(airflow: Airflow) -> list[dict[str, Any]]:
    return list(airflow.ask("importErrors")["import_errors"])


def test_a_broken_file_is_named_and_takes_no_other_away(airflow: Airflow, folder: Path) -> None:
    before = dag_ids(airflow)
    broken_file = folder / "pipelines" / "broken.py"
    broken_file.write_text("def shops(:\n")
    parse_again(folder)
    (error,) = await_(lambda: import_errors(airflow) or None, "the import error")
    assert error["filename"] == "slackwater_errors.py"
    assert f"{broken_file}: SyntaxError" in error["stack_trace"]
    assert dag_ids(airflow) == before
    broken_file.unlink()
    parse_again(folder)
    await_(lambda: not import_errors(airflow) or None, "the import error to go")
    assert dag_ids(airflow) == before


def test_a_slow_file_and_its_end_take_no_other_away(airflow: Airflow, folder: Path) -> None:
    before = dag_ids(airflow)
    slow_file = folder / "pipelines" / "slow.py"
    slow_file.write_text(
        "import time\n\ntime.sleep(5)\n"
        + MINUTES_FILE.format(start="2024-01-01").replace("each_minute", "slow")
    )
    parse_again(folder)
    its_dags = {"slow", "slow__restate"}
    await_(lambda: dag_ids(airflow) & its_dags == its_dags or None, "the DAGs of the slow file")
    assert (dag_ids(airflow), import_errors(airflow)) == (before | its_dags, [])
    slow_file.unlink()
    parse_again(folder)
    await_(lambda: not dag_ids(airflow) & its_dags or None, "the DAGs of the file to go")
    assert (dag_ids(airflow), import_errors(airflow)) == (before, [])


# --- the paused DAG again


def test_a_dag_that_was_paused_makes_up_for_what_it_has_missed(
    airflow: Airflow, folder: Path, each_minute: OrdersPipeline
) -> None:
    earlier_runs = airflow.runs("each_minute").keys()
    end = intervals(airflow)[-1][1]
    await_(lambda: datetime.now(UTC) > end + 3 * MINUTE or None, "three intervals to pass")
    pause(airflow, "each_minute", paused=False)
    run = await_(
        lambda: next(iter(airflow.runs("each_minute").keys() - earlier_runs), None), "a scheduled run"
    )
    assert airflow.ended("each_minute", run) == "success", airflow.log("each_minute", run, "replay")
    # Without a schedule no further run begins.
    file = folder / "pipelines" / "minutes.py"
    file.write_text(file.read_text().replace('"* * * * *"', "None"))
    parse_again(folder)
    await_(
        lambda: airflow.ask("dags/each_minute/details")["timetable_summary"] is None or None,
        "the new schedule",
    )
    runs = list(airflow.runs("each_minute"))
    assert [airflow.ended("each_minute", run) for run in runs] == ["success"] * len(runs)
    bounds = intervals(airflow)
    assert any(before[1] < after[0] for before, after in itertools.pairwise(bounds)), "none was missed"
    assert_once(airflow, each_minute, bounds[-1][1])
