"""An HTTP proxy in front of an object store that counts requests and makes faults.

Knows HTTP and the kinds of S3's requests; knows nothing of Delta, or of what objects hold.
"""

import http.client
import multiprocessing
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from urllib.parse import unquote

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class Fault(Enum):
    """What a client meets instead of an answer.

    Attributes:
        THROTTLED: 503 SlowDown; the store never sees the request.
        EXPIRED: 400 ExpiredToken; the store never sees the request.
        FORBIDDEN: 403 AccessDenied; the store never sees the request.
        RESET: the connection is reset before the store sees the request.
        LOST: the store carries the request out, and the connection is reset before the answer.
        FAILED: the store carries the request out, and the answer is 500 InternalError.
    """

    THROTTLED = (503, "SlowDown")
    EXPIRED = (400, "ExpiredToken")
    FORBIDDEN = (403, "AccessDenied")
    RESET = (0, "")
    LOST = (0, "AnswerLost")
    FAILED = (500, "InternalError")

    @property
    def reaches_store(self) -> bool:
        return self in {Fault.LOST, Fault.FAILED}


class Request(NamedTuple):
    """A request that a client has made.

    Attributes:
        kind: GET, HEAD, LIST, PUT, POST or DELETE.
        target: path and query, unquoted.
        status: of the answer; 0 where there was none.
    """

    kind: str
    target: str
    status: int


@dataclass
class _Rule:
    """Requests whose "KIND target" matches `pattern` meet `fault`, the first `times` of them."""

    fault: Fault
    pattern: str
    times: int
    hits: int = 0

    def applies(self, request: str) -> bool:
        if self.hits < self.times and re.search(self.pattern, request):
            self.hits += 1
            return True
        return False


@dataclass
class Proxy:
    """Requests to `port` are handed on to the store, both of this machine. It works in a process of its own:
    a client in this one may keep the interpreter to itself while it waits.
    """

    port: int
    _control: Connection

    def requests(self) -> list[Request]:
        """The requests since the last `forget`."""
        return self._ask("requests")

    def counts(self) -> Counter[str]:
        """kind → number of requests since the last `forget`."""
        return Counter(request.kind for request in self.requests())

    def forget(self) -> None:
        """Start counting anew."""
        self._ask("forget")

    @contextmanager
    def faults(self, fault: Fault, pattern: str, times: int = 1_000_000) -> Iterator[None]:
        """In the block, the first `times` requests that match the regular expression `pattern` (of "KIND
        target") meet `fault`. There must be one.
        """
        self._ask("start", _Rule(fault, pattern, times))
        try:
            yield
        finally:
            hits = self._ask("stop")
        assert hits, f"no request matched {pattern}"

    def _ask(self, question: str, rule: _Rule | None = None) -> Any:
        self._control.send((question, rule))
        return self._control.recv()


@contextmanager
def proxy_of(store_port: int) -> Iterator[Proxy]:
    """A proxy of the store at `store_port` while the block runs."""
    context = multiprocessing.get_context("spawn")
    control, other_end = context.Pipe()
    process = context.Process(target=_work, args=(store_port, other_end), daemon=True)
    process.start()
    try:
        yield Proxy(control.recv(), control)
    finally:
        control.send(("end", None))
        process.join(10)


class _Server(ThreadingHTTPServer):
    """The proxy within its process."""

    daemon_threads = True

    def __init__(self, store_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store_port = store_port
        self.requests: list[Request] = []
        self.rule: _Rule | None = None
        self._lock = threading.Lock()

    def fault_of(self, request: str) -> Fault | None:
        with self._lock:
            return self.rule.fault if self.rule is not None and self.rule.applies(request) else None


def _work(store_port: int, control: Connection) -> None:
    server = _Server(store_port)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    control.send(server.server_address[1])
    while True:
        question, rule = control.recv()
        if question == "end":
            return
        answer: Any = None
        if question == "requests":
            answer = list(server.requests)
        elif question == "forget":
            server.requests.clear()
        else:
            answer, server.rule = server.rule and server.rule.hits, rule
        control.send(answer)


class _Handler(BaseHTTPRequestHandler):
    """Hands on the requests of one connection, by one connection to the store."""

    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._store = http.client.HTTPConnection("127.0.0.1", self.server.store_port)

    def handle(self) -> None:
        with suppress(ConnectionError):  # clients drop connections
            super().handle()

    def finish(self) -> None:
        self._store.close()
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target, kind = unquote(self.path), _kind(self.command, self.path)
        fault = self.server.fault_of(f"{kind} {target}")
        if fault is None or fault.reaches_store:
            response, content = self._ask_store(body)
            status, headers = response.status, response.getheaders()
            if status >= 300:  # it has refused the request, and there is nothing to lose
                fault = None
        if fault is not None:
            status, code = fault.value
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>made up</Message></Error>"
            headers, content = [("Content-Type", "application/xml")], text.encode()
        self.server.requests.append(Request(kind, target, status))
        if status == 0:
            self._reset()
            return
        try:
            self._answer(status, headers, content)
        except ConnectionError:  # the client does not want the answer any more
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def _ask_store(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        for is_last in (False, True):  # the store may have closed a connection that was idle
            try:
                self._store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() != "expect":
                        self._store.putheader(name, value)
                self._store.endheaders(body or None)
                response = self._store.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError):
                self._store.close()
                if is_last:
                    raise
        raise AssertionError

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
            elif name.lower() == "content-length" and self.command == "HEAD":
                length = value
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _kind(method: str, path: str) -> str:
    query = path.partition("?")[2]
    return "LIST" if method == "GET" and ("list-type=" in query or "delimiter=" in query) else method
