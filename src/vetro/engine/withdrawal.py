"""Taking back a plan that nobody waits for any more (guest-agent.md, "Beyond upstream": cancel)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vetro.engine.services import logger

if TYPE_CHECKING:
    from vetro.engine.signing import PlanSigner
    from vetro.messaging import MessageTransport

WITHDRAW_SECONDS = 5.0
ORDER_SECONDS = 86_400.0
"""How long the order to end a plan waits for a guest that is away: as long as queues live (§2)."""


async def withdraw(
    transport: MessageTransport,
    signer: PlanSigner | None,
    queue: str,
    plan_id: str,
    second_format: bool = True,
) -> str:
    """Have a plan not begun, or ended. What was done, in words; raises nothing.

    ``second_format``: whether the plan is of format 2, whose agents know the order to end one.
    """
    # For an agent that knows no such order it is an empty plan.
    order: dict[str, object] = {
        "FormatVersion": "2.0.0",
        "ID": plan_id,
        "Action": "Cancel",
        "Name": f"Cancel {plan_id}",
        "Body": "return",
        "Scripts": {},
        "Files": {},
    }
    body = json.dumps(order).encode()
    signature = signer.sign(queue, body) if signer is not None else None
    try:
        # Imported late: checking a package loads the system classes and runs nothing.
        import asyncio

        async with asyncio.timeout(WITHDRAW_SECONDS):
            if await transport.discard(plan_id):
                return "The plan was withdrawn: it will not run."
            if not second_format:
                return "Agents of this plan format cannot be told to stop it."
            await transport.send(
                queue,
                f"{plan_id}-cancel",
                body,
                signature=signature,
                lifetime=ORDER_SECONDS,
                order=True,
            )
            return "The agent is told to stop it, or not to start it."
    except Exception as error:  # noqa: BLE001 - the call ends whatever comes of this
        logger(__name__).warning("plan_not_withdrawn", queue=queue, error=str(error))
        return f"It could not be withdrawn: {error}"
