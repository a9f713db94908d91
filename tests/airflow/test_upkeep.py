"""The tasks of the DAGs of a whole warehouse; `slackwater` is a script that answers."""

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from slackwater.airflow.settings import Settings
from slackwater.airflow.upkeep import HealthOperator, MaintainOperator, PipelinesOperator
from tests.airflow.commands import install

HEALTHS = [
    {"pipeline": "new", "health": "green", "reasons": [], "head": None, "is_registered": True},
    {"pipeline": "gone", "health": "green", "reasons": [], "head": "2013-01-02", "is_registered": False},
    {
        "pipeline": "good",
        "health": "yellow",
        "reasons": ["2 late"],
        "head": "2013-01-02",
        "is_registered": True,
    },
    {
        "pipeline": "bad",
        "health": "red",
        "reasons": ["a", "run `slackwater verify bad 7`"],
        "head": "2013-01-02",
        "is_registered": True,
    },
]


def answer(settings: Settings, healths: list[dict[str, Any]], exit_code: int) -> Any:
    """A `slackwater` that answers with a table, or with JSON where that is asked for."""
    return install(
        settings,
        f"case \"$*\" in *json*) cat <<'END'\n{json.dumps(healths)}\nEND\n;; *) echo a table ;; esac\n"
        f"exit {exit_code}",
    )


def test_what_has_run_and_is_declared_is_maintained(settings: Settings) -> None:
    calls = answer(settings, HEALTHS, 1)
    assert PipelinesOperator(task_id="pipelines", settings=settings).execute({}) == ["good", "bad"]
    assert calls.read_text() == f"health --warehouse {settings.warehouse} --output json\n"


def test_maintain_calls_the_command(settings: Settings) -> None:
    calls = install(settings, "exit 0")
    MaintainOperator(task_id="maintain", pipeline="good", settings=settings).execute({})
    assert calls.read_text() == f"maintain good --log-format progress --warehouse {settings.warehouse}\n"


def test_upkeep_that_another_process_does_is_tried_again(settings: Settings) -> None:
    install(settings, "echo another upkeep is at work >&2; exit 3")
    with pytest.raises(AirflowException, match="another upkeep") as error:
        MaintainOperator(task_id="maintain", pipeline="good", settings=settings).execute({})
    assert not isinstance(error.value, AirflowFailException)


def test_health_fails_with_the_reasons_of_what_is_red(settings: Settings) -> None:
    answer(settings, HEALTHS, 1)
    with pytest.raises(AirflowFailException) as error:
        HealthOperator(task_id="health", settings=settings).execute({})
    assert str(error.value) == f"bad: a; bad: run `slackwater verify bad 7 --warehouse {settings.warehouse}`"


def test_yellow_is_healthy_enough(settings: Settings) -> None:
    answer(settings, HEALTHS[:3], 0)
    HealthOperator(task_id="health", settings=settings).execute({})


@pytest.mark.parametrize(("exit_code", "is_final"), [(1, True), (2, True), (3, False)])
def test_a_health_that_cannot_be_told_is_no_health(
    settings: Settings, exit_code: int, is_final: bool
) -> None:
    install(settings, f"echo no such warehouse >&2; exit {exit_code}")
    with pytest.raises(AirflowException, match="no such warehouse") as error:
        HealthOperator(task_id="health", settings=settings).execute({})
    assert isinstance(error.value, AirflowFailException) is is_final
