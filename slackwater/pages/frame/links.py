"""URLs of the pages, wherever they are mounted: the name of a route with the values of its path and its
query. Paths only, never with a host, so that links also work behind a proxy. And times in queries, as people
write them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request

from slackwater.errors import UsageError


def link(request: Request, name: str, query: Mapping[str, object] | None = None, /, **path: object) -> str:
    """The URL of a route by its name; values of `query` that are None or empty are left out."""
    route_path = request.app.url_path_for(name, **path)
    url = quote(request.scope.get("root_path", "").rstrip("/") + str(route_path))
    values = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    return f"{url}?{urlencode(values, doseq=True)}" if values else url


def same_page(request: Request, **changes: object) -> str:
    """The URL of the page that is asked for, with other values in its query; None removes one."""
    query: dict[str, Any] = {**request.query_params, **changes}
    values = {key: value for key, value in query.items() if value not in (None, "")}
    path = quote(request.scope.get("root_path", "").rstrip("/") + _route_path(request))
    return f"{path}?{urlencode(values)}" if values else path


def _route_path(request: Request) -> str:
    path, root = str(request.scope["path"]), str(request.scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(root) else path


class NotATime(UsageError):
    """A text that is no date or time."""


def moment_of(text: str | None) -> datetime | None:
    """The time that `text` names, in UTC unless it says otherwise; None for no text. Raises NotATime."""
    if not text or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise NotATime(
            f"{text!r} is no date or time. Write it like 2013-01-02 or 2013-01-02 06:00 (UTC)."
        ) from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
