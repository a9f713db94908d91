"""A command's variables for Spark: the master that an Airflow connection names, and its properties.

Knows connections of Airflow's type `spark`, and no command.
"""

import json
import os
from collections.abc import Mapping

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import NO_VARIABLES, environment_of

# Of an Airflow connection → Spark's property, where it is not spark-submit that reads the connection.
PROPERTIES = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}


def spark_connection(settings: Settings) -> Connection | None:
    """The connection of Spark; None where there is none: Spark then runs beside the task."""
    try:
        return BaseHook.get_connection(settings.spark_connection)
    except AirflowNotFoundException:
        return None


def has_driver_in_cluster(connection: Connection | None) -> bool:
    """Whether the connection asks for drivers in the cluster, not in the process of the task."""
    return connection is not None and connection.extra_dejson.get("deploy-mode") == "cluster"


def variables_of_spark(settings: Settings, conf: Mapping[str, str] = NO_VARIABLES) -> dict[str, str]:
    """The variables of a command that is the driver itself; `conf` wins over what the connection says."""
    connection = spark_connection(settings)
    if has_driver_in_cluster(connection):
        return {}
    properties = json.loads(environment_of(settings).get("SLACKWATER_SPARK_CONF") or "{}")
    properties = {**properties, **_conf_of(connection), **settings.spark_conf, **conf}
    variables = {"SLACKWATER_SPARK_CONF": json.dumps(properties), "SLACKWATER_PARENT": str(os.getpid())}
    return variables if connection is None else {**variables, "SLACKWATER_MASTER": master_of(connection)}


def _conf_of(connection: Connection | None) -> dict[str, str]:
    """What else the connection holds, as Spark's properties."""
    extra = {} if connection is None else connection.extra_dejson
    return {name: str(extra[key]) for key, name in PROPERTIES.items() if extra.get(key)}


def master_of(connection: Connection) -> str:
    """The Spark master that a connection names, in one of the two ways in which Airflow stores it."""
    host = connection.host or ""
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    url = host if is_whole else f"{connection.conn_type}://{host}"
    return f"{url}:{connection.port}" if connection.port else url
