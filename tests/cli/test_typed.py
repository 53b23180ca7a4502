"""What is typed and is secret, however it is typed, is in no error, remark, traceback or log."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import vetro.cli
from vetro.cli import _explain_defect, cli  # pyright: ignore[reportPrivateUsage]
from vetro.cli.terminal import typed
from vetro.secrecy import without_credentials

SECRET = "hunter/2@x y"
#: Arguments after `vetro env edit main corner`: signs, quotes, JSON and addresses, whole and broken.
TYPED: list[list[str]] = [
    ["--set", f"password={SECRET}"],
    ["--set", f"password {SECRET}"],
    ["--set", f"password\t{SECRET}"],
    ["--set", f"db.password  {SECRET}"],
    ["--set", f"=password={SECRET}"],
    ["--set", f"=password {SECRET}"],
    ["--set", f"==password=={SECRET}"],
    ["--set", f" password = {SECRET}"],
    ["--set", f"password: {SECRET}"],
    ["--set", f"password->{SECRET}"],
    ["--set", f"password,{SECRET}"],
    ["--set", f"'password' {SECRET}"],
    ["--set", f"db[password]={SECRET}"],
    ["--set", f"--password {SECRET}"],
    ["--set", "password", SECRET],
    ["--set", "password", "=", SECRET],
    ["--set", "password=", SECRET],
    ["--set", "password:", SECRET],
    ["--password", SECRET],
    ["password", SECRET],
    [f"--password={SECRET}"],
    ["--set", json.dumps({"password": SECRET})],
    ["--set", json.dumps({"password": SECRET})[:-1]],
    ["--set", json.dumps({"password": SECRET})[:-2]],
    ["--set", json.dumps({"password": SECRET, "port": 1})[:-1]],
    ["--set", json.dumps([{"a": {"apiKey": SECRET}}, 1])[:-1]],
    ["--set", f"{{'password': '{SECRET}', 'port': 1}}"],
    ["--set", f"{{password: {SECRET}}}"],
    ["--set", "db=" + json.dumps({"password": SECRET})[:-1]],
    ["--set", json.dumps(json.dumps({"password": SECRET}))],
    ["--set", f"https://u:{SECRET.replace(' ', '')}@h/p"],
    ["--set", f"https://h/p?a=1&token={SECRET.replace(' ', '')}"],
]


@pytest.mark.parametrize("arguments", TYPED, ids=str)
def test_a_mistake_does_not_repeat_a_secret(arguments: list[str]) -> None:
    """Neither as it was typed, nor quoted, nor in the message of the command itself."""
    command = ["env", "edit", "main", "corner", *arguments]
    typed.begin(command)
    try:
        shown = typed.covered(f"{' '.join(arguments)} {arguments} {arguments!s}", guesses=True)
    finally:
        typed.begin([])
    assert "hunter" not in shown
    if arguments[0] != "--set" or "=" not in arguments[1].strip(" ="):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 2, done.output
        assert "hunter" not in done.output


#: Commands that take pairs with a sign, up to the place of a second pair.
PAIRED = [
    ["env", "edit", "e", "a", "--set", "a=1", "--set"],
    ["env", "upgrade", "e", "a", "--set", "a=1", "--set"],
    ["action", "call", "e", "sell", "--arg", "a=1", "--arg"],
    ["action", "static", "test.Prices", "of", "--arg", "a=1", "--arg"],
    ["run", ".", "--class", "a.B", "--method", "m", "--arg", "a=1", "--arg"],
    ["vm", "create", "box", "--image", "i", "--tag", "a=1", "--tag"],
    ["server", "setup", "node", "a=1"],
    ["server", "update-nictags", "-s", "node", "a_nic=1"],
]


@pytest.mark.parametrize("command", PAIRED, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("word", ["hunter", "hunter2", "hunter.two", "=hunter"])
def test_what_is_no_name_is_not_repeated(command: list[str], word: str) -> None:
    """A pair without a sign or a name may be a secret; its number says which it was."""
    done = CliRunner().invoke(cli, ["--url", "http://127.0.0.1:1", *command, word])
    assert done.exit_code == 2, done.output
    assert ", number 2: expected " in done.output
    assert "hunter" not in done.output


def test_one_place_writes_to_standard_error() -> None:
    """What commands remark is looked through in one place, which no module goes around."""
    sources = Path(vetro.cli.__file__).parent.rglob("*.py")
    around = {
        path.name
        for path in sources
        if re.search(r"\bs?echo\([^\n]*err=True|file=sys\.stderr", path.read_text("utf-8"))
    }
    assert around == {"output.py"}


#: Innocent arguments, and what a message about them is to have.
PLAIN = [
    ["env", "show", "--show-secrets", "main"],
    ["package", "check", "token-app/pkg"],
    ["package", "check", "./secrets/shop.yaml"],
    ["token", "--json"],
    ["env", "edit", "main", "corner", "--set", "title=Reset password"],
    ["--url", "http://127.0.0.1:8082/path", "env", "list"],
]


@pytest.mark.parametrize("arguments", PLAIN, ids=str)
def test_other_arguments_are_repeated(arguments: list[str]) -> None:
    """Paths, flags and commands that have a secret word in their names."""
    typed.begin(arguments)
    text = " ".join(arguments)
    assert typed.covered(text, guesses=True) == text


def test_addresses_and_variables_are_shown_without_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The address that does not answer is named without its password, with ``--debug`` as well."""
    monkeypatch.setenv("OS_AUTH_URL", "http://ann:p@127.0.0.1:1/v3")
    monkeypatch.setenv("VETRO_TOKEN", "")
    monkeypatch.setenv("OS_PASSWORD", "correct horse")
    monkeypatch.setenv("OS_USERNAME", "ann")
    for given in (["--url", "http://ann:hunter2@127.0.0.1:1/?token=abc"], []):
        options = ["--data-dir", str(tmp_path), "--debug", *given]
        done = CliRunner().invoke(cli, [*options, "env", "list"])
        assert done.exit_code == 1
        assert "http://ann:***@127.0.0.1:1" in done.output
        for secret in ("hunter2", ":p@", "=abc", "correct horse"):
            assert secret not in done.output
    # A header cannot have it, and what refuses it quotes it.
    monkeypatch.setenv("VETRO_TOKEN", "gAAAAA-tok\nen")
    done = CliRunner().invoke(cli, ["--url", "http://127.0.0.1:1", "env", "list"])
    assert "gAAAAA" not in done.output + str(done.exception)


#: What long arguments are made of: whatever some pattern repeats, alone and where it just does not match.
RUNS = [
    "a", "A", ".", "-", "_", "7", "'", '"', "\\", "=", ":", "://", " ", "\n", "{", "[", "@", ". ", "a.", "a-",
    "a@", "a=", "a = ", "a={", "a=[", '{"a":', '"a":[', '"a":"b",', "://a:", "://a:b ", "://a:b@", "?a",
    "?token=", "password ", "password=", 'password="', "password='", '{"password":',
]  # fmt: skip


@pytest.mark.parametrize("run", RUNS, ids=repr)
@pytest.mark.parametrize("head", ["", "password=", "password "])
def test_long_arguments_are_looked_through_once(run: str, head: str) -> None:
    """Programs, keys and JSON: work that grows with the square of their length would not end in the time
    of a test. What is typed before and behind the run is hidden as ever."""
    long = head + run * (100_000 // len(run)) + "!"
    command = ["env", "edit", "--set", "token=hunter2", "--set", long]
    typed.begin([*command, "--password", "hunter3"])
    try:
        shown = typed.covered(f"hunter2 {long[:-1]} {long} hunter3", guesses=True)
    finally:
        typed.begin([])
    assert shown.startswith("*** ")
    assert shown.endswith(" ***")


def test_many_secrets_of_a_long_argument_are_hidden() -> None:
    """Each that is quoted, and the argument as a whole."""
    long = " ".join(f'password="hunter{number}"' for number in range(4000))
    typed.begin(["env", "edit", "--set", long])
    try:
        shown = typed.covered(f"{long} and hunter7 and hunter3999")
    finally:
        typed.begin([])
    assert shown == "password=*** and *** and ***"


def test_many_arguments_are_looked_through_once() -> None:
    """Files that a shell has listed."""
    files = [f"{number}.zip" for number in range(20_000)]
    typed.begin(["package", "import", *files, "--password", "hunter2"])
    try:
        assert typed.covered("hunter2 7.zip", guesses=True) == "*** 7.zip"
    finally:
        typed.begin([])


def test_a_traceback_has_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """A defect of a command is explained by its traceback, with what was typed taken out."""
    typed.begin(["env", "edit", "--set", "password=hunter2"])
    try:
        raise ValueError("hunter2 at http://u:p@h")
    except ValueError:
        _explain_defect(*sys.exc_info())  # pyright: ignore[reportArgumentType]
    typed.begin([])
    said = capsys.readouterr().err
    assert "ValueError: *** at http://u:***@h" in said
    assert "Traceback" in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://u:p@h:1/x?a=1", "at http://u:***@h:1/x?a=1"),
        ("amqp://u@h:1 and http://h:1/a@b", "amqp://u@h:1 and http://h:1/a@b"),
        ("GET /a?token=x&b=2#apiKey=k", "GET /a?token=***&b=2#apiKey=***"),
        ("postgresql://u:p@x@h/n?password=a", "postgresql://u:***@h/n?password=***"),
        ("a = b, why? no", "a = b, why? no"),
    ],
)
def test_addresses_are_written_without_what_they_carry(text: str, shown: str) -> None:
    """The password beside a user, and parts of a query with secret names."""
    assert without_credentials(text) == shown
