"""The settings for YARN and Kubernetes: every key is one of this Spark, and an executor has the memory that a
task takes.
"""

import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.runtime import spark_submit
from slackwater.runtime.jars import JAR_DIGESTS, spark_home
from slackwater.runtime.memory import DEFAULT_MB, IDLE_MB, JVM_MB, VARIABLE
from slackwater.runtime.packaging import submit_settings

INFRA = Path(__file__).resolve().parents[2] / "infra"
CONFS = {"yarn": INFRA / "yarn" / "spark-defaults.conf", "kubernetes": INFRA / "kubernetes" / "spark.conf"}
# Of a key that ends in a variable's name, Spark knows the beginning.
WITH_VARIABLE = re.compile(r"(spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\.)([A-Z_]+)")


def properties(file: Path) -> dict[str, str]:
    """As Spark reads such a file: a key, white space, a value."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [tuple(line.split(maxsplit=1)) for line in lines]
    assert len(dict(pairs)) == len(pairs), "a key stands there once"
    return dict(pairs)


@cache
def classes_of_spark() -> bytes:
    """The classes of Spark that declare its settings. In each, a text stands behind its length."""
    classes = []
    for part, declaring in (
        ("core", r"/internal/config/|/deploy/SparkSubmit|/SparkConf"),
        ("yarn", ""),
        ("kubernetes", ""),
    ):
        (jar,) = (spark_home() / "jars").glob(f"spark-{part}_*.jar")
        with zipfile.ZipFile(jar) as archive:
            classes += [
                archive.read(name)
                for name in archive.namelist()
                if name.endswith(".class") and re.search(declaring, name)
            ]
    return b"\0".join(classes)


def has_text(text: str) -> bool:
    return b"\x01" + len(text).to_bytes(2, "big") + text.encode() in classes_of_spark()


def is_of_spark(key: str) -> bool:
    """Whether the classes hold the key, or the two parts that they put together: a known prefix and the
    remainder, or what stands before the name of a variable. Java writes the gap as character 1.
    """
    parts = [key[:dot] for dot in (match.start() for match in re.finditer(r"\.", key))]
    return (
        has_text(key)
        or has_text(f"{key}\x01")
        or any(has_text(prefix) and has_text(f"\x01{key.removeprefix(prefix)}") for prefix in parts)
    )


def megabytes(size: str) -> int:
    number, unit = int(size[:-1]), size[-1]
    return number * {"m": 1, "g": 1024}[unit]


def test_a_key_that_spark_does_not_have_is_noticed() -> None:
    assert is_of_spark("spark.executor.memoryOverhead") and is_of_spark("spark.executorEnv.")
    assert not is_of_spark("spark.executor.memoryOverhea") and not is_of_spark("spark.executor.pysparkmemory")


@pytest.mark.parametrize("manager", CONFS)
def test_every_key_is_one_of_this_spark(manager: str) -> None:
    for key in properties(CONFS[manager]):
        with_variable = WITH_VARIABLE.fullmatch(key)
        assert is_of_spark(with_variable[1] if with_variable else key), key


@pytest.mark.parametrize("manager", CONFS)
def test_an_executor_has_the_memory_of_its_tasks_beside_its_jvm(manager: str) -> None:
    conf = properties(CONFS[manager])
    driver = {"yarn": "spark.yarn.appMasterEnv.", "kubernetes": "spark.kubernetes.driverEnv."}[manager]
    limits = {conf[f"spark.executorEnv.{VARIABLE}"], conf[f"{driver}{VARIABLE}"]}
    assert limits == {str(DEFAULT_MB)}, "the driver divides what executors are to hold"
    a_task = IDLE_MB + DEFAULT_MB
    assert "spark.executor.memoryOverhead" not in conf, "it would count instead of what the tasks need"
    master = {"yarn": "yarn", "kubernetes": "k8s://https://kubernetes.example:443"}[manager]
    arguments = ["--properties-file", str(CONFS[manager]), "--master", master, "job.py"]
    submission = spark_submit.command(arguments, submit_settings())
    [overhead] = [value for value in submission if value.startswith("spark.executor.minMemoryOverhead=")]
    cores = int(conf["spark.executor.cores"])
    assert megabytes(overhead.partition("=")[2]) == cores * a_task + JVM_MB
    assert is_of_spark("spark.executor.minMemoryOverhead")
    assert megabytes(conf["spark.driver.memoryOverhead"]) == a_task + JVM_MB


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_pod_template_is_that_of_the_settings(role: str) -> None:
    conf = properties(CONFS["kubernetes"])
    file = INFRA.parent / conf[f"spark.kubernetes.{role}.podTemplateFile"]
    pod: dict[str, Any] = yaml.safe_load(file.read_text())
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    (container,) = pod["spec"]["containers"]
    assert container["name"] == f"spark-kubernetes-{role}", "the name by which Spark knows its container"
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_the_image_has_the_jars_and_the_environment_that_the_settings_name() -> None:
    image = (INFRA / "kubernetes" / "Dockerfile").read_text()
    jars = re.search(r"^ENV SLACKWATER_JARS=(.+)$", image, flags=re.MULTILINE)
    assert jars is not None
    assert [jar.removeprefix("local:///opt/jars/") for jar in jars[1].split(",")] == list(JAR_DIGESTS)
    python = re.search(r"^FROM python:(3\.\d+)-slim$", (INFRA / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert python is not None and f"/lib/python{python[1]}/site-packages/pyspark" in image
    assert properties(CONFS["kubernetes"])["spark.pyspark.python"] == "/slackwater/.venv/bin/python"
