"""The hook of `mkdocs build`: a line `<!-- generated: NAME ARGUMENT -->` becomes what the code says.

Pages hold prose; lists of verbs, columns, arguments, exit codes and rooms are made from the code at each
build, and are committed nowhere. `<!-- generated: file README.md -->` shows a file of the repository, or
one section of it, with its links made to lead to the site's pages.
"""

import re
import shlex
from typing import TYPE_CHECKING, Any

from generators import arguments, changes, decisions, expressions, files, rooms, tables, verbs

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

GENERATORS = {
    "verbs": verbs.page,
    "exit codes": verbs.exit_codes,
    "arguments": arguments.of_class,
    "functions": arguments.of_functions,
    "methods": arguments.methods,
    "subclasses": arguments.subclasses,
    "classes": arguments.classes,
    "tables": tables.page,
    "rooms": rooms.tree,
    "layers": rooms.drawing,
    "evolution": changes.table,
    "expressions": expressions.table,
    "decisions": decisions.index,
    "file": files.included,
}
_MARK = re.compile(r"^<!-- generated: (?P<generator>.+) -->$", re.M)


def on_page_markdown(markdown: str, *, page: "Page", **_: Any) -> str:
    """The page with its marks replaced. Called by MkDocs for each page."""
    return _MARK.sub(lambda mark: _generated(mark["generator"], page.file.src_uri), markdown)


def _generated(text: str, page: str) -> str:
    """The answer of the generator whose name `text` begins with; the words behind it are its arguments."""
    for name, generator in GENERATORS.items():
        if text == name or text.startswith(f"{name} "):
            return generator(*shlex.split(text.removeprefix(name)), page=page)
    raise KeyError(f"{page}: nothing generates {text!r}; there are {', '.join(GENERATORS)}")
