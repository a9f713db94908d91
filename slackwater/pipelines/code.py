"""The code hash of a pipeline: SHA-256 over Slackwater's version, the file that defines the pipeline, and the
user's files that it imports. Files are read as text; nothing is run or imported.

A module that imports a pipeline holds the same object as the one that defines it, and nothing of its own file
is part of that pipeline's code.

A module whose name is computed at run time (`importlib.import_module(name)`) is not seen.
"""

import ast
import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path
from types import GeneratorType, ModuleType

from slackwater.pipelines.pipeline import Pipeline


def code_hash(version: str, files: Mapping[str, Path]) -> str:
    """Hexadecimal SHA-256 over the product's `version` and `files` (path in an archive → file)."""
    digest = hashlib.sha256(version.encode())
    for name, path in sorted(files.items()):
        digest.update(b"\0" + name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def imported_files(files: Mapping[str, Path], name: str) -> dict[str, Path]:
    """`name` of the user's `files` (path in an archive → file), and the others that it imports, directly or
    through each other.
    """
    names_by_module = {_module(other): other for other in files}
    files_by_name: dict[str, Path] = {}
    queue = [name]
    while queue:
        file = queue.pop()
        if file not in files_by_name:
            files_by_name[file] = files[file]
            queue += [
                names_by_module[part]
                for module in _imported_modules(file, files[file].read_bytes())
                for part in _with_parents(module)
                if part in names_by_module
            ]
    return files_by_name


def _imported_modules(file: str, source: bytes) -> Iterator[str]:
    """The module of the file itself and what its text imports; `from a import b` names `a` and `a.b`."""
    module = _module(file)
    yield module
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a file that is no Python imports nothing
        return
    package = module.split(".") if file.endswith("__init__.py") else module.split(".")[:-1]
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = [*parents, *([node.module] if node.module else [])]
            yield ".".join(base)
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements below `tree`. Expressions, of which a text has ten times as many, hold no imports."""
    queue = [tree]
    while queue:
        node = queue.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            queue += getattr(node, part, ())


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _with_parents(module: str) -> list[str]:
    """`a.b.c` → a, a.b, a.b.c: importing one runs all of them."""
    parts = module.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def pipelines_in(module: ModuleType) -> dict[int, Pipeline]:
    """The pipelines that the names of a module stand for, by identity: also those of a list, tuple, set or
    mapping that holds nothing else, and of a generator called `pipelines`, which becomes a list.
    """
    values = vars(module)
    if isinstance(values.get("pipelines"), GeneratorType):
        values["pipelines"] = list(values["pipelines"])
    return {id(item): item for value in values.values() for item in _pipelines_of(value)}


def _pipelines_of(value: object) -> Iterable[Pipeline]:
    if isinstance(value, Pipeline):
        return [value]
    items = list(value.values()) if isinstance(value, Mapping) else value
    is_collection = type(items) in (list, tuple, set)
    if not is_collection or not all(isinstance(item, Pipeline) for item in items):  # type: ignore[attr-defined]
        return []
    return items  # type: ignore[return-value]


def defining_modules(module: ModuleType, importers: Collection[str] = ()) -> dict[int, ModuleType]:
    """The identity of each pipeline in `module` → the module that defines it: `module` itself, or one that it
    imports. `importers` are the modules on the way to this one.
    """
    modules = dict.fromkeys(pipelines_in(module), module)
    if modules:
        names = {*importers, module.__name__}
        for imported_module in _imported_by(module):
            if imported_module.__name__ not in names and not modules.keys().isdisjoint(
                pipelines_in(imported_module)
            ):
                further = defining_modules(imported_module, names)
                modules |= {key: further[key] for key in modules.keys() & further.keys()}
    return modules


def _imported_by(module: ModuleType) -> list[ModuleType]:
    """The modules that the text of a loaded module imports, as this process has them."""
    names: set[str] = set()
    for node in _statements(ast.parse(Path(str(module.__file__)).read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]
