"""Each environment variable becomes its setting, or is refused by name."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.airflow.settings import SettingsError, read

WAREHOUSE = {"SLACKWATER_WAREHOUSE": "/data/w"}


def test_everything_but_the_warehouse_has_a_place() -> None:
    settings = read(WAREHOUSE | {"AIRFLOW_HOME": "/airflow"})
    assert settings.manifests == Path("/airflow/manifests")
    assert (settings.spark_bin / "python").exists()
    assert (settings.pipelines, settings.spark_connection, settings.pool) == (
        None,
        "slackwater_spark",
        "default_pool",
    )
    assert not settings.examples and read(WAREHOUSE | {"SLACKWATER_EXAMPLES": "true"}).examples
    assert (settings.retries, settings.retry_delay) == (3, timedelta(minutes=10))


@pytest.mark.parametrize(
    ("warehouse", "uri"),
    [
        ("/data/w", "file:///data/w/departures/published"),
        ("/data/my tables/", "file:///data/my%20tables/departures/published"),
        ("s3://bucket/w/", "s3://bucket/w/departures/published"),
    ],
)
def test_a_table_of_the_warehouse_has_a_uri(warehouse: str, uri: str) -> None:
    assert read({"SLACKWATER_WAREHOUSE": warehouse}).uri_of("departures/published") == uri


@pytest.mark.parametrize("uri", ["s3://other/orders", "file:///data/orders"])
def test_a_table_that_stands_elsewhere_has_its_own_uri(uri: str) -> None:
    assert read(WAREHOUSE).uri_of(uri.removeprefix("file://")) == uri


def test_files_are_named_in_full_and_modules_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read({"SLACKWATER_WAREHOUSE": "w", "SLACKWATER_PIPELINES": "mine.py"})
    assert (settings.warehouse, settings.pipelines) == (str(tmp_path / "w"), str(tmp_path / "mine.py"))
    assert read(WAREHOUSE | {"SLACKWATER_PIPELINES": "shop.pipelines"}).pipelines == "shop.pipelines"
    (tmp_path / "folder").mkdir()
    several = read(WAREHOUSE, pipelines=["mine.py", "folder", "shop.pipelines"]).pipelines
    assert several == f"{tmp_path / 'mine.py'},{tmp_path / 'folder'},shop.pipelines"
    assert read(WAREHOUSE | {"SLACKWATER_PIPELINES": "mine.py, folder, shop.pipelines"}).pipelines == several


@pytest.mark.parametrize(
    ("settle", "minutes"), [(timedelta(0), 4), (timedelta(minutes=4), 4), (timedelta(hours=1), 60)]
)
def test_the_next_try_finds_the_source_settled(settle: timedelta, minutes: int) -> None:
    pipeline: Any = SimpleNamespace(settle=settle)
    assert read(WAREHOUSE | {"SLACKWATER_RETRY_MINUTES": "4"}).retry_delay_of(pipeline) == timedelta(
        minutes=minutes
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SLACKWATER_EXAMPLES", "yes", "true or false"),
        ("SLACKWATER_RETRIES", "2", "at least 3"),
        ("SLACKWATER_RETRIES", "-4", "a whole number"),
        ("SLACKWATER_RETRY_MINUTES", "soon", "a whole number"),
        ("SLACKWATER_SPARK_CONF", "spark.executor.memory=4g", "no JSON"),
        ("SLACKWATER_SPARK_CONF", '{"spark.executor.cores": 2}', "JSON object of strings"),
        ("SLACKWATER_SPARK_CONF", "[]", "JSON object of strings"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} is .*{message}"):
        read(WAREHOUSE | {variable: value})


def test_what_a_dag_file_gives_counts_in_place_of_the_variable() -> None:
    variables = WAREHOUSE | {"SLACKWATER_POOL": "spark", "SLACKWATER_RETRIES": "5"}
    settings = read(variables, warehouse="s3://lake/w", pool="own", manifests="/data/m", retries=None)
    assert (settings.warehouse, settings.pool, settings.manifests, settings.retries) == (
        *("s3://lake/w", "own", Path("/data/m")),
        5,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pols": "own"}, "no setting pols; there are warehouse, pipelines"),
        ({"retries": 2}, "retries is 2; it is a whole number, at least 3"),
    ],
)
def test_what_a_dag_file_gives_wrongly_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(WAREHOUSE, **given)


def test_without_a_warehouse_there_is_no_dag() -> None:
    with pytest.raises(SettingsError, match=r"give dags\(warehouse=…\), set SLACKWATER_WAREHOUSE, or name"):
        read({})


def test_drivers_in_a_cluster_may_have_uris_and_dags_may_not() -> None:
    variables = WAREHOUSE | {
        "SLACKWATER_MANIFESTS": "s3://lake/outcomes/",
        "SLACKWATER_DRIVER_PIPELINES": "s3://lake/sales.py",
    }
    settings = read(variables)
    assert (settings.manifests, settings.driver_pipelines) == ("s3://lake/outcomes", "s3://lake/sales.py")
    assert read(WAREHOUSE, manifests="file:///data/m").manifests == "file:///data/m"
    with pytest.raises(SettingsError, match=r"s3://lake/sales\.py: DAGs are declared by pipelines of this"):
        read(WAREHOUSE | {"SLACKWATER_PIPELINES": "s3://lake/sales.py"})
