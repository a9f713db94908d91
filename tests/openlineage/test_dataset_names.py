"""Datasets are called as OpenLineage's naming convention calls them; its other producers do so too, and only
equal names meet in a catalog.
"""

import pytest

from slackwater.openlineage.datasets import dataset_name

AZURE = "container@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("/data/lake/orders", "file", "/data/lake/orders"),
        ("file:///data/lake/orders/", "file", "/data/lake/orders"),
        ("file://nas/data/orders", "file://nas", "/data/orders"),
        ("s3://lake/warehouse/orders", "s3://lake", "warehouse/orders"),
        ("s3a://lake/warehouse/orders/", "s3://lake", "warehouse/orders"),
        ("s3://lake", "s3://lake", "/"),
        ("gs://lake/orders", "gs://lake", "orders"),
        (f"abfss://{AZURE}/orders", f"abfss://{AZURE}", "orders"),
        (f"abfs://{AZURE}/orders", f"abfss://{AZURE}", "orders"),
        ("az://container/orders/", "az://container", "orders"),
        ("hdfs://namenode:8020/data/orders", "hdfs://namenode:8020", "/data/orders"),
    ],
)
def test_a_dataset_is_named_by_its_place(place: str, namespace: str, name: str) -> None:
    assert dataset_name(place) == (namespace, name)


def test_no_credential_is_part_of_a_name() -> None:
    name = dataset_name("s3://user:secret@lake/orders?token=secret")
    assert "secret" not in f"{name.namespace} {name.name}"
