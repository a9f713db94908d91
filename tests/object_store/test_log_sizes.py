"""How many bytes the logs of tables take in an object store."""

import pytest

from tests.campaigns.quarter_hours import Month, excesses
from tests.object_store.conftest import Store
from tests.object_store.server import BUCKET


@pytest.mark.timeout(900)
def test_the_logs_take_no_more_for_each_of_many_runs_than_for_each_of_few(in_store: Store) -> None:
    month = Month(f"s3://{BUCKET}/quarters", in_store.folder / "quarters")
    month.load(192)
    one_day, two_days = month.go_on(192)
    assert excesses(one_day) + excesses(two_days) == []
    assert two_days.of_attempts < 1.1 * one_day.of_attempts
    assert two_days.of_all < 1.1 * one_day.of_all
