"""A suite of Great Expectations as a part of a pipeline's declaration: its expectations as plain values.

Reading a suite's file imports nothing of the library. `library` imports it when a run validates, when a
report is drawn, and to ask a context that keeps its suites elsewhere than in its own folder.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from slackwater.errors import UsageError
from slackwater.pipelines.errors import PipelineError

# The folder of the context for suites that are given by name without `context`.
CONTEXT_VARIABLE = "SLACKWATER_GX_CONTEXT"
# The parts of an expectation that are kept; the library also writes ids, versions and texts of its pages.
_PARTS = ("type", "kwargs", "severity", "description", "notes", "meta")
_LONGEST_TEXT = 300
# A context keeps its suites as files of this folder, unless its configuration says otherwise.
_OWN_FOLDER = re.compile(r"^\s*base_directory:\s*['\"]?expectations/?['\"]?\s*$", re.MULTILINE)


class LibraryMissing(UsageError):
    """A pipeline has a suite, and Great Expectations is not installed."""


@dataclass(frozen=True)
class Suite:
    """A suite's expectations of the rows that a run would publish.

    Attributes:
        expectations: each with its type, its arguments (`kwargs`) and, where the suite has them, its
            severity, description, notes and meta.
        severity: of all expectations; None: each has the severity that the suite gives it.
        custom: the text of the Python file that defines the user's own expectations, if there is one.
    """

    name: str
    expectations: tuple[Mapping[str, Any], ...]
    severity: Literal["reject", "warn"] | None = None
    custom: str | None = None

    def title(self, item: Mapping[str, Any]) -> str:
        """The name of an expectation in `validations`: its description, or its type and arguments."""
        rule = item.get("description")
        if not rule:
            arguments = sorted(
                item.get("kwargs", {}).items(), key=lambda pair: (pair[0] != "column", pair[0])
            )
            texts = (value if isinstance(value, str) else json.dumps(value) for _, value in arguments)
            pairs = (f"{name}={text}" for (name, _), text in zip(arguments, texts, strict=True))
            rule = f"{item['type']}({', '.join(pairs)})"
        return short_text(f"{self.name}: {rule}")


def short_text(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def suite_of(suite: Any, folder: Path, context: Any) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """The name of a suite and its expectations.

    Args:
        suite: a path that ends in ``.json``, relative to `folder`; the name of a suite in a context; or an
            object of the library.
        folder: of the pipeline's file.
        context: the folder of the context, relative to `folder`, or the context itself.

    Raises:
        PipelineError: it can't be read, or is no suite.
    """
    if not isinstance(suite, str | Path):
        subject = f"expect.suite({suite!r})"
        if not hasattr(suite, "to_json_dict"):
            raise PipelineError(
                subject, "give the path of a suite's JSON file, its name, or an ExpectationSuite"
            )
        return _contents(subject, suite.to_json_dict())
    subject = f"expect.suite({str(suite)!r})"
    if str(suite).endswith(".json"):
        return _contents(subject, _json_of(subject, folder / suite))
    return _contents(subject, _suite_in_context(subject, str(suite), folder, context))


def _suite_in_context(subject: str, name: str, folder: Path, context: Any) -> Any:
    if context is not None and not isinstance(context, str | Path):
        return context.suites.get(name).to_json_dict()
    place = folder / context if context else Path(os.environ.get(CONTEXT_VARIABLE, "")).absolute()
    if not context and CONTEXT_VARIABLE not in os.environ:
        raise PipelineError(
            subject,
            "a suite is a file whose name ends in .json, or in a context of Great Expectations: name the "
            f"context's folder with context=, or in {CONTEXT_VARIABLE}",
        )
    roots = [place, place / "gx"]
    root = next((root for root in roots if (root / "great_expectations.yml").is_file()), None)
    if root is None:
        raise PipelineError(
            subject, f"no context of Great Expectations is in {roots[0]}: no great_expectations.yml"
        )
    file = root / "expectations" / f"{name}.json"
    if file.is_file() and _OWN_FOLDER.search((root / "great_expectations.yml").read_text(encoding="utf-8")):
        return _json_of(subject, file)
    require_library(subject)
    gx = library()
    try:
        return gx.get_context(mode="file", context_root_dir=root).suites.get(name).to_json_dict()
    except gx.exceptions.GreatExpectationsError as error:
        raise PipelineError(subject, f"the context in {root} does not give it: {error}") from error


def _json_of(subject: str, file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(subject, f"there is no file {file}") from None
    except (OSError, ValueError) as error:
        raise PipelineError(subject, f"{file} can't be read as JSON: {error}") from error


def _contents(subject: str, suite: Any) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    expectations = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(expectations, list) or not isinstance(suite.get("name"), str):
        raise PipelineError(
            subject, "is no suite of Great Expectations 1: it has no name, or no list of expectations"
        )
    if not expectations:
        raise PipelineError(subject, "the suite expects nothing")
    for item in expectations:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise PipelineError(subject, f"an expectation without a type: {item!r}")
    contents = json.loads(json.dumps(expectations, default=str))
    return suite["name"], tuple({name: item[name] for name in _PARTS if item.get(name)} for item in contents)


def require_library(subject: str) -> None:
    """Raises LibraryMissing where Great Expectations is not installed. Imports nothing."""
    if find_spec("great_expectations") is None:
        raise LibraryMissing(
            f'{subject}: great_expectations is not installed here. Install it: pip install "slackwater[gx]".'
        )


def library() -> Any:
    """Great Expectations, with its usage statistics switched off. The first call of a process takes seconds.
    The warnings of the library's own imports are hidden: no user can act on them.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    if "great_expectations" not in sys.modules:
        with warnings.catch_warnings(), _main_module_with_a_file():
            warnings.simplefilter("ignore")
            import great_expectations
    import great_expectations

    return great_expectations


@contextmanager
def _main_module_with_a_file() -> Iterator[None]:
    """Inside the block `python -c` looks like a script. The library imports parts of pyspark that take a
    program without a file for pyspark's own doctests, and end its process.
    """
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "<string>"
    try:
        yield
    finally:
        del main.__file__


def ephemeral_context() -> Any:
    """A context of the library in memory, which draws no bars of progress."""
    gx = library()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context
