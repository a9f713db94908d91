"""Names of product code are nouns for things, verbs with their objects for actions, claims for Booleans.

A participle, an adjective or an adverb alone says that something happened, not what the value is. Read from
the source: every name that is bound (variables, parameters, fields, functions, classes), wherever it stands.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tracked import ROOT, syntax_tree, tracked

PRODUCT = ("slackwater", "jobs", "dags")
WORDS = """
    again alone already asked behind came done found given gone held here kept known left lost made meant
    needed once own put rest said same seen sent some taken there those told took wanted was went were whole
"""
BARE_WORDS = frozenset(WORDS.split())
# Words that are the names of others: Flink's and RocksDB's `put`, an argument of the command line.
ALLOWED_WORDS = frozenset({"put", "left"})
# Participles that are columns, fields of JSON, verdicts, names of Flink, Delta or Arrow, or what users write.
ALLOWED_PARTICIPLES = frozenset(
    [
        "checked",
        "closed",
        "compacted",
        "erased",
        "expected",
        "failed",
        "fixed",
        "hidden",
        "kept",
        "observed",
        "passed",
        "pickled",
        "published",
        "punctuated",
        "quoted",
        "recorded",
        "removed",
        "replayed",
        "stored",
        "supported",
        "unexpected",
        "vacuumed",
        "warned",
        "vectorized",
    ]
)
NOUNS = frozenset({"feed", "need", "red", "seed", "speed"})
# Made for each element or row: by keyword they take half as long again.
PER_ROW = {"LoggedPane", "StateEntry", "TimerRow", "WindowLife"}
MOST_POSITIONS = 5


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


def product_trees() -> Iterator[tuple[Path, ast.Module]]:
    for file in product_files():
        yield file.relative_to(ROOT), syntax_tree(file)


def is_participle(name: str) -> bool:
    """Whether a name is one word that ends as a participle does."""
    word = name.lower()
    is_one_word = "_" not in word and sum(letter.isupper() for letter in name) in (0, 1, len(name))
    return is_one_word and word.endswith("ed") and word not in NOUNS


def positions(function: ast.FunctionDef) -> int:
    """How many arguments a function takes by position, without self."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def records_by_position(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(class, line) of each call of a class with more than five arguments by position."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
                if name.lstrip("_")[:1].isupper() and len(arguments) > MOST_POSITIONS:
                    yield name, node.lineno


def test_no_bare_participle_or_adverb_becomes_a_name() -> None:
    bare = [
        f"{file}:{line}: {name}"
        for file, tree in product_trees()
        for name, line in bound_names(tree)
        if (name in BARE_WORDS and name not in ALLOWED_WORDS | ALLOWED_PARTICIPLES)
        or (is_participle(name) and name.lower() not in ALLOWED_PARTICIPLES)
    ]
    assert bare == []


def test_every_word_that_is_allowed_stands_somewhere() -> None:
    names = {name.lower() for _, tree in product_trees() for name, _ in bound_names(tree)}
    assert (ALLOWED_WORDS | ALLOWED_PARTICIPLES) - names == set()


def test_no_function_takes_more_than_five_arguments_by_position() -> None:
    long_ones = [
        f"{file}:{node.lineno}: {node.name}"
        for file, tree in product_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and positions(node) > MOST_POSITIONS
    ]
    assert long_ones == []


def test_records_of_more_than_five_fields_are_built_by_keyword() -> None:
    by_position = [
        f"{file}:{line}: {name}"
        for file, tree in product_trees()
        for name, line in records_by_position(tree)
        if name not in PER_ROW | {"TypeVar"}
    ]
    assert by_position == []


def test_a_class_name_means_one_thing_in_the_whole_product() -> None:
    files: dict[str, list[str]] = {}
    for file, tree in product_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(str(file))
    assert len(files) > 500, "nothing would be checked"
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


def test_a_bare_word_would_be_noticed() -> None:
    source = "def found(told):\n    _kept = self.held = 1\n    match told:\n        case [left, *rest]: ...\n"
    names = {name for name, _ in bound_names(ast.parse(source))}
    assert names == {"found", "told", "kept", "held", "left", "rest"}


def test_a_participle_would_be_noticed() -> None:
    words = ["stored", "Prepared", "COMPARED", "feed", "stored_tables", "FlinkFailed", "has_fired"]
    assert [word for word in words if is_participle(word)] == ["stored", "Prepared", "COMPARED"]


def test_a_long_signature_and_a_record_by_position_would_be_noticed() -> None:
    tree = ast.parse("def f(self, a, b, c, d, e, g): ...\nRow(1, 2, 3, 4, 5, 6)\nrow(1, 2, 3, 4, 5, 6)\n")
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert positions(tree.body[0]) == 6
    assert list(records_by_position(tree)) == [("Row", 2)]
