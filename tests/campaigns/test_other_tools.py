"""What other tools do to tables of ours is borne, or refused by name before a replay, and its cure works. A
sample of the campaign of other tools, and that it can fail.
"""

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from slackwater.tables.errors import ForeignFeature
from slackwater.tables.warehouse import Warehouse
from tests.campaigns.foreign_changes import CHANGES, FEATURES, delete_one_file, of_spark
from tests.campaigns.other_tools import BAD, GOOD, PIPELINE, TABLES, Prepared, call, judge, place_of, trials
from tests.campaigns.other_tools import run as run_campaign

_BORNE = {"change data feed"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("other-tools"))


@pytest.mark.parametrize(
    ("table", "change", "outcome"),
    [
        ("published", "deletion vectors", "refused"),
        ("runs", "row tracking", "refused"),
        ("runs", "no statistics", "equal"),
        ("overrides", "a row of nulls", "refused"),
        ("window_state", "written anew without partitions", "refused"),
    ],
)
def test_a_change_of_others_is_borne_or_refused_before_a_replay_and_its_cure_works(
    prepared: Prepared, table: str, change: str, outcome: str
) -> None:
    verdict = judge(prepared, table, change, CHANGES[change])
    assert verdict.outcome == outcome, verdict.details


def test_tables_with_a_feature_that_is_not_borne_are_not_opened(prepared: Prepared) -> None:
    warehouse = prepared.copy()
    for number, table in enumerate(TABLES):
        feature = sorted(FEATURES.keys() - _BORNE)[number % (len(FEATURES) - 1)]
        FEATURES[feature](place_of(warehouse, table))
        with pytest.raises(ForeignFeature, match=f"/{table}: .*`slackwater publish {PIPELINE} --rebuild`"):
            Warehouse.at(str(warehouse)).stored_tables(PIPELINE)
        log = place_of(warehouse, table) / "_delta_log"
        max(log.glob("*.json")).unlink()


def test_every_verb_notices_rows_that_somebody_has_taken_out_of_published(prepared: Prepared) -> None:
    warehouse = prepared.copy()
    delete_one_file(place_of(warehouse, "published"))
    for verb in (
        ("plan", PIPELINE),
        ("publish", PIPELINE),
        ("maintain", PIPELINE),
        ("backfill", PIPELINE, "--from", "2024-03-01", "--to", "2024-03-01T12:00"),
        ("sql", PIPELINE, "SELECT 1"),
        ("state", "windows", PIPELINE),
        ("runs", PIPELINE),
        ("late", "list", PIPELINE),
        ("health", PIPELINE),
    ):
        done = call(warehouse, *verb)
        assert done.code in (1, 2) and "published (version" in done.text, (verb, done)
    done = call(warehouse, "verify", PIPELINE, "--tables")
    assert done.code == 1 and "commits of others" in done.text, done


def test_published_is_rebuilt_where_the_files_that_others_have_deleted_are_gone(prepared: Prepared) -> None:
    warehouse = prepared.copy()
    published = place_of(warehouse, "published")
    delete_one_file(published)
    DeltaTable(published).vacuum(0, dry_run=False, enforce_retention_duration=False)
    rebuilt = call(warehouse, "publish", PIPELINE, "--rebuild")
    assert rebuilt.code == 0 and "1 of its files are gone from storage" in rebuilt.text, rebuilt
    assert call(warehouse, "verify", PIPELINE, "--tables").code == 0
    answer = call(warehouse, "sql", PIPELINE, "SELECT * FROM published ORDER BY ALL", "--output", "json")
    assert answer.stdout == prepared.answer


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_borne_or_refused_and_cured_in_every_table(prepared: Prepared, change: str) -> None:
    tables = [table for table, name in trials({change: CHANGES[change]}, seed=1) if name == change]
    verdicts = [judge(prepared, table, change, CHANGES[change]) for table in tables]
    assert [verdict for verdict in verdicts if verdict.outcome not in GOOD] == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("table", ["published", "runs", "window_state"])
def test_what_spark_does_is_borne_or_refused_and_cured(prepared: Prepared, table: str) -> None:
    from slackwater.runtime.session import session

    verdicts = [
        judge(prepared, table, f"Spark: {name}", change)
        for name, change in of_spark(session("other tools")).items()
    ]
    assert [verdict for verdict in verdicts if verdict.outcome in BAD] == []
    assert Counter(verdict.outcome for verdict in verdicts)["refused"] > 5


@pytest.mark.slow
def test_trials_are_not_done_twice_and_a_lost_row_is_reported(prepared: Prepared, tmp_path: Path) -> None:
    changes = {"VACUUM 0": CHANGES["VACUUM 0"]}
    [first] = run_campaign(tmp_path, changes, seed=3, at_most=1)
    [second] = run_campaign(tmp_path, changes, seed=3, at_most=1)
    assert first.outcome == second.outcome == "equal" and first.trial != second.trial
    wrong = Prepared(tmp_path / "wrong")
    wrong.final_state = {**wrong.final_state, "published": Counter(['{"k": "of nobody"}'])}
    assert judge(wrong, "panes", "VACUUM 0", CHANGES["VACUUM 0"]).outcome == "silently wrong"
