"""The site builds without a warning, asks the network for nothing, and says of the code what it says."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tracked import ROOT, tracked
from tests.docs.blocks import pages

ASSET = re.compile(
    r"<(?:script|img|link|iframe|source|audio|video|object|embed)\b[^>]*?"
    r"""\b(?:src|href|data)=["']?(?P<url>[^"'\s>]+)"""
)
IMPORTED = re.compile(r"""(?:@import\s+(?:url\()?|url\()["']?(?P<url>[^"')\s]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Any warning of the build is an error: a link that leads nowhere, a page outside of the
    navigation, a column without a meaning.
    """
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # Whoever asks a network fails: every proxy is a closed port of this machine.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    variables = {**os.environ, **closed, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return folder


def html_of(site: Path, page: str) -> str:
    path = site / page.removeprefix("docs/").removesuffix(".md").removesuffix("index") / "index.html"
    return path.read_text(encoding="utf-8")


def test_every_page_is_built(site: Path) -> None:
    for page in pages()[1:]:
        assert "<h1" in html_of(site, page), page


def test_no_asset_comes_from_the_network(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    assert any(file.suffix == ".css" for file in files)
    foreign = [
        (str(file.relative_to(site)), match["url"])
        for file in files
        for match in (ASSET if file.suffix == ".html" else IMPORTED).finditer(
            file.read_text(encoding="utf-8")
        )
        if re.match(r"(?:https?:)?//", match["url"])
    ]
    assert foreign == []


def test_an_asset_from_the_network_would_be_found() -> None:
    for text in ('<script defer src="https://a.net/x.js">', "<link rel=stylesheet href=//a.net/x.css>"):
        assert re.match(r"(?:https?:)?//", ASSET.search(text)["url"])
    assert IMPORTED.search('@import url("https://a.net/font.css")')["url"].startswith("https://")


def test_no_mark_is_left_without_what_it_stands_for(site: Path) -> None:
    assert [file for file in site.rglob("*.html") if "generated:" in file.read_text(encoding="utf-8")] == []


def test_the_reference_has_every_verb_table_and_argument(site: Path) -> None:
    from dataclasses import fields

    from slackwater import DeltaSource, Pipeline
    from slackwater.cli.command_line import VERBS
    from slackwater.tables.schemas import Shape, table_columns

    verbs, tables = html_of(site, "docs/reference/verbs.md"), html_of(site, "docs/reference/tables.md")
    arguments = html_of(site, "docs/reference/pipeline.md")
    assert [verb for verb in VERBS if f'<h2 id="{verb}">' not in verbs] == []
    assert [
        table for table in table_columns(Shape((), (), (), ())) if f"<code>{table}</code>" not in tables
    ] == []
    names = [field.name for kind in (Pipeline, DeltaSource) for field in fields(kind) if field.init]
    assert [name for name in names if f"<code>{name}</code>" not in arguments] == []


def test_the_settings_are_those_that_the_product_reads() -> None:
    named = re.compile(r"(?<![A-Z_])SLACKWATER_[A-Z_]*[A-Z]")
    read = {
        name
        for file in tracked()
        if file.relative_to(ROOT).parts[0] in ("slackwater", "jobs", "dags", "infra")
        for name in named.findall(file.read_text(encoding="utf-8", errors="replace"))
    }
    described = set(named.findall((ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")))
    assert (
        read - {"SLACKWATER_SPARK"} == described
    )  # that one is the name of an Airflow connection in its variable


def test_the_number_of_recorded_cases_is_right_wherever_it_is_said() -> None:
    traces = sorted((ROOT / "tests/conformance/traces").glob("*.jsonl.gz"))
    cases = sum(gzip.decompress(file.read_bytes()).count(b"\n") for file in traces)
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in [*pages(), "slackwater/windowing/README.md"]
    }
    counts_by_text = {
        name: set(re.findall(r"([\d,]{3,}) (?:recorded )?cases", text)) for name, text in texts.items()
    }
    assert {number for numbers in counts_by_text.values() for number in numbers} == {f"{cases:,}"}


def test_links_between_files_of_the_repository_lead_somewhere() -> None:
    """As they are read on the repository's own pages, where no site is built."""
    broken = []
    for name in ["CHANGELOG.md", "slackwater/windowing/watermarks/README.md", *pages()]:
        text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target and not ((ROOT / name).parent / target).exists():
                broken.append((name, target))
    assert broken == []


def test_files_and_folders_that_pages_name_exist() -> None:
    path = re.compile(r"`((?:dags|docs|infra|jobs|slackwater|tests)/[\w./-]*)`")
    named = {
        (page, name) for page in pages() for name in path.findall((ROOT / page).read_text(encoding="utf-8"))
    }
    assert named
    assert sorted((page, name) for page, name in named if not (ROOT / name).exists()) == []


def test_the_drawing_of_the_rooms_names_rooms() -> None:
    drawing = (ROOT / "docs/drawings/rooms.svg").read_text(encoding="utf-8")
    rooms = re.findall(r'class="m">([^<]+)<', drawing)
    folders = {str(file.parent.relative_to(ROOT)) for file in tracked(".py")}
    assert rooms
    assert [room for room in rooms if not any(f"/{folder}".endswith(f"/{room}") for folder in folders)] == []


def test_no_page_of_the_documentation_is_part_of_the_wheel() -> None:
    import tomllib

    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["slackwater", "jobs"]
    assert not (ROOT / "slackwater" / "docs").exists()
