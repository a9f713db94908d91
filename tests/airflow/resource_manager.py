"""A stand-in for YARN's resource manager: its REST interface over one application, of which a test says how
it is.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

APPLICATION = "application_1400000000000_0001"
RUNNING = ("RUNNING", "UNDEFINED")


class ResourceManager:
    """The application's state and final status, and the paths that it was asked for."""

    def __init__(self) -> None:
        self.application: tuple[str, str] | None = RUNNING  # None: it does not know for the moment
        self.questions: list[str] = []
        self.address = ""

    def end(self, final_status: str = "SUCCEEDED") -> None:
        """The application ends."""
        self.application = ("FINISHED", final_status)

    def kill(self) -> None:
        """The application is killed."""
        self.application = ("KILLED", "KILLED")

    @contextmanager
    def listening(self) -> Iterator["ResourceManager"]:
        """Answers at `address`, host and port, until the block ends."""
        manager = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                manager.questions.append(self.path)
                if manager.application is None:
                    self.send_error(503)
                    return
                state, final_status = manager.application
                self._answer({"app": {"state": state, "finalStatus": final_status}})

            def do_PUT(self) -> None:
                manager.questions.append(self.path)
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/state") and body["state"] == "KILLED":
                    manager.kill()
                self._answer(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

            def _answer(self, body: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

        with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
            self.address = f"127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield self
            server.shutdown()
