"""Airflow's connections: what a command hears of them, and the form by which they are made."""

import json
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from slackwater.airflow.connections import SlackwaterHook, UnusableConnection
from slackwater.airflow.settings import Settings, SettingsError, read
from slackwater.airflow.upkeep import HealthOperator, MaintainOperator
from tests.airflow.commands import install

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA0", "AWS_SECRET_ACCESS_KEY": "s3cret-of-aws"}


def connect(monkeypatch: pytest.MonkeyPatch, conn_type: str, extra: Any = None, **fields: str) -> None:
    """Give Airflow a connection `lake`."""
    connection = {"conn_type": conn_type, "extra": extra or {}, **fields}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))


# Airflow itself reads hooks in this way.
@pytest.mark.filterwarnings("ignore::airflow.utils.deprecation_tools.DeprecatedImportWarning")
def test_the_form_is_what_airflow_asks_of_a_provider() -> None:
    (entry_point,) = distribution("slackwater").entry_points.select(group="apache_airflow_provider")
    schema = Path(airflow.__file__).with_name("provider_info.schema.json").read_text()
    info = entry_point.load()()
    jsonschema.validate(info, json.loads(schema))
    manager = ProvidersManager()
    assert manager.providers["slackwater"].data == info
    hook = manager.hooks["slackwater"]
    assert hook is not None and hook.hook_name == "Slackwater"
    fields = [name for name in manager.connection_form_widgets if name.startswith("extra__slackwater__")]
    assert [name.rpartition("__")[2] for name in fields] == ["warehouse", "storage", "master", "spark_conf"]
    assert manager.field_behaviours["slackwater"]["hidden_fields"][-1] == "extra"
    assert "slackwater.airflow.page_links.RunPageLink" in manager.extra_links_class_names


@pytest.mark.parametrize("storage", [KEYS, json.dumps(KEYS)])  # by the API, and by the form
def test_its_storage_options_are_variables_of_every_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, storage: Any
) -> None:
    connect(monkeypatch, "slackwater", {"storage": storage})
    install(settings, 'printf "%s %s" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >"$0.variables"')
    connected = replace(settings, connection="lake")
    variables = settings.spark_bin / "slackwater.variables"
    for operator in (
        MaintainOperator(task_id="maintain", pipeline="p", settings=connected),
        HealthOperator(task_id="health", settings=connected),
    ):
        variables.unlink(missing_ok=True)
        operator.execute({})
        assert variables.read_text() == "AKIA0 s3cret-of-aws"


def test_a_connection_of_amazon_opens_the_storage_too(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"region_name": "eu-central-1", "endpoint_url": "http://store:9000"}
    connect(monkeypatch, "aws", extra, login="AKIA0", password="s3cret-of-aws")
    where = {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "http://store:9000"}
    assert SlackwaterHook("lake").environment == KEYS | where


def test_it_names_spark_and_the_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "warehouse": "s3://lake/w",
        "master": "spark://host:7077",
        "spark_conf": '{"spark.cores.max": "4"}',
    }
    connect(monkeypatch, "slackwater", extra)
    assert SlackwaterHook("lake").environment == {
        "SLACKWATER_MASTER": "spark://host:7077",
        "SLACKWATER_SPARK_CONF": '{"spark.cores.max": "4"}',
    }
    assert read({}, connection="lake").warehouse == "s3://lake/w"
    assert read({"SLACKWATER_CONNECTION": "lake"}).warehouse == "s3://lake/w"
    assert read({"SLACKWATER_WAREHOUSE": "/mine"}, connection="lake").warehouse == "/mine"


@pytest.mark.parametrize(
    ("conn_type", "extra", "message"),
    [
        ("postgres", {}, "its type is aws or slackwater"),
        ("slackwater", {"storage": "AWS_REGION=eu"}, "storage of connection 'lake' is no JSON object"),
        ("slackwater", {"spark_conf": {"spark.cores.max": 4}}, "spark_conf of connection 'lake'"),
    ],
)
def test_one_that_cannot_be_used_fails_for_good(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, conn_type: str, extra: Any, message: str
) -> None:
    connect(monkeypatch, conn_type, extra)
    install(settings, "exit 0")
    with pytest.raises(UnusableConnection, match=message):
        assert SlackwaterHook("lake").environment
    operator = MaintainOperator(
        task_id="maintain", pipeline="p", settings=replace(settings, connection="lake")
    )
    with pytest.raises(AirflowFailException, match=message):
        operator.execute({})


def test_one_that_is_not_there_is_named(settings: Settings) -> None:
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        assert SlackwaterHook("nowhere").environment
    with pytest.raises(SettingsError, match=r"SLACKWATER_CONNECTION: .*nowhere"):
        read({"SLACKWATER_CONNECTION": "nowhere"})


def test_the_forms_button_says_what_the_warehouse_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "warehouse").mkdir()
    connect(monkeypatch, "slackwater", {"warehouse": str(tmp_path / "warehouse")})
    assert SlackwaterHook("lake").test_connection() == (
        True,
        f"{tmp_path / 'warehouse'} has tables of no pipeline yet",
    )
    connect(monkeypatch, "slackwater")
    assert SlackwaterHook("lake").test_connection() == (False, "it names no warehouse")
    connect(monkeypatch, "postgres")
    assert SlackwaterHook("lake").test_connection()[0] is False
