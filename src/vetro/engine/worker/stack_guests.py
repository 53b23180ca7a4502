"""Agents of servers that a stack made for software deployments (core-library.md §9)."""

from __future__ import annotations

import json

from vetro.engine.errors import AgentException
from vetro.engine.plans import bounded, decode_result, read_result
from vetro.engine.signing import PlanSigner
from vetro.json_values import Json
from vetro.messaging import MessageTransport
from vetro.stacks import ResourceFailure


class StackGuests:
    """``Guests`` of stacks at the mailboxes of the service.

    A server's mailbox is called after the server, not after an object of an environment: a package's
    agent and a deployment's are never the same. Plans are signed like all others.
    """

    def __init__(self, transport: MessageTransport, mailbox_url: str, signer: PlanSigner) -> None:
        self._transport = transport
        self._url = mailbox_url
        self._signer = signer

    async def configuration(self, server: str) -> str:
        """The configuration file of the server's agent; makes its mailbox."""
        queue = _queue(server)
        token = await self._transport.issue_credential(queue)
        return (
            "[DEFAULT]\nstorage = /var/murano/plans\n"
            f"engine_key =\n{self._signer.public_key('    ')}\n\n"
            f"[mailbox]\nurl = {self._url}\ntoken = {token}\ninput_queue = {queue}\n"
        )

    async def run(self, server: str, plan: dict[str, Json], seconds: float) -> Json:
        """The value of a plan; sent again under the same id it is not run again."""
        queue, message_id = _queue(server), str(plan["ID"])
        sent = bounded(plan, seconds) if seconds else plan
        body = json.dumps(sent).encode()
        await self._transport.send(
            queue,
            message_id,
            body,
            signature=self._signer.sign(queue, body),
            name=str(plan["Name"]),
            lifetime=seconds or None,
        )
        if not seconds:
            return None
        answer = await self._transport.wait_result(message_id, seconds)
        if answer is None:
            await self._transport.discard(message_id)
            seen = await self._transport.last_contact(queue)
            heard = (
                f"was last heard of at {seen:%Y-%m-%d %H:%M:%S} UTC"
                if seen
                else "was never heard of"
            )
            raise ResourceFailure(
                f"The agent of the server has not run it within {seconds:g} s; it {heard}."
                " The server needs an image with python3 and a network from which it reaches the service"
            )
        try:
            return decode_result(read_result(answer))
        except AgentException as error:
            raise ResourceFailure(f"The agent of the server has refused it: {error}") from error

    async def forget(self, server: str) -> None:
        """The server is gone: its credential and its mailbox as well."""
        await self._transport.revoke(_queue(server))
        await self._transport.delete(_queue(server))


def _queue(server: str) -> str:
    return f"stack-{server}"
