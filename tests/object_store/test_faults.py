"""A store that throttles, resets connections, or carries a request out and loses the answer: a command does
its work once and says so, or ends with the exit code by which it is tried again.
"""

from functools import partial

import pytest
from obstore.store import from_url

from slackwater.tables import stores
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.object_store.conftest import HourlyOnS3
from tests.object_store.proxy import Fault

DAY_3 = "2013-01-04"
COMMITS = r"PUT .*_delta_log/\d+\.json"
LEDGER_COMMITS = r"PUT .*/runs/_delta_log/\d+\.json"


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client gives up after two tries, which else takes a minute."""
    monkeypatch.setattr(stores, "from_url", partial(from_url, retry_config={"max_retries": 1}))
    monkeypatch.setenv("AWS_SESSION_NAME", "few tries")  # another environment has another client


@pytest.mark.first_fast
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.THROTTLED, Fault.RESET, Fault.FAILED])
def test_a_moment_of_trouble_is_survived(hourly: HourlyOnS3, fault: Fault) -> None:
    with hourly.store.proxy.faults(fault, f"/{hourly.name}/", times=4):
        assert hourly.here("run", "--to", DAY_3) == 0
    assert_as_model(hourly.stored, DAY_3)
    assert_corrections_make_published(hourly.stored)


@pytest.mark.first_fast
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.FAILED])
def test_where_no_commit_is_answered_each_is_made_once(
    hourly: HourlyOnS3, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    with hourly.store.proxy.faults(fault, COMMITS):
        assert hourly.here("run", "--to", DAY_3) == 0
    assert [row["seq"] for row in hourly.stored.ledger()] == [1, 2, 3]
    assert_as_model(hourly.stored, DAY_3)
    assert_corrections_make_published(hourly.stored)
    text = "".join(capsys.readouterr())
    assert "another run" not in text and "Nothing was changed" not in text


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.FAILED])
@pytest.mark.parametrize(
    ("verb", "kinds"),
    [
        (("state restore", "1"), ["restore"]),
        (("state fork", "fix"), ["fork"]),
        (("backfill", "--from", "2013-01-02", "--to", "2013-01-03"), ["fork", "run", "publish", "drop"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_verb_whose_ledger_commit_is_not_answered_does_its_work_once(
    hourly: HourlyOnS3,
    verb: tuple[str, ...],
    kinds: list[str],
    fault: Fault,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with hourly.store.proxy.faults(fault, LEDGER_COMMITS):
        assert hourly.here(*verb) == 0
    assert [row["kind"] for row in hourly.stored.ledger()][2:] == kinds
    assert "Nothing was changed" not in "".join(capsys.readouterr())


@pytest.mark.first_fast
@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize(
    ("fault", "pattern", "words"),
    [
        (Fault.RESET, "", "storage did not answer as it should"),
        (Fault.THROTTLED, "", "storage did not answer as it should"),
        (Fault.EXPIRED, "", "the credentials have expired"),
        (Fault.EXPIRED, r"PUT", "the credentials have expired"),
        (Fault.RESET, COMMITS, "storage did not answer as it should"),
        (Fault.THROTTLED, r"(GET|HEAD|LIST) .*sources", "storage did not answer as it should"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else value,
)
def test_an_outage_ends_with_what_is_tried_again(
    hourly: HourlyOnS3, fault: Fault, pattern: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with hourly.store.proxy.faults(fault, pattern):
        assert hourly.here("run", "--to", DAY_3) == 3
    text = "".join(capsys.readouterr())
    assert words in text
    assert not [wrong for wrong in ("no Delta table", "permission", "never run", "gone") if wrong in text]
    assert hourly.here("run", "--to", DAY_3) == 0
    assert_as_model(hourly.stored, DAY_3)


@pytest.mark.usefixtures("few_tries")
def test_what_is_refused_is_not_tried_again(hourly: HourlyOnS3, capsys: pytest.CaptureFixture[str]) -> None:
    with hourly.store.proxy.faults(Fault.FORBIDDEN, ""):
        assert hourly.here("run", "--to", DAY_3) == 2
    assert "Check its path and permissions" in capsys.readouterr().err


def test_credentials_stand_in_no_table_and_no_output(
    hourly: HourlyOnS3, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hourly.here("run", "--to", DAY_3) == 0
    with hourly.store.proxy.faults(Fault.EXPIRED, ""):
        assert hourly.here("run", "--to", "2013-01-05") == 3
    secret = hourly.store.variables["AWS_SECRET_ACCESS_KEY"]
    assert secret not in "".join(capsys.readouterr())
    folder = hourly.store.folder / hourly.name
    assert not [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
