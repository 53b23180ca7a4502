"""Deployments and actions that would lose machines, volumes or addresses: shown, asked, sent again.

The command names in each request what may be lost; the service refuses the rest before it begins.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from vetro.cli.client.answers import Environment, Loss
from vetro.cli.client.deployment_progress import Ended
from vetro.cli.terminal.confirmation import is_watched
from vetro.cli.terminal.output import fail, meta, remark, wants_json, word


def without_asking() -> list[str]:
    """What may be lost where nobody waits for an answer: nothing, or with ``--yes`` anything."""
    return ["*"] if meta("yes") else []


def unless_lost(
    environment: Environment,
    send: Callable[[list[str]], str],
    see: Callable[[str], Ended],
    *,
    is_action: bool = False,
) -> tuple[str, Ended]:
    """Let the service do something, and ask before anything is lost; the last task and how it ended.

    ``send`` begins it with what may be lost and gives the task's id; ``see`` waits for its end. What turns
    out later, in another stack, is asked as well. The command needs ``yes_option``. ``is_action``: it has no
    changes that wait.
    """
    may_lose: list[str] = []
    while True:
        task = send(may_lose)
        ended = see(task)
        new = [one for one in ended.losses if one["key"] not in may_lose]
        if not new:
            return task, ended
        _agree_to_lose(environment, new, agreed=bool(may_lose), is_action=is_action)
        may_lose += [one["key"] for one in new]


def _agree_to_lose(
    environment: Environment, losses: list[Loss], *, agreed: bool, is_action: bool
) -> None:
    """Go on only when the user lets it go, by ``--yes`` or by an answer.

    ``agreed``: something was let go before, and may be lost by now.
    """
    if not wants_json():
        remark("It would lose as well:" if agreed else "It would lose:")
        for one in losses:
            remark(f"  {one['text']}")
    if meta("yes"):
        return
    name = word(environment["name"])
    said = "; ".join(one["text"] for one in losses)
    hint = "Give --yes to go on and lose it."
    if not is_action:
        hint += f" 'vetro env changes {name}' shows the changes that wait; with --discard they are dropped."
    kept = "Nothing was lost"
    if agreed:
        kept = "Nothing more was lost than you agreed to"
        hint += f" A part may be done: 'vetro env show {name}' shows what there is now."
        if not is_action:
            hint += " A deployment after --discard takes back what was made."
    if wants_json() or not is_watched():
        fail(f"{kept}. It would be: {said}", hint)
    if not click.confirm("Go on and lose it?", err=True):
        fail(kept, hint)
