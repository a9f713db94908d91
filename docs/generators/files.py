"""Files of the repository, or sections of them, as parts of pages: their links are made to fit the site."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Files outside of docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "slackwater/windowing/README.md": "windowing.md",
    "slackwater/windowing/watermarks/README.md": "fidelity/watermarks.md",
}


def included(path: str, section: str | None = None, *, page: str) -> str:
    """The file's text; with the name of a section, that section without its heading."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if section is not None:
        text = _section(text, section, path)
    return re.sub(
        r"\[(?P<text>[^\]]*)\]\((?P<target>[^)]+)\)",
        lambda link: _link(link, posixpath.dirname(path), page),
        text,
    )


def _section(text: str, title: str, path: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    if match is None:
        raise KeyError(f"{path} has no section {title!r}")
    return match[1].strip() + "\n"


def _link(link: re.Match[str], folder: str, page: str) -> str:
    target, _, anchor = link["target"].partition("#")
    if "://" in target or not target:
        return link[0]
    path = posixpath.normpath(posixpath.join(folder, target))
    place = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if place is None:
        return link["text"] if link["text"].startswith("`") else f"`{path}`"
    relative = posixpath.relpath(place, posixpath.dirname(page) or ".")
    return f"[{link['text']}]({relative}{'#' + anchor if anchor else ''})"
