"""Which pipelines exist: the examples that we ship, and those of the user's own file or module.

A user's file is loaded under a name of its own, so that a `jobs.py` or `windowing.py` beside it can't take
the place of ours. No Spark.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines.canonical import USER_MODULE
from slackwater.jobs.pipelines.code import FORMER_PACKAGES, PipelineCode, front_door_lines
from slackwater.jobs.pipelines.pipeline import Pipeline

EXAMPLES = (
    "slackwater.jobs.examples.departures",
    "slackwater.jobs.examples.nexmark",
    "slackwater.jobs.examples.turnarounds",
)
VARIABLE = "SLACKWATER_PIPELINES"


# Code hashes that a version before the front door recorded of our examples, which were reformatted since.
_FORMER_CODE = {
    "departures": "7adf5145804e4c37f3dfcbc9d1d0b0ff4d653fe9a0e155e6bfb76c6c3b52a57c",
    "nexmark": "bd47ad2577e5fe7e86f163d1d8efe0e44490890025199991315a74d589d9be0e",
    "turnarounds": "455cefc2045611b64f5583693b073e1e69023af6572d787820c57cef934d0d7c",
}

# The modules that this process has loaded for its user, by name: what executors don't have.
_LOADED: dict[str, ModuleType] = {}


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
                f"no pipeline is called {name!r}; registered: {known}. Add your own file with --pipelines "
                f"FILE or {VARIABLE}.",
                name=name,
            )
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._pipelines))

    def __len__(self) -> int:
        return len(self._pipelines)

    def __contains__(self, name: object) -> bool:
        return name in self._pipelines

    def add(self, module: ModuleType) -> int:
        """Register every `Pipeline` that `module` holds; returns how many. A name that stands twice is
        refused.
        """
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
        """The files whose text is part of the code hash: the pipeline's own and, for a user's, those that
        `_own_files` names.
        """
        return sorted(self._files(name).values())

    def code(self, name: str) -> PipelineCode:
        """What the pipeline's code is recognised by: its sources and our version."""
        module = self._modules[self[name].name].__name__
        former = _FORMER_CODE.get(module.rpartition(".")[2]) if module in EXAMPLES else None
        return PipelineCode.of(self._files(name), product_version(), () if former is None else (former,))

    def _files(self, name: str) -> dict[str, Path]:
        module = self._modules[self[name].name]
        own = Path(str(module.__file__))
        return {own.name: own} if module.__name__ in EXAMPLES else _own_files(module)


def config_hash(pipeline: Pipeline) -> str:
    """SHA-256 over the canonical JSON of the declarations."""
    return hashlib.sha256(
        json.dumps(pipeline.describe(), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def loaded_by_value() -> list[ModuleType]:
    """The user's files that this process has loaded: no other process could import them by their names."""
    return [module for module in _loaded() if module.__name__.startswith(USER_MODULE)]


def loaded_files() -> dict[str, Path]:
    """The user's code that is imported by name, as an archive would hold it: modules beside a file, packages
    that it imported, and modules given by name. Only what this process finds there, too: nothing may take the
    place of another module.
    """
    files = {name: path for module in _loaded() for name, path in _own_files(module).items()}
    by_value = {Path(str(module.__file__)) for module in loaded_by_value()}
    origins = {top: _origin(top) for top in set(map(_top, files))}
    return {
        name: path
        for name, path in files.items()
        if path not in by_value and _is_at(origins[_top(name)], path)
    }


def _loaded() -> list[ModuleType]:
    return [module for name, module in _LOADED.items() if sys.modules.get(name) is module]


def _top(name: str) -> str:
    return name.partition("/")[0].removesuffix(".py")


def _origin(top: str) -> Path | None:
    """Where this process finds a module or package of that name, if not in the standard library."""
    found = None if top in sys.stdlib_module_names else PathFinder.find_spec(top)
    return None if found is None or found.origin is None else Path(found.origin)


def _is_at(origin: Path | None, path: Path) -> bool:
    """Whether `path` is that module, or of that package."""
    return origin is not None and (
        origin == path or (origin.name == "__init__.py" and origin.parent in path.parents)
    )


def _own_files(module: ModuleType) -> dict[str, Path]:
    """Path in an archive → file: the Python files beside a module, and the packages beside it that have been
    imported; of a module in a package all files of the package.
    """
    own = Path(str(module.__file__))
    package = module.__name__.partition(".")[0] if "." in module.__name__ else None
    if package is not None:
        return _package_files(package)
    files = {path.name: path for path in (own, *own.parent.glob("*.py"))}
    for name, other in list(sys.modules.items()):
        where = (
            vars(other).get("__file__") if isinstance(other, ModuleType) else None
        )  # of a lazy module getattr would import it
        if "." not in name and where is not None and Path(where) == own.parent / name / "__init__.py":
            files |= _package_files(name)
    return files


def _package_files(name: str) -> dict[str, Path]:
    return {
        f"{name}/{path.as_posix().removeprefix(folder.as_posix() + '/')}": path
        for folder in map(Path, sys.modules[name].__path__)
        for path in folder.rglob("*.py")
    }


@cache
def product_version() -> str:
    """The installed version of slackwater."""
    try:
        return version("slackwater")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


def load(pipelines: str | None = None) -> Registry:
    """The examples and, when `pipelines` (a file or a module; default: the variable SLACKWATER_PIPELINES) is
    given, the user's own.

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
            raise PipelinesFileError(
                f"{wanted}: declares no Pipeline at its top level; see the README, 'Define a pipeline'.",
                path=wanted,
            )
    return registry


def _load(wanted: str) -> ModuleType:
    path = Path(wanted).expanduser()
    if path.suffix != ".py" and not path.exists() and os.sep not in wanted:
        return _import(wanted)
    if not path.is_file():
        raise PipelinesFileError(
            f"{wanted}: there is no such file; --pipelines takes a Python file or a module name.", path=wanted
        )
    path = path.resolve()
    unique = f"{USER_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise PipelinesFileError(f"{wanted}: is no Python file; its name must end in .py.", path=wanted)
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = _LOADED[unique] = module
    # Helper modules beside the file are found after everything installed, so that none of them can shadow
    # ours.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[unique], _LOADED[unique]
        if isinstance(error, UsageError):
            raise
        raise _former_import(error) or _not_loaded(path, error) from error
    return module


def _former_import(error: BaseException) -> PipelinesFileError | None:
    """The refusal of a file that imports us under a former name, with the lines to write; None for other
    errors.

    A package called `jobs` may be the user's: refused is what finds nothing, or a folder of ours.
    """
    if not isinstance(error, ImportError) or (error.name or "").partition(".")[0] not in FORMER_PACKAGES:
        return None
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = Path(frame.f_code.co_filename)
        if file.is_file() and (lines := front_door_lines(file.read_text(encoding="utf-8"))):
            return PipelinesFileError(
                f"{file}: {error}. Slackwater is imported by one name now; write\n"
                + "".join(f"    {line}\n" for line in lines)
                + "in place of the imports of jobs and windowing. Aggregates are agg.count(), agg.max(), …",
                path=str(file),
            )
    return None


def _not_loaded(what: Path | str, error: BaseException) -> PipelinesFileError:
    """The error for code that fails, or ends the process, when it is loaded."""
    told = str(error)
    if isinstance(error, SystemExit):
        told = (
            f"sys.exit({error.code!r}); what is to be done only in a script belongs below `if __name__ == "
            '"__main__":`.'
        )
    return PipelinesFileError(f"{what}: {type(error).__name__} while loading: {told}", path=str(what))


def _import(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise _former_import(error) or PipelinesFileError(
            f"{name}: no such file, and no module of that name can be imported ({error}).", path=name
        ) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError):
            raise
        raise _not_loaded(name, error) from error
    _LOADED[name] = module
    return module
