"""Operations that are cancelled wherever they wait: no stack stays held, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.clouds import is_empty
from tests.interrupting import interruptions
from tests.stacks.conftest import PROJECT

from vetro.stacks import StackEngine, StackStatus
from vetro.stacks.memory import MemoryCompute

CANCELLED = "The operation was cancelled before it finished"


def _smaller(template: dict[str, Any]) -> dict[str, Any]:
    """A template that makes a network and a port: every kind of write, and few waits."""
    kept = ("network-1", "subnet-1")
    return {
        "heat_template_version": "2013-05-23",
        "resources": {name: template["resources"][name] for name in kept},
    }


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("action", ["create", "update", "delete"])
async def test_an_operation_that_is_cancelled_anywhere_leaves_a_stack_that_can_be_used(
    make_stacks: Callable[[], StackEngine],
    compute: MemoryCompute,
    application_template: Callable[..., dict[str, Any]],
    action: str,
    again: bool,
) -> None:
    """It has failed at once, also when the hold was just being written or the end was: nobody has to
    wait until the hold is over."""
    template = _smaller(application_template())
    changed = _smaller(application_template())
    changed["resources"]["subnet-1"]["properties"]["dns_nameservers"] = ["192.0.2.1"]
    stacks = make_stacks()
    ends: list[bool] = []

    def work() -> Coroutine[Any, Any, object]:
        if action == "create":
            return stacks.create(PROJECT, "env", template)
        if action == "update":
            return stacks.update(PROJECT, "env", changed)
        return stacks.delete(PROJECT, "env")

    async def prepare() -> None:
        if await stacks.get(PROJECT, "env") is not None:
            await stacks.delete(PROJECT, "env")
        assert is_empty(compute), f"after {len(ends)} interruptions"
        if action != "create":
            await stacks.create(PROJECT, "env", template)

    await prepare()
    async for ended in interruptions(work, again=again):
        ends.append(ended.cancelled())
        stack = await stacks.get(PROJECT, "env")
        if stack is not None:
            place = f"cancelled at wait {len(ends)}: {stack.status}"
            assert not stack.status.in_progress, place
            if stack.status is StackStatus(f"{action.upper()}_FAILED"):
                assert stack.reason == CANCELLED, place
            else:
                assert stack.status.value.endswith("_COMPLETE"), place
        await prepare()
    assert not ends[-1]
