"""Names of product code are nouns for things, verbs with their objects for actions, claims for Booleans.

A participle, an adjective or an adverb alone says that something happened, not what the value is. Read from
the source: every name that is bound (variables, parameters, fields, functions, classes), wherever it stands.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tracked import ROOT, tracked

PRODUCT = ("jobs", "windowing", "dags", "slackwater")
WORDS = """
    again alone already asked behind came done found given gone held here kept known left lost made meant
    needed once own put rest said same seen sent some taken there those told took wanted was went were whole
"""
BARE_WORDS = frozenset(WORDS.split())
STILL = 444  # so many of them stand in the code; the number falls with each that goes


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of all that a module binds or defines, without the underscores in front."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name.strip("_"), node.lineno
            case ast.arg():
                yield node.arg.strip("_"), node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id.strip("_"), node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr.strip("_"), node.lineno
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield name.strip("_"), node.lineno


def product_files() -> list[Path]:
    files = [file for file in tracked(".py") if file.relative_to(ROOT).parts[0] in PRODUCT]
    assert {file.relative_to(ROOT).parts[0] for file in files} == set(PRODUCT)
    return files


def test_no_bare_participle_or_adverb_becomes_a_name() -> None:
    bare = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in product_files()
        for name, line in bound_names(ast.parse(file.read_text(encoding="utf-8")))
        if name in BARE_WORDS
    ]
    assert len(bare) <= STILL, "\n".join(bare)


def test_a_bare_word_would_be_noticed() -> None:
    source = "def found(told):\n    _kept = self.held = 1\n    match told:\n        case [left, *rest]: ...\n"
    names = {name for name, _ in bound_names(ast.parse(source))}
    assert names == {"found", "told", "kept", "held", "left", "rest"}
