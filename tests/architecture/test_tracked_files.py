"""What holds for every file of the repository: it names no machine and no registry, and no module grows past
its size.
"""

import re

import pytest

from tests.architecture.tracked import ROOT, text, tracked

LONGEST_MODULE = 500  # lines

# Written in pieces, so that this file names none of them itself.
REGISTRY_HOSTS = [
    ".".join(pieces)
    for pieces in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("central", "sonatype", "com"),
        ("oss", "sonatype", "org"),
        ("spark-packages", "org"),
        ("registry", "npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("gcr", "io"),
    ]
]

MACHINE_PATHS = [
    "/wo" + r"rk/[a-z]",
    "/tmp" + r"/helpers\b",
    "/ro" + r"ot/",
    "/ho" + r"me/[a-z]",
    "/Us" + r"ers/[a-z]",
]


def lines_matching(pattern: str) -> list[str]:
    compiled = re.compile(pattern)
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in tracked()
        for number, line in enumerate(text(file).splitlines(), start=1)
        if compiled.search(line)
    ]


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_no_file_names_a_package_registry(host: str) -> None:
    assert lines_matching(rf"(?<![\w-]){re.escape(host)}\b") == []


@pytest.mark.parametrize("path", MACHINE_PATHS)
def test_no_file_names_a_folder_of_somebodys_machine(path: str) -> None:
    assert lines_matching(path) == []


def test_no_file_reads_reference_material_that_stands_beside_the_repository() -> None:
    assert lines_matching(r"(?<![\w-])sha" r"red/") == []


def test_a_registry_that_is_named_would_be_found(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    offender = tmp_path / "settings.txt"
    offender.write_text("index = https://files." + REGISTRY_HOSTS[1] + "/simple\n")
    monkeypatch.setattr(f"{__name__}.tracked", lambda: [offender])
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert len(lines_matching(rf"(?<![\w-]){re.escape(REGISTRY_HOSTS[1])}\b")) == 1


def test_no_python_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {str(file.relative_to(ROOT)): len(text(file).splitlines()) for file in tracked(".py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_python_file_is_a_room_without_a_door_sign() -> None:
    nameless = {"utils", "util", "common", "helpers", "core", "base", "manager", "models", "types"}
    rooms = {
        str(file.relative_to(ROOT))
        for file in tracked(".py")
        if nameless & {*file.relative_to(ROOT).with_suffix("").parts}
    }
    assert rooms == set()
