"""Suites of Great Expectations in a declaration: where they are read from, and what of them is part of it."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slackwater.pipelines import Pipeline, expect
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash, load
from slackwater.pipelines.suites import LibraryMissing, Suite, require_library
from tests.integration.conftest import great_expectations as great_expectations

AT_LEAST_ONE = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
PIPELINE = """
from dataclasses import replace
from slackwater import expect
from slackwater.examples.departures import departures
mine = replace(departures, name="mine", expect=[{expect}])
"""


def written(folder: Path, suite: Mapping[str, Any] | str, name: str = "orders.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(suite if isinstance(suite, str) else json.dumps(suite))
    return path


def suite_json(*expectations: Mapping[str, Any], name: str = "orders") -> dict[str, Any]:
    """A suite as the library writes it, with what it adds by itself."""
    added = {"id": "0d3e", "meta": {}, "notes": None, "severity": "critical"}
    parts = [{**added, **item} for item in expectations]
    return {"name": name, "id": "77", "expectations": parts, "meta": {"great_expectations_version": "1.24.1"}}


def pipelines_file(folder: Path, expectation: str) -> Path:
    return written(folder, PIPELINE.format(expect=expectation), "mine.py")


def declared(folder: Path, expectation: str) -> Pipeline:
    return load(str(pipelines_file(folder, expectation)))["mine"]


def test_a_suites_file_lies_beside_the_file_that_declares_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "declared", suite_json(AT_LEAST_ONE), "suites/orders.json")
    monkeypatch.chdir(tmp_path)
    pipeline = declared(tmp_path / "declared", 'expect.suite("suites/orders.json", severity="warn")')
    assert pipeline.suites == (Suite("orders", ({**AT_LEAST_ONE, "severity": "critical"},), "warn"),)


def test_the_config_hash_covers_what_a_suite_expects_and_not_what_the_library_adds(tmp_path: Path) -> None:
    hashes = []
    for number, item in enumerate(
        (AT_LEAST_ONE, {**AT_LEAST_ONE, "id": "another"}, {**AT_LEAST_ONE, "kwargs": {"min_value": 2}})
    ):
        folder = tmp_path / str(number)
        written(folder, suite_json(item))
        hashes.append(config_hash(declared(folder, 'expect.suite("orders.json")')))
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_code_of_custom_expectations_is_part_of_the_declaration(tmp_path: Path) -> None:
    written(tmp_path, suite_json(AT_LEAST_ONE))
    written(tmp_path, "raise SystemExit('it is loaded when a run validates')", "checks.py")
    pipeline = declared(tmp_path, 'expect.suite("orders.json", custom="checks.py")')
    assert pipeline.suites[0].custom == (tmp_path / "checks.py").read_text()


def test_reading_a_suite_imports_nothing_of_the_library(tmp_path: Path) -> None:
    written(tmp_path, suite_json(AT_LEAST_ONE))
    path = pipelines_file(tmp_path, 'expect.suite("orders.json")')
    probe = (
        f"import sys; from slackwater.pipelines.registry import load; load({str(path)!r})['mine']; "
        "print({'great_expectations', 'pandas'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "there is no file"),
        ("{", "can't be read as JSON"),
        ("[]", "is no suite of Great Expectations 1"),
        ('{"expectation_suite_name": "orders", "expectations": []}', "is no suite of Great Expectations 1"),
        ('{"name": "orders", "expectations": []}', "the suite expects nothing"),
        ('{"name": "orders", "expectations": [{"expectation_type": "x"}]}', "an expectation without a type"),
    ],
)
def test_what_is_no_suite_is_refused_where_it_is_declared(
    tmp_path: Path, content: str | None, rule: str
) -> None:
    if content is not None:
        written(tmp_path, content)
    with pytest.raises(PipelineError, match=f"expect.suite.'orders.json'.: .*{re.escape(rule)}"):
        declared(tmp_path, 'expect.suite("orders.json")')


def test_a_suite_by_name_needs_a_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipelineError, match="name the context's folder with context=, or in SLACKWATER_GX"):
        expect.suite("orders")
    with pytest.raises(PipelineError, match=r"no context of Great Expectations is in .*nowhere"):
        expect.suite("orders", context=tmp_path / "nowhere")
    with pytest.raises(PipelineError, match="give the path of a suite's JSON file, its name, or an Expectat"):
        expect.suite(7)
    with pytest.raises(PipelineError, match="severity is 'critical'; it is 'reject' or 'warn'"):
        expect.suite("orders.json", severity="critical")  # type: ignore[arg-type]


def test_a_suite_of_the_users_own_context_is_read_from_it(
    great_expectations: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import great_expectations as gx

    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    suite = context.suites.add(
        gx.ExpectationSuite("orders", [gx.expectations.ExpectTableRowCountToBeBetween(min_value=1)])
    )
    expected = Suite("orders", ({**AT_LEAST_ONE, "severity": "critical"},))
    assert expect.suite(suite) == expect.suite("orders", context=context) == expected
    assert (
        expect.suite("orders", context=tmp_path)
        == expect.suite("orders", context=tmp_path / "gx")
        == expected
    )
    monkeypatch.setenv("SLACKWATER_GX_CONTEXT", str(tmp_path))
    assert expect.suite("orders") == expected
    # Elsewhere than in its own folder the library finds it.
    configuration = tmp_path / "gx" / "great_expectations.yml"
    text = configuration.read_text()
    assert "base_directory: expectations/" in text
    configuration.write_text(text.replace("base_directory: expectations/", "base_directory: our_suites/"))
    (tmp_path / "gx" / "expectations").rename(tmp_path / "gx" / "our_suites")
    assert expect.suite("orders") == expected
    with pytest.raises(PipelineError, match=r"does not give it: .*invoices"):
        expect.suite("invoices")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    with pytest.raises(LibraryMissing, match=r'^Pipeline .mine.: .*pip install "slackwater\[gx\]"'):
        require_library("Pipeline 'mine'")
