"""Tests hold what the product does, and reach into no private name of it.

Read from the source: every `value._name` but on `self` and `cls`, every import of such a name, every string
that names one for `setattr` or `getattr`, where the product binds that name.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tracked import ROOT, syntax_tree, tracked

PRODUCT = ("slackwater", "jobs", "dags")
BY_NAME = {"setattr", "getattr", "delattr", "hasattr", "object"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def files_of(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for file in tracked(".py"):
        if file.relative_to(ROOT).parts[0] in folders:
            yield file.relative_to(ROOT), syntax_tree(file)


def bound_privately(tree: ast.Module) -> Iterator[str]:
    """The private names that a module binds: functions, classes, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def reached(tree: ast.Module, private: set[str]) -> Iterator[str]:
    """What a test reaches of the names in `private`, as it stands there."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if name in private:
                yield ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("slackwater"):
                yield from (f"{module}.{alias.name}" for alias in names if is_private(alias.name))
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in BY_NAME:
                strings = [item.value for item in node.args if isinstance(item, ast.Constant)]
                yield from (str(name) for name in strings if str(name).rpartition(".")[2] in private)


def test_no_test_reaches_into_a_private_name_of_the_product() -> None:
    private = {name for _, tree in files_of(*PRODUCT) for name in bound_privately(tree) if is_private(name)}
    assert private
    offenders = {str(file): list(reached(tree, private)) for file, tree in files_of("tests")}
    assert {file: names for file, names in offenders.items() if names} == {}


def test_a_private_name_would_be_noticed() -> None:
    source = "from slackwater import _a\nvalue._b()\nself._b\npatch.setattr(value, '_b', 1)\n"
    assert {*reached(ast.parse(source), {"_a", "_b"})} == {"slackwater._a", "value._b", "_b"}
