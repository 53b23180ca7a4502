"""The command's own manners: help, suggestions, argument forms, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vetro.cli import COMMANDS, cli
from vetro.cli.terminal.output import CommandError


def invoke(*arguments: str) -> tuple[int, str]:
    """Run the command in process; exit code and everything it printed."""
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, result.output


def test_help_names_every_command() -> None:
    """``vetro --help`` lists all sub-commands with a line each."""
    code, text = invoke("--help")
    assert code == 0
    for name in COMMANDS:
        assert name in text


def test_help_imports_no_service() -> None:
    """``vetro --help`` starts fast because it loads neither services nor languages."""
    script = (
        "import sys; sys.argv = ['vetro', '--help']\n"
        "from vetro.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = [m for m in sys.modules if m in ('litestar', 'sqlalchemy', 'httpx2', 'rich')]\n"
        "print('HEAVY', heavy)"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "HEAVY []" in output


def test_a_misspelt_command_gets_a_suggestion() -> None:
    """An unknown command is wrong usage (exit 2) and the nearest name is offered."""
    code, text = invoke("enw", "list")
    assert code == 2
    assert "Did you mean 'env'?" in text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    """Each sub-command loads and explains itself."""
    code, text = invoke(name, "--help")
    assert code == 0, text
    assert "Usage:" in text


def test_eval_prints_json() -> None:
    """``vetro eval`` evaluates on --data and prints JSON."""
    code, text = invoke("eval", "$.a + 1", "--data", '{"a": 41}')
    assert (code, json.loads(text)) == (0, 42)


def test_eval_says_where_an_expression_is_wrong() -> None:
    """A syntax error ends with exit 1 and one line."""
    code, text = invoke("eval", "1 +")
    assert code == 1
    assert "Error:" in text


def test_run_calls_a_method_of_a_package_directory(tmp_path: Path) -> None:
    """``vetro run`` loads a package, calls a method with arguments and prints result and times."""
    package = tmp_path / "pkg"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(
        "Format: '1.4'\nType: Library\nFullName: t.p\nName: T\nClasses:\n  t.p.Main: Main.yaml\n"
    )
    (package / "Classes/Main.yaml").write_text(
        "Namespaces:\n  =: t.p\nName: Main\nMethods:\n  add:\n    Scope: Public\n    Arguments:\n"
        "      - a:\n          Contract: $.int().notNull()\n"
        "      - b:\n          Contract: $.int().notNull()\n"
        "    Body:\n      - Return: $a + $b\n"
    )
    arguments = ["--class", "t.p.Main", "--method", "add", "--arg", "a=2", "--arg", "b=3"]
    code, text = invoke("run", str(package), *arguments, "--json")
    assert code == 0, text
    value = json.loads(text)
    assert value["result"] == 5
    assert value["load_seconds"] > 0
    assert value["seconds"] > 0


def test_settings_are_json_or_text() -> None:
    """``--set`` values that are JSON keep their type, other values are text."""
    from vetro.cli.environments.editing import parse_settings
    from vetro.cli.environments.objects import set_path

    values = parse_settings(("port=8080", "page=Hello you", "flags=[true]", "a.b=x=y"))
    assert values == {"port": 8080, "page": "Hello you", "flags": [True], "a.b": "x=y"}
    with pytest.raises(CommandError, match="expected NAME=VALUE"):
        parse_settings(("port",))
    target: dict[str, object] = {"a": {"c": 1}, "s": "text"}
    set_path(target, "a.b", 2)
    assert target["a"] == {"c": 1, "b": 2}
    with pytest.raises(CommandError, match="not a map"):
        set_path(target, "s.x", 1)


def test_openrc_files_are_read_with_their_quotes(tmp_path: Path) -> None:
    """An openrc file's exports are understood as a shell would."""
    from vetro.cli.client.connection import read_openrc

    file = tmp_path / "openrc"
    file.write_text(
        "# login\nexport OS_USERNAME='admin'\nexport OS_PASSWORD=\"a b\"\nVETRO_URL=u\n"
    )
    assert read_openrc(file) == {"OS_USERNAME": "admin", "OS_PASSWORD": "a b", "VETRO_URL": "u"}


def test_no_server_is_one_line_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing answers, the command says so and what to do, without a traceback."""
    monkeypatch.setenv("VETRO_TOKEN", "t")
    monkeypatch.setenv("VETRO_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    code, text = invoke("env", "list")
    assert code == 1
    assert "No Vetro answers at http://127.0.0.1:1" in text
    assert "Hint: " in text
    assert "Traceback" not in text


def test_a_command_that_there_is_not_is_explained_once() -> None:
    """The help is named in the hint alone."""
    code, text = invoke("frobnicate")
    assert code == 2
    assert "There is no command 'frobnicate'." in text
    assert text.count("vetro --help") <= 1


@pytest.mark.parametrize("address", ["notaurl", "ftp://vetro.example", "127.0.0.1:8082"])
def test_an_address_that_is_none_is_said_to_be_none(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told to start a service when the address is what is wrong."""
    monkeypatch.setenv("VETRO_TOKEN", "t")
    monkeypatch.setenv("VETRO_URL", address)
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    code, text = invoke("env", "list")
    assert (code, "Traceback" in text) == (1, False)
    assert f"Error: {address} is no address of a Vetro" in text
    assert "such as http://127.0.0.1:8082" in text
    assert "vetro up" not in text
