"""The files of the repository, for the tests that hold something about all of them.

Lists what git tracks or would track, so that a file is checked before it is committed.
"""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*suffixes: str) -> list[Path]:
    """The repository's files, ending in one of `suffixes` if any is given. Fails rather than give none."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = [ROOT / name for name in sorted(filter(None, listing.split("\0")))]
    existing_files = [
        file for file in files if file.is_file() and (not suffixes or file.name.endswith(suffixes))
    ]
    assert existing_files, f"no file ends in {suffixes}: nothing would be checked"
    return existing_files


@cache
def syntax_tree(file: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def text(file: Path) -> str:
    """The file's text; empty for a binary file."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
