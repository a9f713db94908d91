"""The tasks that deliver to sinks. Covers slackwater.airflow.tasks.deliver."""

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.deliver import DeliverOperator
from slackwater.pipelines.sinks import SetAside
from slackwater.sinks.connections import resolve_url
from slackwater.sinks.errors import rows_set_aside
from tests.airflow.commands import install


def deliver_operator(settings: Settings, url: str) -> DeliverOperator:
    return DeliverOperator(
        task_id="deliver_report", pipeline="departures", sink="report", url=url, settings=settings
    )


def test_deliver_calls_the_command_for_its_sink(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    deliver_operator(settings, "env:REPORT_URL").execute({})
    assert calls.read_text() == f"sinks deliver departures report --warehouse {settings.warehouse}\n"


def test_a_sink_that_is_down_is_tried_again(settings: Settings) -> None:
    install(settings, "exit 3")
    with pytest.raises(AirflowException) as caught:
        deliver_operator(settings, "env:REPORT_URL").execute({})
    assert not isinstance(caught.value, AirflowFailException)


def test_a_sink_that_does_not_suit_fails_for_good(settings: Settings) -> None:
    install(settings, "exit 2")
    with pytest.raises(AirflowFailException):
        deliver_operator(settings, "env:REPORT_URL").execute({})


def test_rows_that_are_set_aside_fail_for_good_with_commands_that_work_in_any_shell(
    settings: Settings,
) -> None:
    refused = SetAside('{"origin": "EWR"}', "note", "NUL in a text", 7, 3, "d1")
    text = str(rows_set_aside("report", "departures", [refused]))
    install(settings, f"cat >&2 <<'END'\nslackwater: {text}\nEND\nexit 1")
    with pytest.raises(AirflowFailException) as caught:
        deliver_operator(settings, "env:REPORT_URL").execute({})
    message = str(caught.value)
    assert 'key {"origin": "EWR"}, column note: NUL in a text' in message
    for verb in ("set-aside", "retry"):
        assert f"`slackwater sinks {verb} departures report --warehouse {settings.warehouse}`" in message
    assert "derive" in message, "how to be rid of them"


def test_a_connection_of_airflow_reaches_the_command_in_its_environment(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REPORTS", "postgres://me:s3cret@db.example:5432/reports")
    seen = tmp_path / "seen"
    calls = install(settings, f'printf "%s" "$AIRFLOW_CONN_REPORTS" > {seen}')
    deliver_operator(settings, "airflow:reports").execute({})
    url = resolve_url("report", "airflow:reports", {"AIRFLOW_CONN_REPORTS": seen.read_text()})
    assert url == "postgresql://me:s3cret@db.example:5432/reports"
    assert "s3cret" not in calls.read_text()
