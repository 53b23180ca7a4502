"""A port in front of a service of the cloud, at which a test has it answer as it likes."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Fault = int | None
"""A status to answer with; ``None``: the connection ends without an answer."""


@dataclass
class Proxy:
    """Passes requests on to ``target``, except for those that a fault is put before."""

    target: str
    url: str = ""
    asked: list[str] = field(default_factory=list[str])
    """Method and path of each request, newest last."""
    faults: list[tuple[Callable[[str], bool], Fault]] = field(
        default_factory=list[tuple[Callable[[str], bool], Fault]]
    )

    def put(self, fault: Fault, method: str, *, ends: str = "", times: int = 1) -> None:
        """Answer the next requests of a method, whose path ends so, with a fault."""

        def fits(call: str) -> bool:
            return call.startswith(f"{method} ") and call.endswith(ends)

        self.faults += [(fits, fault)] * times

    def fault(self, call: str) -> tuple[bool, Fault]:
        """Whether a request meets a fault, and which."""
        self.asked.append(call)
        for number, (fits, fault) in enumerate(self.faults):
            if fits(call):
                del self.faults[number]
                return True, fault
        return False, None


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    where = urlsplit(proxy.target)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            met, fault = proxy.fault(f"{self.command} {self.path.partition('?')[0]}")
            if met and fault is None:
                self.close_connection = True
                return
            if met and fault is not None:
                said = {"error": {"message": "Stack already has an action in progress."}}
                self._answer(fault, "application/json", json.dumps(said).encode(), "")
                return
            # With the caller's `Host`, redirects lead back here.
            onward = HTTPConnection(where.hostname or "", where.port or 80, timeout=120)
            onward.request(self.command, self.path, body, dict(self.headers.items()))
            got = onward.getresponse()
            kind, place = got.getheader("Content-Type", ""), got.getheader("Location", "")
            self._answer(got.status, kind, got.read(), place)
            onward.close()

        def _answer(self, status: int, kind: str, body: bytes, place: str) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", kind), ("Location", place)):
                if value:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    return Handler


@contextmanager
def proxied(target: str) -> Generator[Proxy]:
    """A proxy on a free port."""
    proxy = Proxy(target)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield proxy
    server.shutdown()
    thread.join()
    server.server_close()
