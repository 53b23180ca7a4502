"""A mailbox service of its own for the agent's tests, and the agent as a real process."""

from __future__ import annotations

import base64
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from vetro.guest.build import build_archive

PATIENCE = 240.0


@dataclass
class Waiting:
    """A plan the mailbox holds."""

    message_id: str
    body: bytes
    signature: bytes | None
    leased: str | None = None


@dataclass
class Mailbox:
    """An in-memory `/agents/v1` with switches for what can go wrong."""

    token: str = "secret-token"
    plans: list[Waiting] = field(default_factory=list)
    results: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    polls: int = 0
    refuse: Callable[[str, str], tuple[int, dict[str, str]] | None] = lambda method, path: None
    before_ack: Callable[[], None] = lambda: None
    largest_result: int = 1 << 20
    result_limit: int | None = None
    """What guests are told with a plan."""
    limit_when_refused: int | None = None
    """What guests are told with a 413."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""

    def offer(self, plan: Any, *, signature: bytes | None = None, message_id: str = "") -> str:
        """Put a plan (a document, or raw bytes) at the end of the queue."""
        body = plan if isinstance(plan, bytes) else json.dumps(plan).encode()
        name = message_id or (plan["ID"] if isinstance(plan, dict) else uuid.uuid4().hex)
        with self.changed:
            self.plans.append(Waiting(name, body, signature))
            self.changed.notify_all()
        return name

    def result(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The next result."""
        return self.results.get(timeout=timeout)

    def until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Wait for something to be true of the mailbox."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout), "it did not happen in time"

    def wait_acknowledged(self, message_id: str) -> None:
        """Wait until a plan has been acknowledged."""
        self.until(lambda: message_id in self.acknowledged)


def _handler(mailbox: Mailbox) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def _answer(
            self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
        ) -> None:
            with mailbox.changed:
                mailbox.requests.append((self.command, self.path, status))
                mailbox.changed.notify_all()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _admitted(self) -> bool:
            refusal = mailbox.refuse(self.command, self.path)
            if refusal is not None:
                self._answer(refusal[0], b"{}", refusal[1])
                return False
            if self.headers.get("Authorization") != f"Bearer {mailbox.token}":
                self._answer(401, b'{"message": "unknown credential"}')
                return False
            return True

        def do_GET(self) -> None:
            with mailbox.changed:
                mailbox.polls += 1
                mailbox.changed.notify_all()
            if not self._admitted():
                return
            session = self.headers.get("X-Agent-Session")
            wait = float(parse_qs(urlsplit(self.path).query)["wait"][0])
            deadline = time.monotonic() + min(5.0, wait)
            with mailbox.changed:
                while True:
                    if mailbox.plans and mailbox.plans[0].leased != session:
                        plan = mailbox.plans[0]
                        plan.leased = session
                        break
                    left = deadline - time.monotonic()
                    if left <= 0 or not mailbox.changed.wait(left):
                        plan = None
                        break
            if plan is None:
                self._answer(204)
                return
            headers = {"X-Message-Id": plan.message_id}
            if mailbox.result_limit is not None:
                headers["X-Result-Limit"] = str(mailbox.result_limit)
            if plan.signature is not None:
                headers["X-Signature"] = base64.b64encode(plan.signature).decode()
            self._answer(200, plan.body, headers)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.endswith("/ack"):
                mailbox.before_ack()
            if not self._admitted():
                return
            if self.path.endswith("/ack"):
                name = self.path.split("/")[-2]
                with mailbox.changed:
                    mailbox.plans = [p for p in mailbox.plans if p.message_id != name]
                    mailbox.acknowledged.append(name)
                    mailbox.changed.notify_all()
                self._answer(204)
            elif self.path.endswith("/results"):
                if len(body) > mailbox.largest_result:
                    said = mailbox.limit_when_refused
                    headers = {} if said is None else {"X-Result-Limit": str(said)}
                    self._answer(413, b'{"message": "too large"}', headers)
                    return
                mailbox.results.put(json.loads(body))
                self._answer(202)
            else:
                self._answer(204)

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A killed agent leaves broken connections; that is what the tests do."""


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """A mailbox service on a free port."""
    box = Mailbox()
    server = _Server(("127.0.0.1", 0), _handler(box))
    box.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield box
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def guest_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as it is shipped."""
    return build_archive(tmp_path_factory.mktemp("dist") / "vetro-guest.pyz")


@dataclass
class GuestProcess:
    """An agent with its own storage that can be started, killed and started again."""

    archive: Path
    directory: Path
    mailbox: Mailbox
    extra: str = ""
    mailbox_section: str = ""
    queue: str = "e1-h2"
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    python_options: list[str] = field(default_factory=list)
    tampering: str = ""
    """Python statements that run in the agent's process before it."""

    @property
    def storage(self) -> Path:
        return self.directory / "storage"

    @property
    def log(self) -> str:
        return (self.directory / "agent.log").read_text()

    def folders(self) -> list[Path]:
        """The plans on disk."""
        return sorted(p for p in (self.storage / "plans").iterdir() if p.name.isdigit())

    def configure(self) -> Path:
        path = self.directory / "agent.conf"
        path.write_text(
            f"[DEFAULT]\nstorage = {self.storage}\ndebug = true\n{self.extra}\n"
            f"[mailbox]\nurl = {self.mailbox.url}\ntoken = {self.mailbox.token}\n"
            f"input_queue = {self.queue}\n{self.mailbox_section}\n"
        )
        return path

    def start(self, *arguments: str) -> None:
        agent = [str(self.archive), "--config-file", str(self.configure())]
        if self.tampering:
            # The archive with something of Python replaced before it begins.
            begin = f"import runpy, sys; sys.argv = sys.argv[1:]\n{self.tampering}\n"
            agent = ["-c", begin + "runpy.run_path(sys.argv[0], run_name='__main__')", *agent]
        command = [sys.executable, *self.python_options, *agent]
        with (self.directory / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stderr=log,
                stdout=log,
                env={**os.environ, **self.environment},
            )

    def result_of(self, plan: Any, **more: Any) -> dict[str, Any]:
        """Start the agent with this plan in its queue; the plan's result."""
        self.mailbox.offer(plan, **more)
        self.start()
        return self.mailbox.result()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the agent; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code


@pytest.fixture
def guest(guest_archive: Path, tmp_path: Path, mailbox: Mailbox) -> Iterator[GuestProcess]:
    """A guest agent, not yet started; killed at the end."""
    agent = GuestProcess(guest_archive, tmp_path, mailbox)
    yield agent
    if agent.process is not None:
        agent.kill()


class Signer:
    """An engine's signing key."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def pem(self, form: serialization.PublicFormat = serialization.PublicFormat.PKCS1) -> str:
        return self._key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()

    def option(self) -> str:
        """The `engine_key` option as bootstrap writes it: continuation lines with a tab."""
        return "engine_key = " + "\n\t".join(self.pem().strip().splitlines())

    def sign(self, queue_name: str, body: bytes) -> bytes:
        return self._key.sign(queue_name.encode() + body, padding.PKCS1v15(), hashes.SHA256())


@pytest.fixture(scope="session")
def signer() -> Signer:
    """A real RSA key."""
    return Signer()


def make_plan(
    body: str = "return None",
    scripts: dict[str, str] | None = None,
    *,
    version: str = "2.0.0",
    options: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A plan whose scripts are given as texts."""
    plan: dict[str, Any] = {
        "FormatVersion": version,
        "ID": uuid.uuid4().hex,
        "Action": "Execute",
        "Isolation": "optional",
        "Body": body,
        "Parameters": {},
        "Files": {},
        "Scripts": {},
    }
    for name, text in (scripts or {}).items():
        file_id = f"file-{name}"
        plan["Files"][file_id] = {"Name": f"{name}.sh", "BodyType": "Text", "Body": text}
        plan["Scripts"][name] = {
            "Type": "Application",
            "EntryPoint": file_id,
            "Files": [],
            "Options": dict(options or {}),
        }
    plan.update(more)
    return plan


@pytest.fixture(name="make_plan")
def _make_plan() -> Callable[..., dict[str, Any]]:
    """Builds plans."""
    return make_plan
