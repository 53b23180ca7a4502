"""Agents reach the guests of the environment that is deployed, whatever ids a program names."""

from __future__ import annotations

from typing import Any

import pytest

from .test_agents import PLAN, ask

REACHING = [
    f"$agent.callRaw({PLAN})",
    f"$agent.sendRaw({PLAN})",
    f"$agent.call({PLAN}, new(sys:Resources))",
    f"$agent.send({PLAN}, new(sys:Resources))",
    "$agent.waitReady()",
    "$agent.isReady()",
    "$agent.mailboxToken()",
    "$agent.mailboxUrl()",
    "$agent.release()",
]


@pytest.mark.parametrize("call", REACHING)
async def test_a_guest_of_another_environment_is_out_of_reach(lab: Any, call: str) -> None:
    """An id is chosen by whoever writes it: one that is another environment's opens nothing."""
    services = lab.cloud.services

    def deployed(_environment: str) -> Any:
        made = services("ours")
        made.only_own_guests = True
        return made

    lab.cloud.services = deployed
    text = f"""
- Try:
    - {call}
  Catch:
    With: 'murano.common.exceptions.PolicyViolationException'
    As: e
    Do:
      - Return: $e.message
"""
    said = await ask(lab, text)
    assert "in the environment env, which is not the one that is deployed" in str(said)
    assert lab.cloud.transport.plans == []
    assert not lab.cloud.transport.credentials
