"""A column that looks as if it were read wrongly gives its run the verdict `warned` and a likely
mistake."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.own_source import OwnPipeline, every_hour, moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def own_pipeline(tmp_path: Path) -> OwnPipeline:
    return OwnPipeline(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
def test_a_session_gap_that_no_table_can_hold_is_a_fault_of_its_function(
    own_pipeline: OwnPipeline, on_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline.declare(
        "window=EventTimeSessionWindows.with_dynamic_gap("
        "lambda row: timedelta(days=366_001 if row.x == 17 else 2)), "
        f'on_error="{on_error}"'
    )
    own_pipeline.append(every_hour(0, 24))
    code = own_pipeline("run", "own", "--to", "2013-01-02")
    if on_error == "fail":
        assert code == 1
        error = capsys.readouterr().err
        assert "at most 366,000 days, got 366001 days" in error
        assert "key 'a', window None, timestamp 1357059600000" in error
    else:
        assert code == 0
        [row] = own_pipeline.rows("quarantine")
        assert '"x": 17' in row["row_json"] and "at most 366,000 days" in row["reason"]


def warnings(own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Title and observation of each warning of the first run, whose verdict says whether there are any, as
    its line does.
    """
    capsys.readouterr()
    assert own_pipeline("run", "own", "--to", "2013-01-02") == 0
    printed = capsys.readouterr().out
    [run] = own_pipeline.rows("runs")
    found = [
        (row["expectation"], row["observed"]) for row in own_pipeline.rows("validations") if not row["passed"]
    ]
    assert run["verdict"] == ("warned" if found else "passed")
    assert all(f"warning: {title}: {observed}" in printed for title, observed in found)
    return found


@pytest.mark.parametrize(
    ("unit", "factor"), [(timedelta(milliseconds=1), 1_000), (timedelta(microseconds=1), 1_000_000)]
)
def test_event_times_in_seconds_are_warned_of(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], unit: timedelta, factor: int
) -> None:
    own_pipeline.append(
        [{**row, "e": EPOCH + (row["e"] - EPOCH) // timedelta(seconds=1) * unit} for row in every_hour(0, 24)]
    )
    [(title, observed)] = warnings(own_pipeline, capsys)
    assert title == "unit of event times"
    assert (
        "the newest event time is 1970-01-" in observed
        and f"{factor:,} times that is 2013-01-01T" in observed
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        every_hour(0, 24),
        [
            {**row, "e": row["e"] - timedelta(days=365 * 43)} for row in every_hour(0, 24)
        ],  # events of 1970 that are loaded in 2013
        [{**row, "e": row["e"] - timedelta(days=365 * 60)} for row in every_hour(0, 24)],
        [*every_hour(0, 1), *({**row, "e": EPOCH} for row in every_hour(1, 24))],
        [{**every_hour(0, 1)[0], "k": None}, *every_hour(1, 2)],
        every_hour(30, 40),
    ],
    ids=["now", "1970", "1953", "some at 0", "some quarantined", "none"],
)
def test_other_input_is_not(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]]
) -> None:
    own_pipeline.append(rows)
    assert warnings(own_pipeline, capsys) == []


def test_a_run_whose_rows_are_all_quarantined_is_warned_of_with_the_reasons(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead = [{**row, "e": row["e"] + timedelta(days=30)} for row in every_hour(0, 1000)]
    own_pipeline.append(
        [
            *({**row, "a": moment(0.02 * number)} for number, row in enumerate(ahead)),
            {**every_hour(1, 2)[0], "k": None},
        ]
    )
    [(title, observed)] = warnings(own_pipeline, capsys)
    assert title == "usable rows"
    codes = {row["reason_code"] for row in own_pipeline.rows("quarantine")}
    assert (
        len(codes) == 2
        and observed.startswith("all 1,001 rows were quarantined: ")
        and all(code in observed for code in codes)
    )
    assert " 1,000" in observed and " 1;" in observed.replace(",", ";")


def test_plan_says_beforehand_that_event_times_are_in_another_unit(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline.append([{**row, "e": EPOCH + (row["e"] - EPOCH) / 1000} for row in every_hour(0, 24)])
    assert own_pipeline("plan", "own", "--to", "2013-01-02") == 0
    assert "1,000 times that is 2013-01-01T" in capsys.readouterr().out


def test_a_column_of_the_source_with_the_name_of_one_of_a_replay_is_refused(
    own_pipeline: OwnPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    own_pipeline.schema = own_pipeline.schema.append(pa.field("__arrival_ms", pa.int64()))
    own_pipeline.append([{**row, "__arrival_ms": 1} for row in every_hour(0, 2)])
    assert own_pipeline("run", "own", "--to", "2013-01-02") == 2
    assert "a column '__arrival_ms'" in capsys.readouterr().err
