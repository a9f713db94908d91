"""The rooms of the source: what each package says it is, and which may import which."""

import ast
import re
import tomllib
from pathlib import Path

from generators.files import ROOT


def tree(folder: str, *, page: str) -> str:
    """The packages of a folder: files, lines, and the first paragraph of what each says it is."""
    rows = [_row(package, files) for package, files in _packages(folder).items()]
    assert rows, folder
    return "\n".join(["| room | files | lines | |", "|---|---|---|---|", *rows])


def _row(package: str, files: list[Path]) -> str:
    lines = sum(map(_lines, files))
    return f"| `{package}/` | {len(files)} | {lines:,} | {_law(ROOT / package / '__init__.py')} |"


def drawing(*, page: str) -> str:
    """The contracts of layers in pyproject.toml as drawings: what stands above may import what is below."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layer_contracts = [contract for contract in contracts if contract["type"] == "layers"]
    assert layer_contracts
    return "\n\n".join(
        f"**{contract['name']}**\n\n```text\n{_stack(contract['layers'])}\n```"
        for contract in layer_contracts
    )


def _stack(layers: list[str]) -> str:
    """One layer a line. Import-linter writes `|` between siblings that may not import each other, `:` between
    those that may, and brackets around a layer that need not be there.
    """
    return "\n  ↓\n".join(
        re.sub(r"\s*\|\s*", " · ", re.sub(r"\s*:\s*", ", ", layer)).replace("(", "").replace(")", "")
        for layer in layers
    )


def _packages(folder: str) -> dict[str, list[Path]]:
    """Package → its own modules, without those of packages inside it."""
    packages: dict[str, list[Path]] = {}
    for file in sorted((ROOT / folder).rglob("*.py")):
        packages.setdefault(str(file.parent.relative_to(ROOT)), []).append(file)
    return {name: files for name, files in packages.items() if (ROOT / name / "__init__.py").is_file()}


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def _law(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert text, f"{file} does not say what lives there"
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
