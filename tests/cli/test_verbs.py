"""Every verb of the client that Vetro's users come from, and the command that does its work here.

dashboard-and-cli.md, part B.
"""

import click
import pytest

from vetro.cli import cli

OURS = {
    "environment-list": "env list",
    "environment-create": "env create",
    "environment-delete": "env destroy",
    "environment-rename": "env rename",
    "environment-show": "env show",
    "environment-deploy": "env deploy",
    "environment-export": "env export",
    "environment-import": "env import",
    "environment-model-show": "env model",
    "environment-action-call": "action call",
    "environment-action-get-result": "action result",
    "environment-session-create": "env session",
    "environment-apps-edit": "env patch",
    "environment-model-edit": "env patch",
    "static-action-call": "action static",
    "class-schema": "package schema",
    "deployment-list": "deployment list",
    "app-show": "env model",
    "env-template-list": "template list",
    "env-template-create": "template create",
    "env-template-show": "template show",
    "env-template-update": "template update",
    "env-template-delete": "template delete",
    "env-template-clone": "template clone",
    "env-template-create-env": "template create-env",
    "env-template-add-app": "template add",
    "env-template-del-app": "template remove",
    "package-list": "package list",
    "package-show": "package show",
    "package-download": "package download",
    "package-delete": "package delete",
    "package-update": "package update",
    "package-import": "package import",
    "bundle-import": "bundle import",
    "package-save": "package save",
    "bundle-save": "bundle save",
    "package-create": "package create",
    "category-list": "category list",
    "category-create": "category create",
    "category-show": "category show",
    "category-delete": "category delete",
}

SESSION = {"--session-id": "--session"}
CLASS = {"--package-name": "--package", "--class-version": "--class-version"}
#: The options of a verb, and those that do their work here. An argument is in capitals.
OPTIONS: dict[str, dict[str, str]] = {
    "environment-list": {"--all-tenants": "--all-projects", "--tenant": "--project"},
    "environment-create": {
        name: name for name in ("--join-net-id", "--join-subnet-id", "--region")
    },
    "environment-delete": {"--abandon": "--abandon"},
    "environment-show": {**SESSION, "--only-apps": "--only-apps"},
    "environment-deploy": {**SESSION, "--wait": "--wait", "--timeout": "--timeout"},
    "environment-apps-edit": SESSION,
    "environment-model-show": {**SESSION, "--path": "--path"},
    "environment-model-edit": {**SESSION, "(model)": "--model"},
    "environment-action-call": {"--action-id": "NAME_OR_ID", "--arguments": "--arg"},
    "environment-action-get-result": {"--task-id": "TASK"},
    "static-action-call": {**CLASS, "--arguments": "--arg"},
    "class-schema": CLASS,
    "env-template-create": {"--is-public": "--public"},
    "env-template-create-env": {"--region": "--region"},
    "env-template-add-app": {"FILE": "--file"},
    "app-show": {"-p": "--path"},
    "deployment-list": {"ID": "ENVIRONMENT"},
    "package-list": {
        **{f"--{name}": f"--{name}" for name in ("limit", "marker", "owned", "include-disabled")},
        **{
            f"--{name}": f"--{name}"
            for name in ("search", "name", "fqn", "type", "category", "tag")
        },
        "--class_name": "--class-name",
    },
    "package-download": {"FILE": "FILE"},
    "package-update": {
        "--is-public": "--public",
        "--enabled": "--enable",
        "--name": "--name",
        "--description": "--description",
        "--tags": "--tag",
    },
    "package-import": {
        "-c": "-c",
        "--is-public": "--public",
        "--package-version": "--version",
        "--exists-action": "--exists-action",
        "--dep-exists-action": "--dep-exists-action",
    },
    "bundle-import": {"--is-public": "--public", "--exists-action": "--exists-action"},
    "package-save": {"-p": "-o", "--package-version": "--version", "--no-images": "--no-images"},
    "bundle-save": {"-p": "-o", "--no-images": "--no-images"},
    "package-create": {
        **{f"-{one}": f"-{one}" for one in "tcrnfadoul"},
        "--tags": "--tag",
        "--type": "--type",
        "(format)": "--format",
    },
}


#: Those of the client itself; credentials come from the same ``OS_…`` variables.
GLOBAL = {
    "--version": "--version",
    "--debug": "--debug",
    "--api-timeout": "--api-timeout",
    "--murano-url": "--url",
    "--insecure": "--insecure",
    "--os-cacert": "--cacert",
    "help": "--help",
}


def found_command(words: str) -> click.Command | None:
    command: click.Command = cli
    for word in words.split():
        if not isinstance(command, click.Group):
            return None
        found = command.get_command(click.Context(command), word)
        if found is None:
            return None
        command = found
    return command


@pytest.mark.parametrize("verb", OURS)
def test_each_verb_has_a_command(verb: str) -> None:
    """It exists, is not a group, and says what it does."""
    command = found_command(OURS[verb])
    assert command is not None
    assert not isinstance(command, click.Group)
    assert command.help


@pytest.mark.parametrize("verb", OPTIONS)
def test_each_option_has_one(verb: str) -> None:
    """Every option of a verb has one, or an argument, that does its work and says so."""
    command = found_command(OURS[verb])
    assert command is not None
    known: dict[str, str] = {}
    for one in command.params:
        if isinstance(one, click.Option):
            known |= dict.fromkeys((*one.opts, *one.secondary_opts), one.help or "")
        else:
            known[one.make_metavar(click.Context(command)).strip("[]")] = "an argument"
    for name, ours in OPTIONS[verb].items():
        assert known.get(ours), (verb, name, sorted(known))


def test_each_global_option_has_one() -> None:
    """Where the service is, how it is trusted, how long it may take, and what is said of it."""
    context = click.Context(cli)
    known = {name for one in cli.get_params(context) for name in one.opts}
    assert set(GLOBAL.values()) <= known
