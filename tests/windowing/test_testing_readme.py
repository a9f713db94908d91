"""The README of windowing keeps its word: its test runs, its recipes are the tested ones, its names and test
names exist.
"""

import importlib
import re

import pytest

from tests.architecture.tracked import ROOT
from tests.contracts.leaks import LEAKS
from tests.windowing.recipes.memory import RECIPES

FOLDER = ROOT / "slackwater" / "windowing"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", README, flags=re.MULTILINE | re.DOTALL))


def code_blocks(section):
    return re.findall(r"^```python\n(.*?)^```", SECTIONS[section], flags=re.MULTILINE | re.DOTALL)


def table_rows(section):
    rows = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def resolve(dotted):
    """The module or attribute of a dotted name."""
    for cut in range(len(parts := dotted.split(".")), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            value = getattr(value, attribute)
        return value
    raise ModuleNotFoundError(dotted)


def test_the_test_of_three_runs_has_under_twenty_lines_and_passes():
    (block,) = code_blocks("A user's test: three runs in under twenty lines")
    assert len([line for line in block.splitlines() if line.strip()]) < 20
    assert block.count("with runs.run(") == 3
    names = {}
    exec(compile(block, "slackwater/windowing/README.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


def test_every_recipe_is_shown_as_it_is_tested():
    shown = code_blocks("Recipes for large windows")
    sources = [
        (ROOT / (recipe.__name__.replace(".", "/") + ".py")).read_text(encoding="utf-8") for recipe in RECIPES
    ]
    assert len(shown) == len(sources)
    for block, source, recipe in zip(shown, sources, RECIPES, strict=True):
        assert block in source
        assert f"../../{recipe.__name__.replace('.', '/')}.py" in README


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(slackwater(?:\.\w+)+)`", README))))
def test_every_full_name_exists(name):
    resolve(name)


def test_the_list_of_what_is_left_behind_is_the_tested_one():
    shown = table_rows("Where Flink leaves something behind, and so do we")
    assert shown == [[leak.what, leak.why, leak.until] for leak in LEAKS]


def test_every_difference_says_its_switch():
    rows = table_rows("Differences from Flink, each on purpose and with its switch")
    assert rows
    assert [row[0] for row in rows if len(row) != 4 or not row[3]] == []


def test_every_link_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []
