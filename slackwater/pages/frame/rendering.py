"""Renders a template into a response: escaping, the filters that write values for people, the headers that
every page carries.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from slackwater import readable
from slackwater.pages.frame.directions import isolate
from slackwater.pages.frame.headers import SECURITY_HEADERS
from slackwater.pages.frame.links import link, same_page
from slackwater.pages.frame.site import site_of
from slackwater.pages.frame.static_files import static_url
from slackwater.tables.ledger.rows import noun_of

FOLDER = Path(__file__).parents[1] / "templates"


class Tab(NamedTuple):
    """A page that every page of a pipeline leads to; `name` is that of its route."""

    name: str
    title: str
    href: str


# Route, title, and values of the route's path.
_TABS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("pipeline", "Runs", {}),
    ("state", "State", {"table": "windows"}),
    ("late", "Late", {}),
    ("sql", "SQL", {}),
    ("diff", "Diff", {}),
)


def _tabs(request: Request, pipeline: str) -> Iterator[Tab]:
    for name, title, path in _TABS:
        yield Tab(name, title, link(request, name, pipeline=pipeline, **path))


def _filters() -> dict[str, Callable[..., Any]]:
    return {
        "duration": readable.duration_text,
        "exact_duration": readable.exact_duration_text,
        "size": readable.size_text,
        "number": readable.number_text,
        "count": readable.count_text,
        "share": readable.share_text,
        "time": readable.time_text,
        "minute": lambda moment: readable.time_text(moment, readable.Precision.MINUTE),
        "range": lambda bounds: readable.range_text(*bounds),
        "plain": readable.plain_text,
        "key": readable.key_text,
        "noun": noun_of,
        "isolate": isolate,
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_filters())
    return environment


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of `template`. Beside `values` it has `link(name, query, **path)`, `here(**changes)` (this page
    with another query), `static(name)` and `site`.
    """
    html = (
        _environment()
        .get_template(template)
        .render(
            {
                "request": request,
                "site": site_of(request),
                "link": partial(link, request),
                "here": partial(same_page, request),
                "static": partial(static_url, request),
                "tabs": partial(_tabs, request),
                "run_link": lambda pipeline: lambda seq: link(request, "run", pipeline=pipeline, seq=seq),
                **values,
            }
        )
    )
    return HTMLResponse(
        html, status_code=status, headers={"Cache-Control": "private, no-cache", **SECURITY_HEADERS}
    )


def element_id(*names: object) -> str:
    """An id for an element that belongs to a thing with any name, the same every time."""
    return "x" + hashlib.sha256(repr(names).encode()).hexdigest()[:12]
