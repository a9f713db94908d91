"""Which pipelines exist: the ones in the user's file or module, and our examples, under names that the user
does not take. A user's file is loaded under a name of its own, in place of no other module.
"""

import difflib
import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, ModuleType

from slackwater.errors import UsageError, did_you_mean
from slackwater.pipelines.canonical import USER_MODULE
from slackwater.pipelines.code import code_hash, defining_modules, imported_files, pipelines_in
from slackwater.pipelines.pipeline import Pipeline

EXAMPLES = (
    "slackwater.examples.departures",
    "slackwater.examples.nexmark",
    "slackwater.examples.tollgates",
    "slackwater.examples.turnarounds",
)
# Flights of New Year's Eve land on the first day of 2014.
_ENDS = dict.fromkeys(
    ("slackwater.examples.departures", "slackwater.examples.turnarounds"),
    datetime(2014, 1, 2, tzinfo=UTC),
)
VARIABLE = "SLACKWATER_PIPELINES"
_OWN_PACKAGE = __name__.partition(".")[0]

# The modules that this process has loaded for its user, by name. Executors do not have them.
_USER_MODULES: dict[str, ModuleType] = {}


class UnknownPipeline(UsageError):
    """No pipeline of that name is registered."""


class PipelinesFileError(UsageError):
    """The user's file or module can't be loaded, or declares nothing."""


class Registry(Mapping[str, Pipeline]):
    """The registered pipelines by name, with their sources; `faults`: file or module → why it can't load."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Pipeline] = {}
        # The module that defines each pipeline, which may not be the one that was loaded for it.
        self._modules: dict[str, ModuleType] = {}
        self.faults: dict[str, UsageError] = {}

    def __getitem__(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            names = ", ".join(sorted(self._pipelines)) or "none"
            faults = "".join(f"\nNot loaded: {fault}" for fault in self.faults.values())
            near = difflib.get_close_matches(name, self._pipelines)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise UnknownPipeline(
                f"no pipeline is called {name!r}; registered: {names}. {hint}Add your own file with "
                f"--pipelines FILE or {VARIABLE}.{faults}",
                name=name,
            )
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._pipelines))

    def __len__(self) -> int:
        return len(self._pipelines)

    def __contains__(self, name: object) -> bool:
        return name in self._pipelines

    def get(self, name: str, default: Pipeline | None = None) -> Pipeline | None:  # type: ignore[override]
        """The pipeline of that name, or `default`: what `__getitem__` raises is no KeyError."""
        return self._pipelines.get(name, default)

    def add(self, module: ModuleType) -> int:
        """Register every `Pipeline` that `module` holds, or none; returns their number. One that `module`
        imports belongs to the module that defines it. An example gives its name to a pipeline of the user's.
        Raises PipelinesFileError: two pipelines of the user's have one name.
        """
        pipelines = pipelines_in(module)
        modules = (
            dict.fromkeys(pipelines, module) if module.__name__ in EXAMPLES else defining_modules(module)
        )
        new: dict[str, Pipeline] = {}
        for pipeline in pipelines.values():
            namesake = new.get(pipeline.name) or self._namesake(pipeline.name)
            if namesake not in (None, pipeline):
                raise PipelinesFileError(
                    f"{module.__file__}: two pipelines are called {pipeline.name!r}; give one of them "
                    "another name.",
                    name=pipeline.name,
                )
            new[pipeline.name] = pipeline
        self._pipelines |= new
        self._modules |= {name: modules[id(pipeline)] for name, pipeline in new.items()}
        return len(pipelines)

    def end_of_data(self, name: str) -> datetime | None:
        """Where the data of an example end; None where they don't, and for the user's pipelines."""
        return _ENDS.get(self._modules[self[name].name].__name__)

    def _namesake(self, name: str) -> Pipeline | None:
        """The user's pipeline of that name."""
        is_own = name in self and self._modules[name].__name__ not in EXAMPLES
        return self._pipelines[name] if is_own else None

    def code_hash(self, name: str) -> str:
        """The identity of the pipeline's code: a hash over its sources and our version."""
        return code_hash(product_version(), self._files(name))

    def sources(self, name: str) -> list[Path]:
        """The files that enter the code hash: the one that defines the pipeline and the user's files that it
        imports; our own are covered by our version.
        """
        return sorted(self._files(name).values())

    def _files(self, name: str) -> dict[str, Path]:
        module = self._modules[self[name].name]
        module_file = Path(str(module.__file__))
        if _top(module.__name__.replace(".", "/")) == _OWN_PACKAGE:
            return {module_file.name: module_file}
        files = _files_of_module(module)
        own_name = next((name for name, path in files.items() if path == module_file), None)
        return files if own_name is None else imported_files(files, own_name)


def config_hash(pipeline: Pipeline) -> str:
    """SHA-256 over the canonical JSON of the declarations."""
    return hashlib.sha256(
        json.dumps(pipeline.describe(), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def loaded_by_value() -> list[ModuleType]:
    """The user's files that this process has loaded: no other process could import them by their names."""
    return [module for module in _loaded_modules() if module.__name__.startswith(USER_MODULE)]


def loaded_files() -> dict[str, Path]:
    """The user's code that executors import by name, as path in an archive → file: modules beside the user's
    file, packages that it imported, and modules given by name. Left out is our own package, which executors
    have, and a file that this process would not find under its name: it would take another module's place.
    """
    files = {name: path for module in _loaded_modules() for name, path in _files_of_module(module).items()}
    by_value = {Path(str(module.__file__)) for module in loaded_by_value()}
    origins = {top: _origin(top) for top in set(map(_top, files))}
    return {
        name: path
        for name, path in files.items()
        if path not in by_value and _top(name) != _OWN_PACKAGE and _is_at(origins[_top(name)], path)
    }


def _loaded_modules() -> list[ModuleType]:
    return [module for name, module in _USER_MODULES.items() if sys.modules.get(name) is module]


def _top(name: str) -> str:
    return name.partition("/")[0].removesuffix(".py")


def _origin(top: str) -> Path | None:
    """Where this process finds a module or package of that name, if not in the standard library."""
    spec = None if top in sys.stdlib_module_names else PathFinder.find_spec(top)
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _is_at(origin: Path | None, path: Path) -> bool:
    """Whether `path` is the module at `origin`, or a file of the package there."""
    return origin is not None and (
        origin == path or (origin.name == "__init__.py" and origin.parent in path.parents)
    )


def _files_of_module(module: ModuleType) -> dict[str, Path]:
    """The user's files that `module` may import, as path in an archive → file: all files of its package, else
    the Python files in its folder and the packages there that have been imported.
    """
    module_file = Path(str(module.__file__))
    package = module.__name__.partition(".")[0] if "." in module.__name__ else None
    if package is not None:
        return _package_files(package)
    files = {path.name: path for path in (module_file, *module_file.parent.glob("*.py"))}
    for name, other in list(sys.modules.items()):
        # Not getattr: it would import a lazy module.
        other_file = vars(other).get("__file__") if isinstance(other, ModuleType) else None
        if (
            "." not in name
            and other_file is not None
            and Path(other_file) == module_file.parent / name / "__init__.py"
        ):
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
    try:
        return version("slackwater")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


def load(pipelines: str | None = None, *, examples: bool = True) -> Registry:
    """The examples, unless they are not asked for, and, when `pipelines` (default: the variable
    SLACKWATER_PIPELINES) is given, the user's own.

    `pipelines` is a file, a module, a folder of files, or several of them with commas between. Of several
    each is loaded for itself: one that can't be is among the registry's `faults`, and the others are there.

    Raises:
        PipelinesFileError: the only file is missing, fails to load, or declares no pipeline.
    """
    registry = Registry()
    for name in EXAMPLES if examples else ():
        registry.add(importlib.import_module(name))
    parts = split_pipelines(pipelines or os.environ.get(VARIABLE) or "")
    for part in parts:
        _add_part(registry, part)
    if len(parts) == 1 and not Path(parts[0]).expanduser().is_dir():
        for fault in registry.faults.values():
            raise fault
    return registry


def _add_part(registry: Registry, part: str) -> None:
    """Add what one file or module, or each file of a folder, declares; what can't be loaded is a fault."""
    folder = Path(part).expanduser()
    files = sorted(map(str, folder.glob("[!_.]*.py"))) if folder.is_dir() else [part]
    declares_any = False
    for file_or_module in files:
        try:
            declares_any |= registry.add(_load(file_or_module)) > 0
        except UsageError as fault:
            registry.faults[file_or_module] = fault
            declares_any = True
    if not declares_any:
        where = "none of its files declares a Pipeline" if folder.is_dir() else "declares no Pipeline"
        registry.faults[part] = PipelinesFileError(
            f"{part}: {where} at its top level; see the README, 'Define a pipeline'.", path=part
        )


def split_pipelines(text: str) -> list[str]:
    """The files, modules and folders that `--pipelines` names, with commas between."""
    return [part for part in map(str.strip, text.split(",")) if part]


def _load(file_or_module: str) -> ModuleType:
    path = Path(file_or_module).expanduser()
    if path.suffix != ".py" and not path.exists() and os.sep not in file_or_module:
        return _import(file_or_module)
    if not path.is_file():
        raise PipelinesFileError(
            f"{file_or_module}: there is no such file; --pipelines takes a Python file or a module name.",
            path=file_or_module,
        )
    path = path.resolve()
    unique = f"{USER_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    if path.suffix != ".py":
        raise PipelinesFileError(
            f"{file_or_module}: is no Python file; its name must end in .py.", path=file_or_module
        )
    loader = _LoaderOfText(unique, str(path))
    spec = importlib.util.spec_from_loader(unique, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = _USER_MODULES[unique] = module
    # Helper modules beside the file are found after everything installed, so that none of them can shadow
    # ours.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[unique], _USER_MODULES[unique]
        if isinstance(error, UsageError):
            raise
        raise _not_loaded(path, error) from error
    return module


class _LoaderOfText(SourceFileLoader):
    """Loads a file as it reads now. Python's own cache of compiled files takes one for unchanged that has its
    size and the second of its last change, as files of an image or a checkout often do; the code would then
    not be the text whose hash is recorded.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _not_loaded(what: Path | str, error: BaseException) -> PipelinesFileError:
    """The error for code that fails, or ends the process, when it is loaded."""
    message = _message_of(error)
    end = "" if message.endswith((".", "?")) else "."
    return PipelinesFileError(
        f"{what}: {type(error).__name__} while loading: {message}{end} Correct it, then repeat the command.",
        path=str(what),
    )


def _message_of(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return (
            f"sys.exit({error.code!r}); what is to be done only in a script belongs below `if __name__ == "
            '"__main__":`.'
        )
    import_failure = re.match(r"cannot import name '(\w+)'", str(error))
    if import_failure and isinstance(error, ImportError) and error.name == _OWN_PACKAGE:
        suggestion = did_you_mean(import_failure[1], dir(sys.modules[_OWN_PACKAGE]))
        return f"{_OWN_PACKAGE} has no {import_failure[1]}{suggestion and '; '}{suggestion}"
    return str(error)


def _import(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise PipelinesFileError(
            f"{name}: no such file, and no module of that name can be imported ({error}).", path=name
        ) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError):
            raise
        raise _not_loaded(name, error) from error
    _USER_MODULES[name] = module
    return module
