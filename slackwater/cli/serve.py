"""`slackwater serve`: serves the pages of a warehouse until it is interrupted. Starts no JVM."""

import os
import secrets
import socket

import click

from slackwater.cli import options
from slackwater.errors import UsageError

TOKEN_VARIABLE = "SLACKWATER_TOKEN"
_LEAST_TOKEN = 16  # characters


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8085,
    show_default=True,
    metavar="N",
    help="0: a free one",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help=f"any but this machine's own needs a token: {TOKEN_VARIABLE}, else one is made and printed",
)
@options.warehouse
@options.pipelines
def command(*, port: int, host: str, warehouse: str | None, pipelines: str | None) -> None:
    """Pages about every pipeline of a warehouse, in a browser: runs, windows, state, late rows, differences.
    They only look; what changes something is shown as the command. Ends with Ctrl-C.

    \b
    Example: slackwater serve --port 9000
    """
    import uvicorn

    from slackwater.pages.app import create_app
    from slackwater.pages.frame.guard import LoopbackGuard, TokenGuard, is_loopback

    app = create_app(warehouse, pipelines)
    listening = _listening_socket(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    if is_loopback(host):
        entrance: LoopbackGuard | TokenGuard = LoopbackGuard(app)
    else:
        token = _token()
        entrance = TokenGuard(app, token)
        url += "?token=" + (token if TOKEN_VARIABLE not in os.environ else f"${TOKEN_VARIABLE}")
    click.echo(f"slackwater: {app.state.site.warehouse.root} is at {url} (stop with Ctrl-C)")
    config = uvicorn.Config(
        entrance, log_level="warning", access_log=False, lifespan="off", server_header=False
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # as uvicorn ends when it was interrupted and has finished what it was doing
        pass


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return secrets.token_urlsafe(24)
    if len(token) < _LEAST_TOKEN:
        raise UsageError(
            f"{TOKEN_VARIABLE} has {len(token)} characters, which can be guessed; use at least "
            f"{_LEAST_TOKEN}, for example the output of `openssl rand -hex 16`."
        )
    return token


def _listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; raises UsageError where it is taken, or is not of this
    machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} can't be listened at ({error.strerror or error}). Name another --port; "
            "--port 0 takes a free one."
        ) from error
