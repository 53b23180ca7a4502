"""The result of a task that would have lost what its request did not let go (decision 0791)."""

from __future__ import annotations

from collections.abc import Collection

from vetro.environments import TaskResult, shortened
from vetro.json_values import Json, JsonObject
from vetro.secrecy import Cover
from vetro.stacks import Loss, LossRefused

_REPEATED = frozenset({"agent.send"})
"""What is done again when the task is: the model need not know that it was done."""


def result_of_refusal(
    refused: LossRefused,
    changed: Collection[str],
    *,
    model: JsonObject,
    cover: Cover,
    is_action: bool = False,
) -> TaskResult:
    """What to store: the losses beside the message.

    ``changed``: the kinds of effects that were done before. When a stack was changed, ``model`` knows what
    was made: that of an action is the environment's from now on, as after any failure; what a deployment
    was to do waits. Else the environment and the session stay as they were. ``is_action``: it has no
    changes that could be dropped.
    """
    said = LossRefused(refused.stack, refused.losses, begun=bool(changed), is_action=is_action)
    result: Json = {
        "message": shortened(cover(str(said))),
        "details": None,
        "losses": [covered(one, cover) for one in refused.losses],
    }
    untouched = _REPEATED.issuperset(changed)
    halfway = not untouched and not is_action
    return TaskResult(model, result, is_exception=True, untouched=untouched, halfway=halfway)


def message_of(result: TaskResult) -> str:
    """What the report of it says."""
    return str(result.result["message"])


def covered(loss: Loss, cover: Cover) -> JsonObject:
    """A loss with secrets masked in what is shown; its key is what the next request names."""
    shown = loss.as_json()
    changes = [{key: cover(text) for key, text in one.items()} for one in shown["changes"]]
    return {**shown, "text": cover(shown["text"]), "changes": changes}
