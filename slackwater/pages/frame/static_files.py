"""Serves what pages load: our style sheet, our script, and the plot library out of its own package. A URL
holds the hash of its file, so that browsers may keep it for ever.
"""

import gzip
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from slackwater.pages.frame.links import link

router = APIRouter()
FOLDER = Path(__file__).parents[1] / "static"
PLOT_LIBRARY = "plotly.min.js"
_TYPES = {
    "site.css": "text/css; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "plotly.css": "text/css; charset=utf-8",
    "logo.svg": "image/svg+xml",
    PLOT_LIBRARY: "text/javascript; charset=utf-8",
}


class StaticFile(NamedTuple):
    """The contents of a file, as they are and compressed, and the beginning of their hash."""

    contents: bytes
    gzip_bytes: bytes
    tag: str


@cache
def _static_file(name: str) -> StaticFile:
    contents = _path(name).read_bytes()
    return StaticFile(
        contents, gzip.compress(contents, 6, mtime=0), hashlib.sha256(contents).hexdigest()[:16]
    )


def _path(name: str) -> Path:
    if name != PLOT_LIBRARY:
        return FOLDER / name
    # Found without being imported: the package brings in a second's worth of Python that nobody needs here.
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return Path(spec.origin).parent / "package_data" / PLOT_LIBRARY


def static_url(request: Request, name: str) -> str:
    return link(request, "static_file", {"v": _static_file(name).tag}, name=name)


@router.get("/-/static/{name}", name="static_file")
def static_file(request: Request, name: str) -> Response:
    if name not in _TYPES:
        raise HTTPException(404, "No such file.")
    file = _static_file(name)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            file.gzip_bytes, media_type=_TYPES[name], headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(file.contents, media_type=_TYPES[name], headers=headers)
