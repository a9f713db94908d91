"""The code hash of a pipeline: a SHA-256 over what it rests on in its files
(`slackwater.pipelines.reach`) that does not depend on how they import Slackwater.

Earlier versions hashed whole files, all beside the pipeline's; a hash that one of them recorded of today's
files is recognised. Before that they hashed all bytes, and files then imported `jobs` and `windowing` (since
then there is `from slackwater import …`). To recognise a hash that such a version recorded in the ledger, the
import lines of today's files are rewritten in each of the spellings of that time, and the hash is computed
over all bytes of the result.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from slackwater.pipelines.aggregates import KINDS
from slackwater.pipelines.reach import text_reached

# The packages of Slackwater: today, and as files imported them before there was one name for all.
PACKAGE = "slackwater"
FORMER_PACKAGES = ("jobs", "windowing", "dags")
_DECLARATIONS = ("Aggregate", "DeltaSource", "Expectation", "Pipeline", "expect")
ImportStatement = ast.Import | ast.ImportFrom


class Definition(NamedTuple):
    """Where a pipeline is defined: the file, as it is called among the files, and the names that it has
    there.
    """

    file: str
    names: Sequence[str]


@dataclass(frozen=True)
class PipelineCode:
    """The identity of a pipeline's code, recorded in each row of the ledger.

    Attributes:
        hash: SHA-256, hexadecimal; the lines that import Slackwater do not enter it.
        former_hashes: hashes that earlier versions recorded of the same code.
    """

    hash: str
    former_hashes: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        files: Mapping[str, Path],
        version: str,
        former_hashes: Collection[str] = (),
        definition: Definition | None = None,
    ) -> "PipelineCode":
        """The code of a pipeline in `files` (name → Python file) under the product's `version`.
        `former_hashes` are hashes that earlier versions recorded and that can't be computed from the files
        any more. Without a `definition` all of the files count.
        """
        sources = {name: path.read_bytes() for name, path in sorted(files.items())}
        computed_former_hashes = {
            _digest(version, {name: rewrite(text) for name, text in sources.items()})
            for rewrite in _FORMER_SPELLINGS
        }
        hash_of_files = _digest(version, {name: _without_our_imports(text) for name, text in sources.items()})
        text = None if definition is None else text_reached(sources, *definition)
        return cls(
            hash_of_files
            if text is None
            else _digest(version, {name: _without_our_imports(part) for name, part in text.items()}),
            frozenset({hash_of_files, *computed_former_hashes, *former_hashes}),
        )

    def recognises(self, recorded_hash: str | None) -> bool:
        """Whether a row with this hash was written by a run of this code, whatever its import lines were."""
        return recorded_hash == self.hash or recorded_hash in self.former_hashes

    def hash_after(self, recorded_hash: str | None) -> str:
        """The hash for a run to record when the run before it recorded `recorded_hash`: that same hash if it
        is one of this code. So the hash of a lineage does not change when only import lines do.
        """
        return recorded_hash if recorded_hash is not None and self.recognises(recorded_hash) else self.hash


def front_door_lines(source: str) -> list[str]:
    """The import lines to write for those of `source` that import Slackwater under its former names."""
    names: set[str] = set()
    lines: list[str] = []
    for statement in _imports(source.encode(), FORMER_PACKAGES):
        if isinstance(statement, ast.Import):
            lines += [
                f"from {PACKAGE} import {_alias_list([alias])}"
                if "." not in alias.name
                else f"import {PACKAGE}.{_alias_list([alias]).removeprefix('jobs.')}"
                for alias in statement.names
            ]
        elif statement.module in ("jobs.pipelines", "windowing"):
            names |= {_front_door_name(alias, statement.module) for alias in statement.names}
        elif statement.module == "windowing.testing":
            lines.append(f"from {PACKAGE}.testing import {_alias_list(statement.names)}")
        else:
            room = (statement.module or "").removeprefix("jobs.")
            lines.append(f"from {PACKAGE}.{room} import {_alias_list(statement.names)}")
    return ([f"from {PACKAGE} import {', '.join(_in_import_order(names))}"] if names else []) + lines


def _front_door_name(alias: ast.alias, module: str) -> str:
    is_aggregate = module == "jobs.pipelines" and alias.name.rstrip("_") in KINDS
    return "agg" if is_aggregate else _alias_list([alias])


def _alias_list(names: list[ast.alias]) -> str:
    return ", ".join(f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in names)


def _in_import_order(names: set[str]) -> list[str]:
    """Constants, classes, functions: as import sorters put them."""
    return sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))


def _digest(version: str, sources: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(version.encode())
    for name, text in sources.items():
        digest.update(b"\0" + name.encode() + b"\0" + text)
    return digest.hexdigest()


@lru_cache(maxsize=256)  # each spelling asks for the same statements
def _imports(source: bytes, packages: tuple[str, ...]) -> tuple[ImportStatement, ...]:
    """The statements that import one of `packages`, or from it; none where `source` is not valid Python."""
    if not any(package.encode() in source for package in packages):
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and all(_top(alias.name) in packages for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.level == 0 and _top(node.module or "") in packages)
    )


def _top(module: str) -> str:
    return module.partition(".")[0]


def _without_our_imports(source: bytes) -> bytes:
    """The text without the lines that import Slackwater, and before it the names that these lines bind,
    without the modules that they come from.
    """
    statements = _imports(source, (PACKAGE,))
    lines: list[bytes | None] = list(source.splitlines(keepends=True))
    bound = set()
    for statement in statements:
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        lines[first:last] = [None] * (last - first)
        bound |= {
            f"{alias.name.rpartition('.')[2]} as {alias.asname or alias.name.rpartition('.')[2]}"
            for alias in statement.names
        }
        for step, index in ((-1, first - 1), (1, last)):  # blank lines around go with them
            while 0 <= index < len(lines) and not (lines[index] or b"").strip():
                lines[index] = None
                index += step
    return "\n".join([*sorted(bound), ""]).encode() + b"".join(line for line in lines if line is not None)


def _with_former_packages(source: bytes) -> bytes:
    """`from slackwater.pipelines import …` as `from jobs.pipelines import …`."""
    source = re.sub(rb"(?m)^(\s*(?:from|import) )slackwater\.(?=windowing)", rb"\1", source)
    return re.sub(rb"(?m)^(\s*(?:from|import) )slackwater\.", rb"\1jobs.", source)


def _with_former_imports(source: bytes, write: Callable[[str, list[str]], str]) -> bytes:
    """`from slackwater import …` as one import from `jobs.pipelines` and one from `windowing`, and aggregates
    without `agg.`. `write` gives the text of an import statement.
    """
    text = source.decode("utf-8", errors="replace")
    statements = [
        item
        for item in _imports(source, (PACKAGE,))
        if isinstance(item, ast.ImportFrom) and item.module == PACKAGE
    ]
    lines = text.splitlines(keepends=True)
    aggregate_names = set(re.findall(r"\bagg\.(\w+)", text))
    for statement in sorted(statements, key=lambda item: item.lineno, reverse=True):
        names = {alias.name for alias in statement.names}
        former_aggregates = (
            {_former_aggregate(name) for name in aggregate_names & set(KINDS)} if "agg" in names else set()
        )
        declarations = (names & set(_DECLARATIONS)) | former_aggregates
        windowing_names = names - set(_DECLARATIONS) - {"agg"}
        rooms = [("jobs.pipelines", declarations), ("windowing", windowing_names)]
        lines[statement.lineno - 1 : statement.end_lineno] = [
            write(room, _in_import_order(items)) for room, items in rooms if items
        ]
    return re.sub(r"\bagg\.(\w+)", lambda match: _former_aggregate(match[1]), "".join(lines)).encode()


def _former_aggregate(name: str) -> str:
    return f"{name}_" if name in ("min", "max") else name


def _on_one_line(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(names)}\n"


def _on_a_line_each(module: str, names: list[str]) -> str:
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"


def _at_most(width: int) -> Callable[[str, list[str]], str]:
    """How formatters write an import statement in lines of at most `width` characters."""

    def write(module: str, names: list[str]) -> str:
        line = _on_one_line(module, names)
        return line if len(line) <= width + 1 else _on_a_line_each(module, names)

    return write


_FORMER_SPELLINGS: tuple[Callable[[bytes], bytes], ...] = (
    lambda source: source,
    _with_former_packages,
    *(partial(_with_former_imports, write=_at_most(width)) for width in (79, 88, 100, 110, 120, 140)),
)
