"""What Airflow learns of this package by its entry point `apache_airflow_provider`: its connection type and
form, and the links of tasks. Airflow calls this in each of its processes, so nothing is imported here.
"""

from typing import Any

_FIELDS = {
    "warehouse": {
        "label": "Warehouse",
        "description": "A folder or a URI, such as s3://lake/warehouse. DAG files and the variable "
        "SLACKWATER_WAREHOUSE win over it.",
        "schema": {"type": ["string", "null"]},
    },
    "storage": {
        "label": "Storage options",
        "description": "A JSON object of the variables that the storage's client reads: "
        '{"AWS_ACCESS_KEY_ID": "…", "AWS_SECRET_ACCESS_KEY": "…", "AWS_REGION": "eu-central-1"}.',
        "schema": {"type": ["string", "null"], "format": "password"},
    },
    "master": {
        "label": "Spark master",
        "description": "Where slices run that are large: local[4], spark://host:7077, yarn, k8s://….",
        "schema": {"type": ["string", "null"]},
    },
    "spark_conf": {
        "label": "Spark properties",
        "description": 'A JSON object: {"spark.executor.memory": "4g"}. DAG files win over it.',
        "schema": {"type": ["string", "null"]},
    },
}


def provider_info() -> dict[str, Any]:
    """As Airflow's schema of providers says."""
    return {
        "package-name": "slackwater",
        "name": "Slackwater",
        "description": "Batch reprocessing with Apache Flink's windows on Spark.",
        "documentation-url": None,
        "connection-types": [
            {
                "connection-type": "slackwater",
                "hook-name": "Slackwater",
                "hook-class-name": "slackwater.airflow.connections.SlackwaterHook",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "port", "schema", "login", "password", "extra"],
                    "relabeling": {},
                },
                "conn-fields": _FIELDS,
            }
        ],
        "extra-links": ["slackwater.airflow.page_links.RunPageLink"],
    }
