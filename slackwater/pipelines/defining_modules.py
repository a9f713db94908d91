"""Which module defines a pipeline: one that imports it holds the same object, and nothing of its own file is
part of that pipeline's code.

Reads the text of modules that are loaded; imports none.
"""

import ast
import sys
from collections.abc import Collection
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from slackwater.pipelines.pipeline import Pipeline


def pipelines_in(module: ModuleType) -> dict[int, Pipeline]:
    """The pipelines that the names of a module stand for, by identity."""
    return {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}


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
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]
