"""A Python file of the user's as a list of top-level statements, with the names that each binds and mentions.

Read by its text; nothing is run.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_DYNAMIC = frozenset(
    ["globals", "locals", "vars", "eval", "exec", "compile", "__import__", "setattr", "delattr", "sys"]
)
_DYNAMIC_MODULES = frozenset(["importlib", "runpy", "imp", "pkgutil", "sys", "builtins", "inspect", "ctypes"])


class UnboundedReach(Exception):
    """Names do not tell what a file rests on."""


@dataclass(frozen=True)
class Statement:
    """One top-level statement: the names that it binds, those that it mentions, and its lines."""

    node: ast.stmt
    binds: frozenset[str]
    mentions: frozenset[str]
    text: bytes


class UserModule:
    """A Python file of the user's as top-level statements.

    Raises:
        UnboundedReach: it is no valid Python, or does something by which names stop telling.
    """

    def __init__(self, name: str, source: bytes, is_package: bool = False) -> None:
        self.name, self.is_package, self.source = name, is_package, source
        try:
            self.tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise UnboundedReach from error
        _check_bounded(self.tree)
        lines = source.splitlines(keepends=True)
        self.statements = tuple(_statement(node, lines) for node in self.tree.body if not _is_script(node))

    @cached_property
    def statements_by_name(self) -> Mapping[str, list[Statement]]:
        """Name → the statements that bind it."""
        statements: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for name in statement.binds:
                statements.setdefault(name, []).append(statement)
        return statements

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that a `from … import` names."""
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


def imported_modules(module: UserModule, node: ast.AST) -> Iterator[str]:
    """The modules that statements in `node` import, or may import: `from a import b` names `a` and `a.b`."""
    for item in ast.walk(node):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            base = module.absolute(item)
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in item.names)


def _check_bounded(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        is_unbounded = (
            (isinstance(node, ast.Name) and node.id in _DYNAMIC)
            or (isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__globals__"))
            or (
                isinstance(node, ast.Import)
                and any(top_package(alias.name) in _DYNAMIC_MODULES for alias in node.names)
            )
            or (
                isinstance(node, ast.ImportFrom)
                and (
                    any(alias.name == "*" for alias in node.names)
                    or (not node.level and top_package(node.module or "") in _DYNAMIC_MODULES)
                )
            )
            or (isinstance(node, ast.FunctionDef) and node.name == "__getattr__" and node in tree.body)
        )
        if is_unbounded:
            raise UnboundedReach


def top_package(module: str) -> str:
    return module.partition(".")[0]


def _is_script(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`, which no import runs."""
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")
    )


def _statement(node: ast.stmt, lines: Sequence[bytes]) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    first = min(item.lineno for item in (node, *decorators)) - 1
    mentions = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return Statement(
        node, frozenset(names_bound(node)), frozenset(mentions), b"".join(lines[first : node.end_lineno])
    )


def names_bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds where it stands, also inside of `if`, `for`, `try` and `with`; and
    those that functions in it declare global.
    """
    for item in ast.walk(node):
        if isinstance(item, ast.Global):
            yield from item.names
        elif isinstance(item, ast.NamedExpr):
            yield item.target.id
    yield from _bound_here(node)


def _bound_here(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.Import(names=names):
            yield from (alias.asname or top_package(alias.name) for alias in names)
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _bound_here(child)
