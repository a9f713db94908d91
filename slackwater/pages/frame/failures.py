"""Makes a page of an error: what was asked for wrongly, what does not exist and what is near it, and what is
damaged, with the next step, as the verbs say it. No detail of a fault of ours leaves the process.
"""

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from deltalake.exceptions import DeltaError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from slackwater.errors import RetryableError, SlackwaterError, UsageError, without_credentials
from slackwater.pages.frame.links import link
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import check_sender, is_sender_checked, site_of
from slackwater.pipelines.registry import UnknownPipeline
from slackwater.tables.damaged_tables import explain_damage
from slackwater.tables.errors import DamagedFile, NoRuns
from slackwater.tables.storage_errors import unforeseen
from slackwater.windowing.errors import WindowingError

_TITLES = {
    400: "That can’t be asked",
    401: "Who are you?",
    403: "Not for you",
    404: "Not here",
    405: "These pages only look",
    500: "Something is damaged",
    503: "Not now",
}


class Nearby(NamedTuple):
    """A page that the reader may have meant."""

    text: str
    href: str


def handle_failures(app: FastAPI) -> None:
    """Let `app` answer errors with pages."""
    app.add_exception_handler(StarletteHTTPException, _answer_refusal)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _answer_malformed_query)  # type: ignore[arg-type]
    app.add_exception_handler(SlackwaterError, _answer_error)  # type: ignore[arg-type]
    app.add_exception_handler(NoRuns, _answer_without_runs)  # type: ignore[arg-type]
    app.add_exception_handler(WindowingError, _answer_windowing_error)  # type: ignore[arg-type]
    app.add_exception_handler(OSError, _answer_storage_error)
    app.add_exception_handler(DeltaError, _answer_storage_error)
    app.add_exception_handler(Exception, _answer_fault)


def _answer_refusal(request: Request, error: StarletteHTTPException) -> Response:
    if not is_sender_checked(request):  # a stranger is not told either what does not exist
        try:
            check_sender(request)
        except StarletteHTTPException as refusal:
            error = refusal
    if 300 <= error.status_code < 400:  # whoever shows these pages sends the reader to its login
        return Response(status_code=error.status_code, headers=error.headers)
    detail = error.detail if error.status_code != 404 or error.detail != "Not Found" else "No such page."
    page = _failure_page(request, error.status_code, detail)
    page.headers.update(error.headers or {})
    return page


def _answer_malformed_query(request: Request, error: RequestValidationError) -> Response:
    faults = [f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in error.errors()]
    return _failure_page(request, 400, "; ".join(faults))


def _answer_error(request: Request, error: SlackwaterError) -> Response:
    message = explain_damage(error) if isinstance(error, DamagedFile) else error.message
    return _failure_page(request, _status(error), message)


def _answer_without_runs(request: Request, error: NoRuns) -> Response:
    site, name = site_of(request), request.path_params.get("pipeline")
    if name is None or site.has_tables(name) or site.declaration(name) is None:
        return _answer_error(request, error)
    command = site.command("run", name, "--to", "TIME")
    return render(request, "without_runs.html", pipeline=name, command=command)


def _answer_windowing_error(request: Request, error: WindowingError) -> Response:
    return _failure_page(request, 503 if error.retryable else 500, without_credentials(str(error)))


def _answer_storage_error(request: Request, error: Exception) -> Response:
    failure = unforeseen(error)
    return _failure_page(request, _status(failure), failure.message)


def _answer_fault(request: Request, error: Exception) -> Response:
    message = "A fault of Slackwater, or something that it did not foresee; its log has the details."
    return _failure_page(request, 500, message)


def _status(error: SlackwaterError) -> int:
    if isinstance(error, NoRuns | UnknownPipeline):
        return 404
    if isinstance(error, UsageError):
        return 400
    return 503 if isinstance(error, RetryableError) else 500


def _failure_page(request: Request, status: int, message: str) -> Response:
    title = _TITLES.get(status, _TITLES[500] if status >= 500 else _TITLES[400])
    name = request.path_params.get("pipeline")
    site = site_of(request)
    is_seen = name is not None and site.may_see(request, name) and name in site.names()
    return render(
        request,
        "failure.html",
        status=status,
        code=status,
        heading=title,
        message=message,
        nearby=_nearby(request, status, name),
        pipeline=name if is_seen else None,
    )


def _nearby(request: Request, status: int, name: str | None) -> Sequence[Nearby]:
    """Pages near one that does not exist: pipelines with a similar name, the log of a pipeline's runs."""
    if status != 404:
        return ()
    names = site_of(request).visible_names(request)
    if name in names:
        runs = link(request, "pipeline", pipeline=name)
        return () if request.url.path == runs else (Nearby(f"the runs of {name}", runs),)
    asked_name = name or request.url.path.strip("/").split("/")[0]
    near = difflib.get_close_matches(asked_name, names, n=3, cutoff=0.5)
    return [Nearby(name, link(request, "pipeline", pipeline=name)) for name in near]
