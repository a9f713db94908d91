"""Decides which requests reach pages that are served without a login: on loopback those that name this
machine, elsewhere those that carry the token.

A web page of a stranger can make a browser ask any address, and by its DNS take the name of any. On loopback
the Host header says what name was asked for, which such a page can't choose.
"""

import hashlib
import hmac
from html import escape
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from slackwater.pages.frame.headers import SECURITY_HEADERS

COOKIE = "slackwater"
_YEAR_SECONDS = 365 * 86_400


def is_loopback(host: str) -> bool:
    """Whether an address, or the name `localhost`, is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class LoopbackGuard:
    """An ASGI application that lets requests for this machine, by a name of its own, through to another."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_loopback(_host_name(Headers(scope=scope).get("host", ""))):
            await self.app(scope, receive, send)
            return
        answer = _page(403, "These pages are for this machine: open them by 127.0.0.1 or localhost.")
        await answer(scope, receive, send)


class TokenGuard:
    """An ASGI application that lets requests with the token through to another: as `?token=` once, then in
    a cookie that no script can read, or in the header `Authorization: Bearer`.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self._digest = _digest(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        query = parse_qsl(request.url.query, keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if tokens:
            await self._answer_to_token(request, tokens[-1], query)(scope, receive, send)
        elif self._is_known(request):
            await self.app(scope, receive, send)
        else:
            await _page(401, "A token is needed: the one that `slackwater serve` printed.", asks=True)(
                scope, receive, send
            )

    def _is_known(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        digest = _digest(token) if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")
        return hmac.compare_digest(digest.encode(), self._digest.encode())

    def _answer_to_token(self, request: Request, token: str, query: list[tuple[str, str]]) -> Response:
        if not hmac.compare_digest(_digest(token).encode(), self._digest.encode()):
            return _page(401, "This is not the token.", asks=True)
        others = [(name, value) for name, value in query if name != "token"]
        path = request.scope.get("root_path", "") + request.scope["path"]
        answer = RedirectResponse(
            path.replace("//", "/") + (f"?{urlencode(others)}" if others else ""), status_code=303
        )
        answer.headers.update(SECURITY_HEADERS)
        answer.set_cookie(
            COOKIE,
            self._digest,
            max_age=_YEAR_SECONDS,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer


def _digest(token: str) -> str:
    """The value of the cookie: a browser's store does not give the token away."""
    return hashlib.sha256(f"slackwater {token}".encode()).hexdigest()


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _page(status: int, sentence: str, *, asks: bool = False) -> Response:
    """A page by itself: nothing of the pages proper, not even their style sheet, is for its reader."""
    form = (
        '<form><label>Token <input name="token" type="password" autocomplete="off"></label> '
        "<button>Open</button></form>"
    )
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>Slackwater</title><main><h1>Slackwater</h1><p>{escape(sentence)}</p>"
        f"{form if asks else ''}</main></html>",
        status_code=status,
        headers={**SECURITY_HEADERS, "Cache-Control": "no-store"},
    )
