"""Applications that use another one which is to be taken out, and what becomes of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

from vetro.cli.client.answers import JsonObject
from vetro.cli.environments.objects import Checker, below, nearest_object
from vetro.cli.terminal.output import fail
from vetro.digits import is_number
from vetro.http.client import SyncResponse


def uses_in(answer: SyncResponse) -> list[JsonObject]:
    """The uses that a refusal names; none when the service refused something else, or nothing."""
    if answer.status != 409 or '"ComponentInUse"' not in answer.text:
        return []
    return cast("list[JsonObject]", answer.json()["error"]["uses"])


def described(use: JsonObject) -> str:
    """``blog uses it as database``."""
    return f"{use['component']} uses it as {use['path']}"


def letting_go(
    checker: Checker, services: Sequence[JsonObject], uses: Iterable[JsonObject]
) -> list[JsonObject]:
    """The operations on a model after which nobody uses what is to go.

    A reference becomes null, one in a list goes. The command ends when a class does not take that.
    """
    steps: dict[str, JsonObject] = {}
    users = {str(one["?"]["id"]): copy.deepcopy(one) for one in services}
    wrong: list[str] = []
    # From the last to the first: positions in lists stay what they were.
    for use in reversed(list(uses)):
        component, path = str(use["component_id"]), str(use["path"])
        user = users[component]
        _without(user, path)
        node, where, name = nearest_object(user, path)
        wrong += [
            f"{use['component']} cannot do without: {problem}"
            for problem in checker.wrong_value(node, where, name)
        ]
        place = "/".join(["/services", component, *f"{where}{name}".split(".")])
        steps[place] = {"op": "replace", "path": place, "value": node.get(name)}
    if wrong:
        fail(
            "; ".join(dict.fromkeys(wrong)),
            "Nothing was changed. Let it use another one: 'vetro env edit' with --set, or take it out first.",
        )
    return list(steps.values())


def _without(user: JsonObject, path: str) -> None:
    """Take the reference at a path out."""
    *parents, last = path.split(".")
    place: Any = user
    for part in parents:
        place = below(place, part)
    if isinstance(place, list) and is_number(last):
        del cast("list[object]", place)[int(last)]
    elif isinstance(place, dict):
        cast("JsonObject", place)[last] = None
