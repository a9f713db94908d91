"""Airflow's connections of type `slackwater`: where the warehouse is, what opens its storage, and which Spark
works on it. Storage alone may also be opened by a connection of type `aws`.

Turns a connection into a command's variables; the commands say what these mean.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret

from slackwater import args

# Names of variables whose values no log may show.
_SECRET_WORDS = ("KEY", "SECRET", "TOKEN", "PASSWORD", "SAS", "CREDENTIAL")
# What the storage's client reads, from a connection of type `aws` as Airflow's provider of Amazon stores it.
_AWS_EXTRAS = MappingProxyType(
    {
        "aws_session_token": "AWS_SESSION_TOKEN",
        "region_name": "AWS_REGION",
        "endpoint_url": "AWS_ENDPOINT_URL",
    }
)


class UnusableConnection(ValueError):
    """A connection can't be used as it is."""


class SlackwaterHook(BaseHook):
    """Reads a connection for the tasks of our DAGs, and tests it for Airflow's form.

    Raises (every property):
        AirflowNotFoundException: there is no such connection.
        UnusableConnection: it is of another type, or a field of it can't be read.
    """

    conn_name_attr = "slackwater_conn_id"
    default_conn_name = "slackwater_default"
    conn_type = "slackwater"
    hook_name = "Slackwater"

    def __init__(self, slackwater_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slackwater_conn_id = slackwater_conn_id

    def get_conn(self) -> Connection:
        return self.connection

    @cached_property
    def connection(self) -> Connection:
        """Airflow's connection itself, of a type that we can read."""
        connection = self.get_connection(self.slackwater_conn_id)
        if connection.conn_type not in _VARIABLES:
            types = " or ".join(sorted(_VARIABLES))
            raise UnusableConnection(
                f"connection {self.slackwater_conn_id!r} is of type {connection.conn_type!r}; its type is "
                f"{types}. One of type slackwater holds the variables of any storage."
            )
        return connection

    @property
    def warehouse(self) -> str | None:
        """A folder or a URI, as `SLACKWATER_WAREHOUSE`; None where it says none."""
        return self.connection.extra_dejson.get("warehouse") or None

    @property
    def environment(self) -> Mapping[str, str]:
        """A command's variables for storage and Spark. From now on this process's logs mask its secrets."""
        variables = _VARIABLES[self.connection.conn_type or ""](self.connection)
        for name, value in variables.items():
            if any(word in name.upper() for word in _SECRET_WORDS):
                mask_secret(value)
        return variables

    def test_connection(self) -> tuple[bool, str]:
        """What Airflow's form says: whether the warehouse can be read, and what is there or why not."""
        try:
            if self.warehouse is None:
                return False, "it names no warehouse"
            arguments = args.health(warehouse=self.warehouse, pipelines=None, as_json=True)
            process = subprocess.run(
                [sys.executable, "-m", "slackwater", *arguments],
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                check=False,
            )
            if not process.stdout:
                return False, process.stderr.strip()
            names = [health["pipeline"] for health in json.loads(process.stdout)]
            return True, f"{self.warehouse} has tables of {', '.join(names) or 'no pipeline yet'}"
        except UnusableConnection as error:
            return False, str(error)


def _object_of(connection: Connection, name: str) -> Mapping[str, str]:
    """A field that is a JSON object of strings; empty where it is not filled in."""
    value = connection.extra_dejson.get(name) or {}
    try:
        values = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(text, str) for text in values.values()):
        raise UnusableConnection(
            f"{name} of connection {connection.conn_id!r} is no JSON object of strings; write it as "
            '{"NAME": "value"}.'
        )
    return values


def _variables_of_slackwater(connection: Connection) -> Mapping[str, str]:
    variables = dict(_object_of(connection, "storage"))
    if master := connection.extra_dejson.get("master"):
        variables["SLACKWATER_MASTER"] = master
    if conf := _object_of(connection, "spark_conf"):
        variables["SLACKWATER_SPARK_CONF"] = json.dumps(conf)
    return variables


def _variables_of_aws(connection: Connection) -> Mapping[str, str]:
    extra = connection.extra_dejson
    variables = {
        "AWS_ACCESS_KEY_ID": connection.login or extra.get("aws_access_key_id"),
        "AWS_SECRET_ACCESS_KEY": connection.password or extra.get("aws_secret_access_key"),
        **{name: extra.get(key) for key, name in _AWS_EXTRAS.items()},
    }
    return {name: str(value) for name, value in variables.items() if value}


_VARIABLES: Mapping[str, Callable[[Connection], Mapping[str, str]]] = MappingProxyType(
    {"slackwater": _variables_of_slackwater, "aws": _variables_of_aws}
)
