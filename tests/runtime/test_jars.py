"""Fetching the jars: from a folder in place of the network, wrong, missing, by several processes at once."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.errors import RetryableError, UsageError
from slackwater.runtime import jars as jars_module
from slackwater.runtime.jars import (
    JAR_DIGESTS,
    JarMismatch,
    JarsUnavailable,
    jar_paths,
    jars,
    proxy_options,
)


@pytest.fixture(scope="module")
def good_jars() -> Path:
    """The folder of the real jars, as set-up has left them."""
    return jars()[0].parent


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mirror(folder: Path, source: Path, tail: bytes = b"") -> Path:
    """A Maven repository in `folder` that holds the jars of `source`, with `tail` appended; gives the Ivy
    settings that point to it.
    """
    for jar in JAR_DIGESTS:
        artifact, _, version = jar.removesuffix(".jar").rpartition("-")
        home = folder / "io" / "delta" / artifact / version
        home.mkdir(parents=True)
        (home / jar).write_bytes((source / jar).read_bytes() + tail)
        (home / f"{artifact}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>io.delta</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></project>"
        )
    settings = folder / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="m"/><resolvers>'
        f'<ibiblio name="m" m2compatible="true" root="{folder.as_uri()}/"/></resolvers></ivysettings>'
    )
    return settings


def test_the_jars_of_this_machine_are_the_pinned_ones(good_jars: Path) -> None:
    digests = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in good_jars.iterdir()
        if file.suffix == ".jar"
    }
    assert digests == dict(JAR_DIGESTS)


def test_missing_jars_are_fetched_through_the_users_own_settings(
    good_jars: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", str(mirror(tmp_path / "mirror", good_jars)))
    assert jars() == jar_paths() == [empty_cache / "jars" / name for name in JAR_DIGESTS]
    assert sorted(path.name for path in empty_cache.iterdir()) == ["jars"]  # nothing is left of the fetch
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", str(tmp_path / "gone.xml"))
    jars()  # a second call fetches nothing


def test_processes_that_race_for_the_jars_all_get_them_whole(
    good_jars: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", str(mirror(tmp_path / "mirror", good_jars)))
    command = [sys.executable, "-c", "from slackwater.runtime.jars import jars; print(len(jars()))"]
    racing = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in racing] == ["2\n"] * 3
    assert sorted(path.name for path in (empty_cache / "jars").iterdir()) == sorted(JAR_DIGESTS)


def test_a_mirror_that_serves_another_jar_is_refused(
    good_jars: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", str(mirror(tmp_path / "mirror", good_jars, tail=b"x")))
    with pytest.raises(JarMismatch, match="not the jar that was tested"):
        jars()
    assert list((empty_cache / "jars").iterdir()) == []


def test_a_damaged_jar_in_the_cache_is_named_with_its_cure(good_jars: Path, empty_cache: Path) -> None:
    (empty_cache / "jars").mkdir(parents=True)
    for name in JAR_DIGESTS:
        (empty_cache / "jars" / name).write_bytes((good_jars / name).read_bytes()[:1000])
    with pytest.raises(JarMismatch, match="Delete the file") as caught:
        jars()
    first = next(iter(JAR_DIGESTS))
    assert (caught.value.file, caught.value.expected) == (empty_cache / "jars" / first, JAR_DIGESTS[first])


def test_without_a_network_the_error_is_one_to_try_again_and_says_how(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = tmp_path / "settings.xml"
    nobody.write_text(
        '<ivysettings><settings defaultResolver="m"/><resolvers>'
        '<ibiblio name="m" m2compatible="true" root="http://127.0.0.1:9/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", str(nobody))
    with pytest.raises(JarsUnavailable, match=r"network.*SLACKWATER_IVY_SETTINGS.*delta-storage") as caught:
        jars()
    assert isinstance(caught.value, RetryableError)
    assert caught.value.said
    assert sorted(path.name for path in empty_cache.iterdir()) == ["jars"]


def test_settings_that_are_no_file_are_the_users_fault(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_IVY_SETTINGS", "/nowhere/settings.xml")
    with pytest.raises(UsageError, match="/nowhere/settings"):
        jars()


def test_a_cache_that_cannot_be_made_is_the_users_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="SLACKWATER_CACHE"):
        jars()


def test_a_java_that_trusts_nobody_is_tried_again_with_the_machines_certificates(
    good_jars: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java that 'fetches' only when it is given a truststore, and records how it was called."""
    calls = tmp_path / "calls"
    binary = tmp_path / "jdk" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    copies = " && ".join(f'cp "{good_jars / name}" "$(dirname "$pattern")/"' for name in JAR_DIGESTS)
    binary.write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$@" >>"{calls}"\n'
        'for pattern in "$@"; do :; done\n'
        f'case "$*" in *trustStore=*) {copies} ;; *) echo "PKIX path building failed" ;; esac\n'
    )
    binary.chmod(0o755)
    monkeypatch.setattr(jars_module, "java_home", lambda: tmp_path / "jdk")
    assert jars() == jar_paths()
    first, second = calls.read_text().splitlines()
    assert "trustStore" not in first
    assert "-Djavax.net.ssl.trustStore=" in second


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        (
            {"HTTPS_PROXY": "http://proxy.example:3128"},
            [
                "-Dhttp.proxyHost=proxy.example",
                "-Dhttp.proxyPort=3128",
                "-Dhttps.proxyHost=proxy.example",
                "-Dhttps.proxyPort=3128",
            ],
        ),
        (
            {"http_proxy": "proxy.example:80", "NO_PROXY": "localhost, .corp.example"},
            [
                "-Dhttp.proxyHost=proxy.example",
                "-Dhttp.proxyPort=80",
                "-Dhttps.proxyHost=proxy.example",
                "-Dhttps.proxyPort=80",
                "-Dhttp.nonProxyHosts=localhost|*.corp.example",
            ],
        ),
    ],
)
def test_the_shells_proxy_is_said_to_java_in_its_own_words(
    environment: dict[str, str], options: list[str]
) -> None:
    assert proxy_options(environment) == options


def test_a_proxy_without_a_host_is_the_users_fault() -> None:
    with pytest.raises(UsageError, match="HTTPS_PROXY"):
        proxy_options({"HTTPS_PROXY": "http://:80"})


def test_the_paths_are_known_without_fetching(empty_cache: Path) -> None:
    assert [path.name for path in jar_paths()] == list(JAR_DIGESTS)
    assert not empty_cache.exists()
    assert os.environ["SLACKWATER_CACHE"] == str(empty_cache)
