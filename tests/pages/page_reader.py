"""Reads pages as a browser would get them: status, headers, tables, links, figures.

Starts no server and no browser. Knows no page.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.testclient import TestClient

VOID = {"meta", "link", "img", "input", "br", "hr", "wbr", "source"}


@dataclass(frozen=True)
class ReadTable:
    """A table of a page: texts of its headings, and of the cells of each row."""

    caption: str
    headings: list[str]
    rows: list[list[str]]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[ReadTable] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self.figures: dict[str, Any] = {}
        self.texts: list[str] = []
        self._cell: list[str] | None = None
        self._script: tuple[dict[str, str | None], list[str]] | None = None
        self.open_tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in VOID:
            self.open_tags.append(tag)
        self.inline += [f"{tag} {name}" for name in attributes if name == "style" or name.startswith("on")]
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        if tag in ("link", "script", "img") and (url := attributes.get("href") or attributes.get("src")):
            self.loaded.append(url)
        if tag == "style":
            self.inline.append("style element")
        if tag == "script":
            self._script = (attributes, [])
        if tag == "table":
            self.tables.append(ReadTable("", [], []))
        if tag == "tr" and self.tables and "tbody" in self.open_tags:
            self.tables[-1].rows.append([])
        if tag in ("th", "td", "caption") and self.tables:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open_tags and self.open_tags[-1] == tag, f"</{tag}> closes {self.open_tags[-3:]}"
            self.open_tags.pop()
        if tag == "script" and self._script is not None:
            attributes, parts = self._script
            text = "".join(parts)
            if attributes.get("type") == "application/json":
                self.figures[attributes["data-plot"] or ""] = json.loads(text)
            elif text.strip():
                self.inline.append("script element")
            self._script = None
        if tag in ("th", "td", "caption") and self._cell is not None:
            text = " ".join("".join(self._cell).split())
            if tag == "caption":
                self.tables[-1] = ReadTable(text, self.tables[-1].headings, self.tables[-1].rows)
            else:
                row = self.tables[-1].rows[-1] if "tbody" in self.open_tags else self.tables[-1].headings
                row.append(text)
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._script[1].append(data)
            return
        self.texts.append(data)
        if self._cell is not None:
            self._cell.append(data)


@dataclass(frozen=True)
class ReadPage:
    """An answer, as text and as what a reader sees of it."""

    status: int
    headers: dict[str, str]
    source: str

    @cached_property
    def _parser(self) -> _Parser:
        parser = _Parser()
        parser.feed(self.source)
        assert parser.open_tags == [], "elements that are not closed"
        return parser

    @property
    def text(self) -> str:
        """All that can be read, white space folded."""
        return re.sub(r"\s+", " ", "".join(self._parser.texts))

    @property
    def tables(self) -> list[ReadTable]:
        return self._parser.tables

    def table(self, caption: str) -> ReadTable:
        """The table of that caption."""
        [found_table] = [table for table in self.tables if table.caption == caption]
        return found_table

    @property
    def figures(self) -> dict[str, Any]:
        """Figures by the names of their plots."""
        return self._parser.figures

    @property
    def links(self) -> list[str]:
        """Paths (with queries) that it leads to."""
        return self._parser.links

    @property
    def loaded(self) -> list[str]:
        """URLs that a browser loads with it."""
        return self._parser.loaded

    @property
    def inline(self) -> list[str]:
        """Scripts and styles in the page itself, which its policy forbids."""
        return self._parser.inline


class PageReader:
    """Asks an application for pages."""

    def __init__(self, app: FastAPI) -> None:
        self.client = TestClient(app, base_url="http://127.0.0.1:8085", raise_server_exceptions=False)

    def get(self, path: str, **headers: str) -> ReadPage:
        response = self.client.get(path, headers=headers, follow_redirects=False)
        return ReadPage(response.status_code, dict(response.headers), response.text)

    def page(self, path: str) -> ReadPage:
        """A page that is there, well-formed, with nothing inline and nothing from elsewhere."""
        page = self.get(path)
        assert page.status == 200, page.source
        assert page.inline == []
        assert [url for url in (*page.loaded, *page.links) if urlsplit(url).netloc] == []
        return page
