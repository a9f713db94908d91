"""URLs of sinks: what a declaration may hold, and what it names."""

import pytest

from slackwater import RedisSink, SqlSink
from slackwater.pipelines.errors import PipelineError
from slackwater.sinks.connections import resolve_url
from slackwater.sinks.errors import SinkUnsuitable


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:s3cret@db/reports", "holds a password"),
        ("redis://:s3cret@cache:6379/0", "holds a password"),
        ("env:", "names nothing"),
        ("env:MY-URL", "names nothing"),
        ("airflow:", "names nothing"),
        ("reports.db", "it is 'env:NAME', 'airflow:CONN_ID' or a URL"),
        ("", "it is 'env:NAME', 'airflow:CONN_ID' or a URL"),
    ],
)
def test_a_url_that_names_nothing_or_holds_a_password_is_refused(url: str, problem: str) -> None:
    with pytest.raises(PipelineError, match=problem) as caught:
        SqlSink("report", url=url, table="visits")
    assert "s3cret" not in str(caught.value)


def test_a_url_without_a_password_stands_for_itself() -> None:
    sink = RedisSink("live", url="redis://cache:6379/0", key="visits:{page}:{window_start}")
    assert resolve_url(sink.name, sink.url, {}) == "redis://cache:6379/0"


@pytest.mark.parametrize(
    ("url", "variable", "value", "resolved_url"),
    [
        ("env:REPORTS", "REPORTS", "postgresql://me:pw@db/r", "postgresql://me:pw@db/r"),
        (
            "airflow:reports",
            "AIRFLOW_CONN_REPORTS",
            "postgres://me:pw@db:5432/r",
            "postgresql://me:pw@db:5432/r",
        ),
        ("airflow:reports", "AIRFLOW_CONN_REPORTS", "sqlite:////tmp/r.db", "sqlite:////tmp/r.db"),
        ("airflow:reports", "AIRFLOW_CONN_REPORTS", "sqlite:///%2Ftmp%2Fr.db", "sqlite:////tmp/r.db"),
        (
            "airflow:reports",
            "AIRFLOW_CONN_REPORTS",
            '{"conn_type": "postgres", "login": "me", "password": "p/w", "host": "db", "port": 5432,'
            ' "schema": "r", "extra": {"sslmode": "require"}}',
            "postgresql://me:p%2Fw@db:5432/r?sslmode=require",
        ),
        (
            "airflow:cache",
            "AIRFLOW_CONN_CACHE",
            '{"conn_type": "redis", "password": "pw", "host": "cache", "port": 6379, "schema": "0"}',
            "redis://:pw@cache:6379/0",
        ),
    ],
)
def test_a_url_is_read_from_the_environment(url: str, variable: str, value: str, resolved_url: str) -> None:
    assert resolve_url("report", url, {variable: value}) == resolved_url


@pytest.mark.parametrize("value", [None, "", "s3cret", "{not json"])
def test_a_variable_that_holds_no_url_is_told_without_its_text(value: str | None) -> None:
    environment = {} if value is None else {"AIRFLOW_CONN_REPORTS": value, "REPORTS": value}
    for url in ("env:REPORTS", "airflow:reports"):
        with pytest.raises(SinkUnsuitable, match="REPORTS") as caught:
            resolve_url("report", url, environment)
        assert "s3cret" not in str(caught.value)
