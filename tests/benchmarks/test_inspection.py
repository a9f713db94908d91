"""Every verb and every page of the benchmark answers on a small year."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.inspection import main, pages, verbs
from tests.benchmarks.year_of_runs import YearOfRuns


@pytest.mark.slow
def test_every_verb_and_page_answers_and_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--warehouse", str(tmp_path / "year"), "--shops", "40", "--days", "12")
    main([*where, "--output", "json"])
    costs = json.loads(capsys.readouterr().out)
    year = YearOfRuns(tmp_path / "year", shops=40, days=12)
    assert [cost["name"] for cost in costs["verbs"]] == list(verbs(year))
    assert [cost["name"] for cost in costs["pages"]] == list(pages(year))
    for cost in (*costs["verbs"], *costs["pages"]):
        assert cost["seconds"] > 0 and cost["memory_mb"] > 0 and cost["read_mb"] > 0, cost
