"""What of a user's files a pipeline rests on: the statements of its file that its definition reaches by
names, and the files that these import. The code hash is taken over that, so that a change elsewhere is none
of the pipeline's.

A file is read as a list of top-level statements. Reached are

    1. the statements that bind the pipeline's name,
    2. every statement that binds a name which a reached statement mentions, however deep inside it,
    3. every statement that may do more than bind its names, as `REGISTRY[name] = …` or a call of a function
       that might change something; these are reached whatever the pipeline (`effects.Effects`),
    4. the whole of each module beside the file that a reached statement imports, and of what that imports.

Names are looked up by their text alone: an inner variable called like a constant reaches the constant. So the
reach is never less than what Python would use. Where names can't tell (star imports, `globals()`, `exec`,
`importlib`), there is no reach, and all files count.
"""

import ast
from collections.abc import Collection, Mapping, Sequence

from slackwater.pipelines.effects import Effects
from slackwater.pipelines.user_modules import (
    Statement,
    UnboundedReach,
    UserModule,
    imported_modules,
    top_package,
)


def text_reached(files: Mapping[str, bytes], file: str, names: Sequence[str]) -> dict[str, bytes] | None:
    """Of the user's `files` (path in an archive → text) what the objects called `names` in `file` rest on: of
    that file the imports of the names that are used, sorted, and the statements that are reached, in their
    order; of others the whole text. None where names do not tell.
    """
    try:
        reach = _Reach({_module_name(path): (path, text) for path, text in files.items()}, _module_name(file))
        return reach.of(names)
    except UnboundedReach:
        return None


class _Reach:
    """The statements and files that are reached, as they are found."""

    def __init__(self, files: Mapping[str, tuple[str, bytes]], main_name: str) -> None:
        self._files, self._main_name = files, main_name
        self._modules: dict[str, UserModule] = {}
        self._whole_modules: set[str] = set()
        self._effects = Effects(self._module)

    def of(self, names: Sequence[str]) -> dict[str, bytes]:
        module = self._require(self._main_name)
        if not names or any(name not in module.statements_by_name for name in names):
            raise UnboundedReach
        statements_by_id: dict[int, Statement] = {}
        queue = [statement for name in names for statement in module.statements_by_name[name]]
        queue += [
            item
            for item in module.statements
            if _is_future(item.node) or self._effects.may_have(module, item.node)
        ]
        while queue:
            statement = queue.pop()
            if id(statement) in statements_by_id:
                continue
            statements_by_id[id(statement)] = statement
            for name in statement.mentions:
                queue += module.statements_by_name.get(name, ())
            self._add_imports(module, statement.node)
        # A module that is imported and not reached is run all the same: what it does besides may matter.
        for item in module.statements:
            if id(item) not in statements_by_id:
                self._add_modules_with_effects(module, item.node)
        text = dict(self._files[name] for name in self._whole_modules)
        if self._main_name not in self._whole_modules:
            in_order = [item for item in module.statements if id(item) in statements_by_id]
            text[self._files[self._main_name][0]] = _text_of(
                in_order, {*names, *(n for i in in_order for n in i.mentions)}
            )
        return dict(sorted(text.items()))

    def _module(self, name: str) -> UserModule | None:
        """The user's module of that name; None where it is none of the user's."""
        if name not in self._files:
            return None
        if name not in self._modules:
            path, text = self._files[name]
            self._modules[name] = UserModule(name, text, path.endswith("__init__.py"))
        return self._modules[name]

    def _require(self, name: str) -> UserModule:
        module = self._module(name)
        assert module is not None
        return module

    def _add_imports(self, module: UserModule, node: ast.AST) -> None:
        for name in imported_modules(module, node):
            self._add_whole(name)

    def _add_whole(self, name: str) -> None:
        for part in _with_parents(name):
            if part in self._whole_modules:
                continue
            imported_module = self._module(part)
            if imported_module is not None:
                self._whole_modules.add(part)
                self._add_imports(imported_module, imported_module.tree)

    def _add_modules_with_effects(self, module: UserModule, node: ast.AST) -> None:
        queue, visited_names = list(imported_modules(module, node)), set()
        while queue:
            for part in _with_parents(queue.pop()):
                imported_module = None if part in visited_names else self._module(part)
                visited_names.add(part)
                if imported_module is None:
                    continue
                queue += imported_modules(imported_module, imported_module.tree)
                if any(
                    self._effects.may_have(imported_module, item.node) for item in imported_module.statements
                ):
                    self._add_whole(part)


def _with_parents(name: str) -> list[str]:
    """`a.b.c` → a, a.b, a.b.c: importing one runs all of them."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _text_of(statements: Sequence[Statement], used_names: Collection[str]) -> bytes:
    """The text of statements. Of imports only the `used_names` count, so that a line may import more for
    others.
    """
    imports: set[str] = set()
    lines = []
    for statement in statements:
        node = statement.node
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or top_package(alias.name)) in used_names or _is_future(node):
                    imports.add(ast.unparse(_import_of(node, alias)) + "\n")
        else:
            lines.append(statement.text.rstrip(b"\r\n") + b"\n")
    return "".join(sorted(imports)).encode() + b"".join(lines)


def _import_of(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _is_future(node: ast.stmt) -> bool:
    """Whether it changes how the whole file is read."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
