"""A sample of the campaign of mishaps, and that it can fail."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.campaigns import faults
from tests.campaigns.faults import SURVIVED, Prepared, outcome_of
from tests.campaigns.mishap_kinds import KINDS, ON_A_CLUSTER, NotPossible, container, orphans
from tests.campaigns.mishaps import NOT_POSSIBLE, Campaign, Mishap
from tests.campaigns.watching import Reader
from tests.integration.driver import Plan

pytestmark = pytest.mark.slow
SAMPLE = ("a zombie wakes up", "few file handles", "disk full", "a small container")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("mishaps"), seed=5)


@pytest.fixture(scope="module")
def publish(campaign: Campaign) -> Prepared:
    """The verb that is prepared soonest."""
    return campaign.prepared("publish", "columnar")


def test_what_befalls_a_publish_is_survived(campaign: Campaign) -> None:
    verdicts = [campaign.judge(Mishap(kind, "publish", "columnar", 1)) for kind in SAMPLE]
    assert all(verdict.outcome in (SURVIVED, NOT_POSSIBLE) for verdict in verdicts), verdicts
    assert verdicts[0].outcome == SURVIVED


def test_the_kernel_kills_a_driver_in_too_small_a_container_or_the_trial_is_not_possible(
    campaign: Campaign, publish: Prepared
) -> None:
    def end_within(mib: int) -> int:
        with container(mib << 20) as cgroup:
            plan = Plan(cgroup=str(cgroup))
            return publish.run(publish.scenario.command, publish.copy(), plan).returncode

    try:
        ends = end_within(2), end_within(512)
    except NotPossible:
        assert campaign.judge(Mishap("a small container", "publish", "columnar", 2)).outcome == NOT_POSSIBLE
    else:
        assert ends == (-9, 0)


def test_every_kind_is_tried_on_each_verb_before_any_comes_twice(campaign: Campaign) -> None:
    mishaps = campaign.mishaps()
    of_a_round = len(KINDS) * len(faults.ENGINES) * 4
    assert {one.number for one in mishaps[:of_a_round]} == {1}
    assert {one.kind for one in mishaps} == {*KINDS, *ON_A_CLUSTER}
    assert len({one.name for one in mishaps}) == len(mishaps)


def test_a_reader_reports_rows_that_never_were_and_upkeep_a_file_that_nobody_names(
    publish: Prepared, tmp_path: Path
) -> None:
    warehouse = Path(shutil.copytree(publish.right, tmp_path / "warehouse"))
    reader = Reader(publish, warehouse)
    reader.look()
    assert reader.problems == [] and orphans(warehouse / "hourly") == []
    DeltaTable(publish.stored(warehouse).uri("published")).delete("origin = 'JFK'")
    stray = warehouse / "hourly" / "panes" / "stray.parquet"
    stray.write_bytes(b"")
    reader.look()
    assert [problem.split(":")[0] for problem in reader.problems] == ["half a state"] * 2
    assert outcome_of(reader.problems) == "half states"
    assert orphans(warehouse / "hourly") == ["panes/stray.parquet"]


def test_a_row_that_is_lost_is_reported_and_what_can_t_be_tried_is_no_success(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(prepared: Prepared, _: object) -> list[str]:
        lost = {**prepared.final_state, "published": prepared.final_state["published"] + Counter(["a row"])}
        monkeypatch.setattr(prepared, "final_state", lost)
        return faults.differences(prepared, prepared.right)

    def cannot(*_: object) -> list[str]:
        raise NotPossible("no disk")

    monkeypatch.setitem(KINDS, "lost", lose)
    monkeypatch.setitem(KINDS, "cannot", cannot)
    assert campaign.judge(Mishap("lost", "publish", "columnar", 1)).outcome == "rows lost"
    assert campaign.judge(Mishap("cannot", "publish", "columnar", 1)).outcome == NOT_POSSIBLE
