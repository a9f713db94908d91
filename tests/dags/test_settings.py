"""Each environment variable becomes its setting, or is refused by name."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.dags.settings import ROOT, SettingsError, read


def test_without_variables_everything_has_a_place() -> None:
    found = read({"AIRFLOW_HOME": "/airflow"})
    assert found.warehouse == str(ROOT / "var" / "warehouse")
    assert found.manifests == Path("/airflow/manifests")
    assert (found.spark_bin / "python").exists()
    assert (found.pipelines, found.spark_connection, found.pool) == (None, "slackwater_spark", "default_pool")
    assert not found.examples and read({"SLACKWATER_EXAMPLES": "true"}).examples
    assert (found.retries, found.retry_delay) == (3, timedelta(minutes=10))


@pytest.mark.parametrize(
    ("warehouse", "uri"),
    [
        ("/data/w", "file:///data/w/departures/published"),
        ("/data/my tables/", "file:///data/my%20tables/departures/published"),
        ("s3://bucket/w/", "s3://bucket/w/departures/published"),
    ],
)
def test_the_published_table_has_a_uri(warehouse: str, uri: str) -> None:
    assert read({"SLACKWATER_WAREHOUSE": warehouse}).published_uri("departures") == uri


def test_files_are_named_in_full_and_modules_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = read({"SLACKWATER_WAREHOUSE": "w", "SLACKWATER_PIPELINES": "mine.py"})
    assert (found.warehouse, found.pipelines) == (str(tmp_path / "w"), str(tmp_path / "mine.py"))
    assert read({"SLACKWATER_PIPELINES": "shop.pipelines"}).pipelines == "shop.pipelines"


@pytest.mark.parametrize(
    ("settle", "minutes"), [(timedelta(0), 4), (timedelta(minutes=4), 4), (timedelta(hours=1), 60)]
)
def test_the_next_try_finds_the_source_settled(settle: timedelta, minutes: int) -> None:
    pipeline: Any = SimpleNamespace(settle=settle)
    assert read({"SLACKWATER_RETRY_MINUTES": "4"}).retry_delay_of(pipeline) == timedelta(minutes=minutes)


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
        read({variable: value})
