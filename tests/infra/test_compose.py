"""The compose file calls scripts that exist and opens no port to the network: what can be checked without
Docker.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "infra" / "compose.yaml").read_text())["services"]
    return services


def test_containers_are_started_by_the_scripts_of_the_repository(services: dict[str, Any]) -> None:
    airflow = services["airflow"]
    assert (ROOT / airflow["command"][0]).stat().st_mode & 0o111
    assert (ROOT / airflow["healthcheck"]["test"][1]).exists()
    assert (ROOT / airflow["build"]["dockerfile"]).exists()


def test_every_published_port_is_on_loopback(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not str(port).startswith("127.0.0.1:")] == []


def test_the_password_comes_from_the_caller(services: dict[str, Any]) -> None:
    environment = (
        services["airflow"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"],
        services["postgres"]["environment"]["POSTGRES_PASSWORD"],
    )
    assert all("${POSTGRES_PASSWORD:?" in value for value in environment)
