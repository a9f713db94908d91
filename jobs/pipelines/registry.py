"""Which pipelines exist: the examples that we ship, and those of the user's own file or module.

A user's file is loaded under a name of its own, so that a `jobs.py` or `windowing.py` beside it can't take the place of ours. No Spark.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from jobs.errors import UsageError
from jobs.pipelines.canonical import USER_MODULE
from jobs.pipelines.pipeline import Pipeline

EXAMPLES = ("jobs.examples.departures", "jobs.examples.turnarounds")
VARIABLE = "SLACKWATER_PIPELINES"


class UnknownPipeline(UsageError):
    """No pipeline of that name is registered."""


class PipelinesFileError(UsageError):
    """The user's file or module can't be loaded, or declares nothing."""


class Registry(Mapping[str, Pipeline]):
    """The registered pipelines by name, with the sources of each."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Pipeline] = {}
        self._modules: dict[str, ModuleType] = {}

    def __getitem__(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            known = ", ".join(sorted(self._pipelines)) or "none"
            raise UnknownPipeline(
                f"no pipeline is called {name!r}; registered: {known}. Add your own file with --pipelines FILE or {VARIABLE}.", name=name
            )
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._pipelines))

    def __len__(self) -> int:
        return len(self._pipelines)

    def __contains__(self, name: object) -> bool:
        return name in self._pipelines

    def add(self, module: ModuleType) -> int:
        """Register every `Pipeline` that `module` holds; returns how many. A name that stands twice is refused."""
        found = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
        for pipeline in found.values():
            known = self._pipelines.get(pipeline.name)
            if known is not None and known != pipeline:
                raise PipelinesFileError(
                    f"{module.__file__}: a pipeline called {pipeline.name!r} is already registered by "
                    f"{self._modules[pipeline.name].__file__}; give one of them another name.",
                    name=pipeline.name,
                )
            self._pipelines[pipeline.name] = pipeline
            self._modules[pipeline.name] = module
        return len(found)

    def sources(self, name: str) -> list[Path]:
        """The files whose text is part of the code hash: the pipeline's own and, for a user's file, the Python files beside it."""
        pipeline = self[name]
        own = Path(str(self._modules[pipeline.name].__file__))
        if self._modules[pipeline.name].__name__ in EXAMPLES:
            return [own]
        return sorted({own, *own.parent.glob("*.py")})

    def code_hash(self, name: str) -> str:
        """SHA-256 over our version and the pipeline's sources (names and bytes)."""
        digest = hashlib.sha256(product_version().encode())
        for path in self.sources(name):
            digest.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()


def config_hash(pipeline: Pipeline) -> str:
    """SHA-256 over the canonical JSON of the declarations."""
    return hashlib.sha256(json.dumps(pipeline.describe(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def product_version() -> str:
    """The installed version of slackwater."""
    try:
        return version("slackwater")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


def load(pipelines: str | None = None) -> Registry:
    """The examples and, when `pipelines` (a file or a module; default: the variable SLACKWATER_PIPELINES) is given, the user's own.

    Raises:
        PipelinesFileError: the file is missing, fails to load, or declares no pipeline.
    """
    registry = Registry()
    for name in EXAMPLES:
        registry.add(importlib.import_module(name))
    wanted = pipelines or os.environ.get(VARIABLE)
    if wanted:
        module = _load(wanted)
        if not registry.add(module):
            raise PipelinesFileError(f"{wanted}: declares no Pipeline at its top level; see the README, 'Define a pipeline'.", path=wanted)
    return registry


def _load(wanted: str) -> ModuleType:
    path = Path(wanted).expanduser()
    if path.suffix != ".py" and not path.exists() and os.sep not in wanted:
        return _import(wanted)
    if not path.is_file():
        raise PipelinesFileError(f"{wanted}: there is no such file; --pipelines takes a Python file or a module name.", path=wanted)
    path = path.resolve()
    unique = f"{USER_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise PipelinesFileError(f"{wanted}: is no Python file; its name must end in .py.", path=wanted)
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    # Helper modules beside the file are found after everything installed, so that none of them can shadow ours.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[unique]
        if isinstance(error, UsageError):
            raise
        raise PipelinesFileError(f"{path}: {type(error).__name__} while loading: {error}", path=str(path)) from error
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PipelinesFileError(f"{name}: no such file, and no module of that name can be imported ({error}).", path=name) from error
