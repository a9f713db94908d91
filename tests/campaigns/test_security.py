"""A sample of the campaign of attacks, and that it can fail."""

from pathlib import Path

import pytest

from tests.campaigns.security import SECRET, Bench, Seen, Verdict, leaks, run

pytestmark = pytest.mark.slow


def test_secrets_do_not_show_and_nothing_listens_for_others(tmp_path: Path) -> None:
    trials = ["secret of spark", "secret of a sink", "listeners"]
    assert list(run(tmp_path / "work", trials)) == [Verdict(trial, []) for trial in trials]


def test_a_secret_that_shows_is_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "work")
    (bench.warehouse / "hourly").mkdir(parents=True)
    (bench.warehouse / "hourly" / "log.json").write_text(f'{{"key": "{SECRET}"}}')
    problems = leaks(bench, Seen(0, f"error: {SECRET} was refused", {f"java --conf key={SECRET}"}))
    assert problems == [
        "the secret stands in warehouse/hourly/log.json",
        f"the secret is printed: error: {SECRET} was refused",
        f"the secret is an argument: java --conf key={SECRET}",
    ]
