"""What every test shares."""

import gc
import gzip
import json
import os
import re
import secrets
import shutil
import signal
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import psycopg
import pytest
import structlog
from tests.compiling import share_compiled_statements
from tests.effort import load_profile
from tests.migrating import repeat_migrations

from vetro.http.logs import completed

pytest_plugins = ("tests.tiers", "tests.times", "tests.one_browser")

POSTGRES_URL = os.environ.get("VETRO_TEST_POSTGRES_URL")

# A run in the background of a shell ignores SIGINT, and so would every program that a test starts: nothing
# could be interrupted in it.
signal.signal(signal.SIGINT, signal.default_int_handler)

load_profile()
repeat_migrations()
share_compiled_statements()

# 15,000 tests and all modules are two million objects, of which none is ever garbage. The garbage collector
# looked through them again and again: it took a third of the time of a run (decision 0760).
gc.disable()

# As services log: an exception as plain text. The renderer's own way takes seconds for a deep one.
structlog.configure(
    processors=[
        completed,
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)


@pytest.fixture(autouse=True)
def the_log_of_tests() -> Iterator[None]:
    """A command that a test runs in this process configures the log: for itself, and for no later test.

    A logger that keeps what it was configured with at its first use would never be captured again. Not by
    `monkeypatch`: who is there before all other fixtures of a test is undone after them.
    """
    before, configure = structlog.get_config(), structlog.configure

    def configure_for_now(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    structlog.configure = configure_for_now
    yield
    structlog.configure = configure
    configure(**before)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    if POSTGRES_URL is None:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    name = f"t{secrets.token_hex(8)}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
    try:
        yield POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    finally:
        async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_database() -> Iterator[str]:
    """The address of an empty PostgreSQL database, for a test that needs just that."""
    if POSTGRES_URL is None:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    name = f"t{secrets.token_hex(8)}"
    with psycopg.connect(POSTGRES_URL, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    yield POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(POSTGRES_URL, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once: a long run need not end to be mended."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\nFAILED {report.when}: {report.nodeid}\n")
        sys.stdout.flush()


class ProgramLog:
    """Records which programs of the machine each test starts, for `tools/machine_programs.py`.

    Python tells an audit hook of every program it starts; of those that a started process starts
    in its turn it knows nothing. What is part of the virtual environment, or made by the test, is
    nothing of the machine's.
    """

    def __init__(self, directory: Path) -> None:
        self._file = (directory / f"programs.{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._own = (sys.prefix, str(Path(__file__).parent.parent), "/tmp/")
        self._seen: set[tuple[str, str]] = set()
        self.test: pytest.Item | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen" or self.test is None:
            return
        executable, argv, _, environment = arguments
        name = os.fsdecode(executable or argv[0])
        path = shutil.which(name, path=(environment or os.environ).get("PATH"))
        if path is None or path == sys.executable or path.startswith(self._own):
            return
        key = self.test.nodeid, path
        if key not in self._seen:
            self._seen.add(key)
            markers = [mark.name for mark in self.test.iter_markers()]
            record = {"test": self.test.nodeid, "markers": markers, "program": path}
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()


_records = os.environ.get("VETRO_TEST_RECORDS")
_program_log = ProgramLog(Path(_records)) if _records else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Say whose programs are started."""
    if _program_log is not None:
        _program_log.test = item
    yield


class NodeFace:
    """The task API of a node, as the other faces show themselves."""

    name = "node"
    calls: ClassVar[dict[str, Any]] = {"GET /history": SimpleNamespace(reply={})}

    def __init__(self) -> None:
        self.app = SimpleNamespace(routes=())

    def document(self) -> Any:
        """Its OpenAPI document."""
        from vetro.node.work.description import document

        return document("1")


class DocumentedAnswers:
    """Compares every answer that a face gives in a test's process with the face's OpenAPI document."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._documents: dict[str, tuple[Any, list[tuple[re.Pattern[str], str]]]] = {}
        self._faces: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._validators: dict[tuple[int, str], Any] = {}

    def install(self) -> None:
        """Stand before every face's application, and before the task API of nodes."""
        from vetro.http.envelope import Envelope

        self._stand_before(Envelope, lambda envelope: envelope)
        if "vetro.node.work.api" in sys.modules:
            from vetro.node.work.api import TaskApi

            node = NodeFace()
            self._stand_before(TaskApi, lambda _: node)

    def _stand_before(self, application: Any, face_of: Callable[[Any], Any]) -> None:
        given = application.__call__

        async def call(asked: Any, scope: Any, receive: Any, send: Any) -> None:
            start: dict[str, Any] = {}
            body = bytearray()
            whole = False

            async def seen(message: Any) -> None:
                nonlocal whole
                if message["type"] == "http.response.start":
                    start.update(message)
                else:
                    body.extend(message.get("body", b""))
                    whole = not message.get("more_body")
                await send(message)

            try:
                await given(asked, scope, receive, seen)
            finally:
                # A request may be cancelled, as its service ends, between the start and the body.
                if start and whole and scope["type"] == "http":
                    self.look(face_of(asked), scope, start, bytes(body))

        application.__call__ = call

    def look(self, envelope: Any, scope: Any, start: Any, body: bytes) -> None:
        """Note what an answer has that the document does not say."""
        if b"%2f" in (scope.get("raw_path") or b"").lower():
            return  # a slash inside of a segment: a path that the document does not have
        if all(one.reply is None for one in envelope.calls.values()):
            return  # made by a test, of calls that it does not describe
        # Faces of one name, as many routes and the same answers have the same document, whatever
        # test made them: to write one takes a third of a second.
        face = self._faces.get(envelope)
        if face is None:
            face = f"{envelope.name} {len(envelope.app.routes)} {envelope.calls}"
            self._faces[envelope] = face
        if face not in self._documents:
            document = envelope.document()
            paths = sorted(document.get("paths", {}), key=lambda path: path.count("{"))
            # A path parameter takes one segment, but for the two that are paths themselves.
            known = [
                (re.compile(re.sub(r"{(\w+)}", _segment, re.escape(one).replace(r"\{", "{")
                                   .replace(r"\}", "}")) + "/?"), one)
                for one in paths
            ]  # fmt: skip
            self._documents[face] = (document, known)
        document, known = self._documents[face]
        path = next((one for pattern, one in known if pattern.fullmatch(scope["path"])), None)
        method = scope["method"].lower()
        operation = document["paths"][path].get(method) if path else None
        if operation is None:
            return
        status = start["status"]
        where = f"{envelope.name} {method.upper()} {path} {status}"
        answer = operation["responses"].get(str(status))
        if answer is None:
            self.wrong.append(f"{where} is not documented: {body[:200]!r}")
            return
        headers = {name.lower(): value.decode() for name, value in start["headers"]}
        if headers.get(b"content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = headers.get(b"content-type", "").split(";")[0]
        content = answer.get("content")
        schemas = [one["schema"] for one in (content or {}).values()]
        if not body and any(one.get("format") == "binary" for one in schemas):
            return  # bytes, of which there are none
        if not body or not content:
            if bool(body) != bool(content):
                self.wrong.append(f"{where}: documented {content}, was {body[:200]!r}")
        elif kind not in content:
            self.wrong.append(f"{where}: {kind} is not among {list(content)}")
        elif kind == "application/json" and content[kind]["schema"].get("format") != "binary":
            self._check(document, where, content[kind]["schema"], body)

    def _check(self, document: Any, where: str, schema: Any, body: bytes) -> None:
        import jsonschema_rs

        key = (id(document), where)
        if key not in self._validators:
            whole = {**schema, "components": document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        value = json.loads(body)
        for error in self._validators[key].iter_errors(value):
            at = "/".join(str(one) for one in error.instance_path)
            self.wrong.append(f"{where} at /{at}: {error.message[:300]}")
            return


def _segment(match: re.Match[str]) -> str:
    return ".+" if match[1] == "path" else "[^/]+"


DOCUMENTED = DocumentedAnswers()


def pytest_collection_finish() -> None:
    """From here on only what tests make is searched for garbage; answers are compared with documents.

    That is done where faces are tested: all of their answers are compared with what is published.
    """
    if "vetro.http" in sys.modules:
        DOCUMENTED.install()
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def documented_answers() -> Iterator[None]:
    """A test whose service answers otherwise than its OpenAPI document says has found a defect."""
    DOCUMENTED.wrong.clear()
    yield
    wrong = list(dict.fromkeys(DOCUMENTED.wrong))
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="session")
def hostile_documents() -> dict[str, bytes]:
    """Documents that are meant to do harm, by what they are."""
    from .documents.hostile import BYTES

    return BYTES
