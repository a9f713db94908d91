"""A try that is no run of the ledger has a page that says what has become of it, and which checks it
failed.
"""

from dataclasses import dataclass

import pytest

from slackwater.engine.transport.in_process import InProcess
from slackwater.pages.app import create_app
from slackwater.runs import opened_pipeline
from tests.integration.command import here
from tests.integration.stored import StoredTables
from tests.pages.page_reader import PageReader

FILE = """
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater.pipelines import expect

hourly = replace(departures, name="hourly", expect=[expect.between("flights", max=24)])
"""


@dataclass(frozen=True)
class Tries:
    """Two tries: the first day passes its check, the second does not."""

    stored: StoredTables
    where: tuple[str, ...]
    staged: str
    rejected: str

    def pages(self) -> PageReader:
        return PageReader(create_app(self.where[1], self.where[3]))


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> Tries:
    folder = tmp_path_factory.mktemp("tries")
    file = folder / "pipelines.py"
    file.write_text(FILE)
    where = ("--warehouse", str(folder / "warehouse"), "--pipelines", str(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened_pipeline, "spark_transport", lambda app: InProcess)
        days = ("--from", "2013-01-01", "--to", "2013-01-03")
        assert here("examples", "load", "departures", *days, *where[:2]) == 0
        assert here("run", "hourly", "--to", "2013-01-03", "--no-publish", *where) == 4
    stored = StoredTables(folder / "warehouse", "hourly")
    [staged], [rejected] = (
        {row["run_id"] for row in stored.rows("attempts") if row["outcome"] == outcome}
        for outcome in ("staged", "rejected")
    )
    return Tries(stored, where, staged, rejected)


def test_a_rejected_try_shows_the_checks_that_it_failed(tries: Tries) -> None:
    page = tries.pages().page(f"/hourly/attempts/{tries.rejected}")
    assert "It was rejected by its checks" in page.text
    [failed] = [row for row in tries.stored.rows("validations") if not row["passed"]]
    assert failed["run_id"] == tries.rejected
    assert page.table("Checks").rows[0][:3] == [failed["expectation"], "failed: reject", failed["observed"]]
    assert f"slackwater publish hourly {tries.rejected} --accept" in page.text
    assert "slackwater run hourly --to 2013-01-03T00:00:00Z" in page.text


def test_an_id_that_is_none_is_not_there(tries: Tries) -> None:
    page = tries.pages().get("/hourly/attempts/none")
    assert page.status == 404
    assert "no run with the id" in page.text


def test_a_staged_try_becomes_a_run(tries: Tries) -> None:
    page = tries.pages().page(f"/hourly/attempts/{tries.staged}")
    assert "waits for its publication" in page.text
    assert f"slackwater publish hourly {tries.staged}" in page.text
    assert [row[:2] for row in _tries_of(tries)] == [["2013-01-02", "rejected"], ["2013-01-01", "staged"]]

    assert here("publish", "hourly", tries.staged, *tries.where) == 0
    answer = tries.pages().get(f"/hourly/attempts/{tries.staged}")
    assert (answer.status, answer.headers["location"]) == (303, "/hourly/runs/1")
    [run] = tries.stored.ledger()
    assert f"{run['rows_read']:,} read =" in page.text
    assert [row[:2] for row in _tries_of(tries)] == [["2013-01-02", "rejected"]]


def _tries_of(tries: Tries) -> list[list[str]]:
    page = tries.pages().page("/hourly")
    assert f"/hourly/attempts/{tries.rejected}" in page.links
    return page.table("Attempts without a run so far, newest first").rows
