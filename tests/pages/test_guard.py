"""Who reaches pages that have no login: on loopback who names this machine, elsewhere who has the token."""

import warnings

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from slackwater.pages.frame.guard import COOKIE, LoopbackGuard, TokenGuard, is_loopback

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "0123456789abcdef"
SHOWN = Starlette(
    routes=[Route("/{path:path}", lambda request: PlainTextResponse(f"shown {request.url.query}"))]
)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", ""])
def test_addresses_of_others(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((name, 200) for name in ("127.0.0.1:8085", "localhost:8085", "localhost", "[::1]:8085")),
        *((name, 403) for name in ("evil.example", "evil.example:8085", "127.0.0.1.evil.example:8085", "")),
    ],
)
def test_on_loopback_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    assert TestClient(LoopbackGuard(SHOWN)).get("/", headers={"Host": host}).status_code == status


def test_without_the_token_nothing_is_shown() -> None:
    client = TestClient(TokenGuard(SHOWN, TOKEN))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}={TOKEN}"}):
        answer = client.get("/departures", headers=headers)
        assert answer.status_code == 401
        assert "shown" not in answer.text
    assert client.get("/?token=wrong").status_code == 401


def test_a_token_in_the_url_becomes_a_cookie_and_leaves_the_url() -> None:
    client = TestClient(TokenGuard(SHOWN, TOKEN))
    answer = client.get(f"/departures?key=a%26b&token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/departures?key=a%26b")
    assert TOKEN not in answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax"} <= set(answer.headers["set-cookie"].split("; "))
    assert client.get("/departures").text == "shown "


def test_a_redirect_never_leaves_the_origin() -> None:
    client = TestClient(TokenGuard(SHOWN, TOKEN))
    answer = client.get(f"//evil.example/?token={TOKEN}", follow_redirects=False)
    assert not answer.headers.get("location", "").startswith("//")


def test_a_program_may_send_the_token_in_a_header() -> None:
    client = TestClient(TokenGuard(SHOWN, TOKEN))
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
