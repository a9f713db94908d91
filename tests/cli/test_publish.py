"""`slackwater publish` makes staged runs live completely and once, without Spark; runs that do not continue
main stay staged.
"""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from tests.cli.conftest import Hourly
from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published

pytestmark = pytest.mark.usefixtures("without_spark")


def stage(hourly: Hourly, to: str) -> list[str]:
    """Stage up to `to` without publishing; the run ids of the slices."""
    before = set(hourly.attempts())
    assert hourly.run_here("--to", to, "--no-publish") == 0
    return [run_id for run_id in hourly.attempts() if run_id not in before]


@pytest.mark.slow
def test_a_chain_of_slices_is_committed_in_one_delta_commit(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    chain = stage(hourly, "2013-01-04")
    version = DeltaTable(hourly.stored.uri("runs")).version()
    assert hourly.publish(chain[-1]) == 0
    assert new_output().count("published run") == 3
    assert DeltaTable(hourly.stored.uri("runs")).version() == version + 1
    assert [(row["seq"], row["parent_seq"], row["run_id"]) for row in hourly.stored.ledger()] == [
        (1, None, chain[0]),
        (2, 1, chain[1]),
        (3, 2, chain[2]),
    ]
    assert hourly.stored.ledger()[-1]["live"] == [{"first_seq": 1, "last_seq": 3}]
    assert {row["outcome"] for row in hourly.attempts().values()} == {"committed"}
    assert_as_model(hourly.stored, "2013-01-04")
    assert_corrections_make_published(hourly.stored)


@pytest.mark.slow
def test_without_a_run_the_newest_chain_that_continues_main_is_published(hourly: Hourly) -> None:
    stage(hourly, "2013-01-03")
    second = stage(hourly, "2013-01-03")
    assert hourly.publish() == 0
    assert [row["run_id"] for row in hourly.stored.ledger()] == second
    assert_as_model(hourly.stored, "2013-01-03")


def test_without_a_run_nothing_is_done_when_what_is_staged_does_not_continue_main(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    [stale] = stage(hourly, "2013-01-02")
    assert hourly.run_here("--to", "2013-01-03") == 0
    new_output()
    assert hourly.publish() == 0
    assert "nothing to publish; no staged run continues what is live" in new_output()
    assert [row["seq"] for row in hourly.stored.ledger()] == [1, 2]
    assert hourly.attempts()[stale]["outcome"] == "staged", "it did not take part in a race"
    assert_as_model(hourly.stored, "2013-01-03")


def test_without_a_run_a_staged_run_is_found_behind_newer_ones_that_do_not_continue_main(
    hourly: Hourly,
) -> None:
    first, second = stage(hourly, "2013-01-03")
    stage(hourly, "2013-01-03")
    assert hourly.publish(first) == 0
    assert hourly.publish() == 0
    assert [row["run_id"] for row in hourly.stored.ledger()] == [first, second]
    assert_as_model(hourly.stored, "2013-01-03")


@pytest.mark.slow
def test_a_chain_whose_main_has_moved_loses_and_changes_nothing(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    chain = stage(hourly, "2013-01-04")
    assert hourly.run_here("--to", "2013-01-02") == 0
    before = hourly.stored.ledger(), hourly.stored.rows("published")
    new_output()
    assert hourly.publish(chain[-1]) == 5
    assert "another run committed first: the head of main is 1, this run started from None" in new_output()
    assert (hourly.stored.ledger(), hourly.stored.rows("published")) == before
    standing = hourly.attempts()
    assert {(standing[run_id]["outcome"], standing[run_id]["exit_code"]) for run_id in chain} == {("lost", 5)}
    assert_as_model(hourly.stored, "2013-01-02")


def test_publishing_again_does_nothing(hourly: Hourly, new_output: Callable[[], str]) -> None:
    chain = stage(hourly, "2013-01-03")
    assert hourly.publish(chain[-1]) == 0
    versions = [
        DeltaTable(hourly.stored.uri(table)).version() for table in ("runs", "corrections", "published")
    ]
    new_output()
    for arguments in ([], [chain[-1]], [chain[0]]):
        assert hourly.publish(*arguments) == 0
        assert "nothing to publish" in new_output()
    assert [
        DeltaTable(hourly.stored.uri(table)).version() for table in ("runs", "corrections", "published")
    ] == versions


@pytest.mark.slow
def test_a_part_of_a_chain_may_be_published_first(hourly: Hourly) -> None:
    chain = stage(hourly, "2013-01-04")
    assert hourly.publish(chain[1]) == 0
    assert_as_model(hourly.stored, "2013-01-03")
    assert hourly.publish(chain[2]) == 0
    assert_as_model(hourly.stored, "2013-01-04")
    assert_corrections_make_published(hourly.stored)


def test_a_chain_with_a_rejected_slice_is_published_whole_or_not_at_all(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    """The first day passes, the second does not."""
    hourly.declare('expect.between("flights", max=24)')
    assert hourly.run_here("--to", "2013-01-03", "--no-publish") == 4
    first, second = hourly.attempts()
    assert hourly.publish(second) == 4
    assert f"run {second} was rejected by validation" in new_output() and hourly.stored.ledger() == []
    assert hourly.publish(second, "--accept", "seen") == 0
    assert [(row["run_id"], row["verdict"]) for row in hourly.stored.ledger()] == [
        (first, "passed"),
        (second, "accepted: seen"),
    ]
    assert_as_model(hourly.stored, "2013-01-03")


def test_a_run_that_is_unknown_or_never_got_so_far_is_told(
    hourly: Hourly, new_output: Callable[[], str]
) -> None:
    stage(hourly, "2013-01-02")
    assert hourly.publish("nothing") == 2
    assert "there is no run nothing; `slackwater runs hourly` lists the runs" in new_output()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.engine.columnar.ColumnarEngine.replay", None)
        with pytest.raises(TypeError):
            hourly.run_here("--to", "2013-01-02", "--no-publish")
    failed = list(hourly.attempts())[-1]
    new_output()
    assert hourly.publish(failed) == 2
    assert f"run {failed} is failed, not staged" in new_output()


@pytest.mark.parametrize("arguments", [("--accept", "seen"), ("run", "--accept", " ")])
def test_an_acceptance_takes_a_run_and_a_reason(
    hourly: Hourly, new_output: Callable[[], str], arguments: tuple[str, ...]
) -> None:
    stage(hourly, "2013-01-02")
    assert hourly.publish(*arguments) == 2
    assert "--accept takes the run that is accepted and a reason" in new_output()


def test_a_pipeline_that_never_ran_is_told(hourly: Hourly, new_output: Callable[[], str]) -> None:
    assert hourly.publish() == 2
    assert "hourly has never run" in new_output()
    assert here("publish", "arrivals", *hourly.where) == 2
    assert "no pipeline is called 'arrivals'" in new_output()
