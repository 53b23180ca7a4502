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
    "app-show": "env show",
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
    "package-create": "package build",
    "category-list": "category list",
    "category-create": "category create",
    "category-show": "category show",
    "category-delete": "category delete",
}


def _found(words: str) -> click.Command | None:
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
    """It exists, is no group, and says what it does."""
    command = _found(OURS[verb])
    assert command is not None
    assert not isinstance(command, click.Group)
    assert command.help
