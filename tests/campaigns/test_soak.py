"""Some days of the simulated year, and that what is uneven, lost or doubled is reported."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.campaigns.soak import EARLY, NAMES, QUARTER, DayFacts, Year, by_month, unevenness

pytestmark = pytest.mark.slow


def test_days_with_kills_upkeep_and_a_second_call_leave_what_one_run_leaves(tmp_path: Path) -> None:
    year = Year(tmp_path, seed=3, killed=0.5)
    assert [one.day for one in year.go_on(3)] == [1, 2, 3]
    year.close()
    year = Year(tmp_path, seed=3, killed=0.5)
    assert [one.day for one in year.go_on(7)] == [4, 5, 6, 7]
    assert sum(one.kills for one in year.days) > 1
    assert year.problems() == []
    assert [row["days"] for row in by_month(year.days)] == ["1–7"] * 2
    DeltaTable(str(tmp_path / "warehouse" / "departures" / "published")).delete("origin = 'JFK'")
    lost = [problem for problem in year.problems() if "rows lost" in problem]
    assert len(lost) == 1 and lost[0].startswith("departures: ") and lost[0].endswith(" 0 rows too much")
    year.close()


def test_what_grows_is_reported() -> None:
    def day(number: int) -> DayFacts:
        flat = dict.fromkeys(NAMES, 1.0)
        files = {name: {"panes": 5, "published": number} for name in NAMES}
        windows = {"departures": 7, "turnarounds": number}
        return DayFacts(number, cpu_s=flat, windows=windows, files=files, disk_mb=flat)

    days = [day(number) for number in range(1, EARLY + 2 * QUARTER + 1)]
    assert unevenness(days) == ["turnarounds: windows parked went from 135.00 to 227.00"]
