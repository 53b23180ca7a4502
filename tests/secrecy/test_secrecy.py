"""One rule says what is secret, wherever it would be shown."""

from typing import Any

import pytest
import structlog

from vetro.cli.terminal.output import shown
from vetro.engine.worker.deployment import TaskReports, to_result
from vetro.environments import EngineTask
from vetro.http.logs import without_secrets
from vetro.muranopl import TaskReply
from vetro.secrecy import MASK, Cover, Public, hide_in_logs, is_secret, masked, secrets_in

SECRET = (
    "password", "adminPassword", "admin_password", "DB-PASSWORD", "saPassword", "dbpassword", "passwd",
    "root_pw", "pwd", "passphrase", "secret", "clientSecret", "token", "authToken", "accessTokens",
    "credentials", "apiKey", "apikey", "private_key", "secretKey", "pivtoken", "user-data", "user_data",
    "userData", "adminPass",
)  # fmt: skip
PLAIN = (
    "name", "passive", "bypass", "compass", "tokenizer", "tokenized", "secretary", "key", "keyName",
    "publicKey", "sshKeyName", "user", "data", "database", "userName", "passengers", "keyboard", "path",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    """Passwords, tokens, private keys, user data: in every spelling that names are written in."""
    assert is_secret(name)


@pytest.mark.parametrize("name", PLAIN)
def test_names_that_only_look_secret(name: str) -> None:
    """Words that contain the letters of a secret word are none."""
    assert not is_secret(name)


def test_masking_keeps_the_rest() -> None:
    """Secrets of any type are masked at any depth; what is empty or a switch stays."""
    value = {
        "name": "db",
        "password": "x",
        "pin": {"token": 12345, "secrets": ["a"], "usePassword": True},
        "list": [{"apiKey": "k"}, {"password": ""}, {"password": None}],
    }
    assert masked(value) == {
        "name": "db",
        "password": MASK,
        "pin": {"token": MASK, "secrets": MASK, "usePassword": True},
        "list": [{"apiKey": MASK}, {"password": ""}, {"password": None}],
    }
    assert shown(value) == masked(value)


def test_secrets_are_taken_out_of_texts() -> None:
    """What stood under a secret name is hidden where a text quotes it, the longest first."""
    model = {
        "name": "visible",
        "password": "hunter2",
        "credentials": {"user": "root", "rescue": "hunter2222"},
        "token": "abc",
        "secretStore": {"?": {"id": "an-id", "type": "a.Type"}, "value": "deep-one"},
    }
    assert secrets_in(model) == {"hunter2", "root", "hunter2222", "deep-one"}
    cover = Cover(secrets_in(model))
    assert (
        cover("hunter2222 and hunter2 of visible an-id abc") == "*** and *** of visible an-id abc"
    )
    assert Cover([])("as it was") == "as it was"


class Recorder:
    """Takes reports."""

    def __init__(self) -> None:
        self.tasks = self.reports = self
        self.said: list[Any] = []

    async def add(self, *report: Any, entity: str | None = None) -> None:
        """As the store of reports."""
        self.said.append(report)


def task(**model: Any) -> EngineTask:
    """A task with a model."""
    return EngineTask(
        id="t",
        environment_id="e",
        session_id="s",
        project_id="p",
        user_id="u",
        action={"object_id": "e", "method": "change", "args": {"newPassword": "fresh-one"}},
        model=model,
    )


async def test_reports_and_failures_do_not_quote_secrets() -> None:
    """A program that reports its password, or fails with it, does not show it to who may read reports."""
    recorder = Recorder()
    reports = TaskReports(recorder, task(Objects={"password": "hunter2"}))  # pyright: ignore[reportArgumentType]
    await reports.report("e", "info", "logging in with hunter2", "mysql -phunter2 -n fresh-one")
    assert recorder.said == [
        ("t", "e", "info", f"logging in with {MASK}", f"mysql -p{MASK} -n {MASK}")
    ]
    reply = TaskReply({}, is_exception=True, message="hunter2 was refused", details="at hunter2")
    result = to_result(reports.task, reply, reports.cover)
    assert result.result == {"message": f"{MASK} was refused", "details": f"at {MASK}"}
    # What an action returns is for its caller.
    reply = TaskReply({}, result={"password": "hunter2"})
    assert to_result(reports.task, reply, reports.cover).result == {"password": "hunter2"}


def test_logs_have_no_secrets() -> None:
    """Secrets are not logged: by their name anywhere, and by their value while a task runs."""
    hide_in_logs(Cover({"hunter2"}))
    try:
        event = without_secrets(
            None,
            "info",
            {
                "event": "sent hunter2",
                "password": "x",
                "plan": {"token": "y", "n": 1},
                "level": "info",
            },
        )
    finally:
        hide_in_logs(None)
    assert event == {
        "event": f"sent {MASK}",
        "password": MASK,
        "plan": {"token": MASK, "n": 1},
        "level": "info",
    }
    failed = without_secrets(None, "error", {"event": "e", "exc_info": (ValueError, None, None)})
    assert failed["exc_info"] == (ValueError, None, None)


def test_an_object_whose_maker_chose_its_names_is_not_masked() -> None:
    """It is given as it is, except below a secret name."""
    event = Public(action="create", tokens=2)
    assert masked({"cadf": event, "token": event}) == {"cadf": event, "token": MASK}


@pytest.mark.parametrize("style", ["console", "json", "logfmt"])
def test_the_service_logs_through_the_mask(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The configured log of a process masks what it writes: values, addresses, tracebacks."""
    from vetro.http.logs import configure_logging

    before = structlog.get_config()
    try:
        configure_logging("info", style)
        hide_in_logs(Cover(["hunter2"]))
        try:
            raise ValueError("hunter2 at http://u:p@h/?token=t")
        except ValueError as error:
            structlog.get_logger("test").info(
                "done", password="x-1", url="amqp://u:p@h", exc_info=error
            )
    finally:
        hide_in_logs(None)
        structlog.configure(**before)
    said = capsys.readouterr().err
    assert "ValueError: *** at http://u:***@h/?token=***" in said
    assert "amqp://u:***@h" in said
    assert "x-1" not in said


def test_an_error_for_clients_names_addresses_without_passwords() -> None:
    """Whatever room raises it, of whatever service it tells."""
    from vetro.http import Fault

    fault = Fault("Keystone at https://u:p@keystone/v3 does not answer", status=503)
    assert str(fault) == fault.message == "Keystone at https://u:***@keystone/v3 does not answer"


def test_a_cover_takes_the_first_and_longest_of_secrets_that_overlap() -> None:
    """What one is the beginning of goes as a whole; what begins within another one goes with it or stays."""
    cover = Cover(["abcd", "abcdef", "defgh", "", "aaaa"])
    assert cover("abcdefgh abcd-defgh aaaaaaaaa") == "***gh ***-*** ******a"
    assert cover("") == ""
    assert Cover([])("text") == "text"


def test_a_cover_of_long_secrets_looks_through_a_text_once() -> None:
    """Secrets and texts of one character each, so that every place nearly is one."""
    secret = "a" * 50_000 + "b"
    assert Cover([secret, f"{secret}c"])("a" * 500_000) == "a" * 500_000
    assert Cover([secret])("a" * 500_000 + "b") == "a" * 450_000 + "***"
