"""New settings reach agents as orders: a machine's user data is read once (decision 0793).

A digest of what the agent of a machine was made with, or was told last, is kept beside its mailbox. Before
a session sends a guest its first plan, it is compared with that of today's settings; where they differ, an
order goes before the plan. An agent keeps its former door until the new one has answered.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vetro.engine.services import logger

if TYPE_CHECKING:
    from vetro.engine.signing import PlanSigner
    from vetro.messaging import BrokerSettings, MessageTransport

Sections = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent is to come today, as its configuration says it: options by section."""

    door: str
    """``HOST:PORT`` of the service, or ``amqp:HOST:PORT`` of a broker."""
    sections: Sections

    @property
    def digest(self) -> str:
        """Of everything but the guest's own secret, which stays for its life."""
        return hashlib.sha256(json.dumps(self.sections, sort_keys=True).encode()).hexdigest()

    @property
    def brokered(self) -> bool:
        """Whether it is at a broker."""
        return "rabbitmq" in self.sections


def at_mailbox(url: str, signer: PlanSigner | None) -> Place:
    """The mailbox of the service."""
    return Place(urlsplit(url).netloc, {"DEFAULT": _key(signer), "mailbox": {"url": url}})


def at_broker(
    broker: BrokerSettings, signer: PlanSigner | None, *, user: str, results: str
) -> Place:
    """A broker; ``user``: the guest's own there, "" where guests share the service's."""
    login = {"login": user} if user else {"login": broker.login, "password": broker.password}
    return Place(
        broker.door,
        {
            "DEFAULT": _key(signer),
            "mailbox": {"url": ""},
            "rabbitmq": {
                "host": broker.host,
                "port": str(broker.port),
                **login,
                "virtual_host": broker.virtual_host,
                "ssl": str(broker.ssl).lower(),
                "insecure": str(broker.insecure).lower(),
                "ca_certs": "",
                "ca_data": broker.authorities(),
                "result_exchange": user,
                "result_routing_key": results,
            },
        },
    )


async def note_made(transport: MessageTransport, queue: str, place: Place) -> None:
    """Record what the user data of a machine has that is about to be made; nothing of one that is there."""
    known = await transport.told(queue)
    if known.digest is None and not known.heard:
        await transport.note_told(queue, place.digest, place.door)


async def tell(
    transport: MessageTransport,
    mailboxes: MessageTransport,
    signer: PlanSigner | None,
    queue: str,
    place: Place,
) -> None:
    """Have a guest know where to come; nothing when it knows.

    ``transport``: how the guest is reached from now on; ``mailboxes``: the mailboxes of the service, where a
    guest still fetches that is to go to a broker.
    """
    known = await transport.told(queue)
    if known.digest == place.digest:
        return
    if known.digest is None and not known.heard:
        await transport.note_told(queue, place.digest, place.door)
        return
    at_service = known.door is not None and not known.door.startswith("amqp:")
    if place.brokered and at_service:
        transport = mailboxes
    elif not place.brokered and known.door is not None and not at_service:
        logger(__name__).warning(
            "agent_left_at_broker", queue=queue, door=known.door, advice="set [rabbitmq] host again"
        )
        return
    id_ = f"configure-{uuid.uuid4().hex}"
    body = json.dumps(await _order(transport, queue, id_, place)).encode()
    # An agent knows one key: what others have signed it drops.
    signers = [None] if signer is None else [signer, *signer.former]
    for number, one in enumerate(signers):
        await transport.send(
            queue,
            f"{id_}-{number}" if number else id_,
            body,
            signature=None if one is None else one.sign(queue, body),
            name="Configure",
            order=True,
        )
    await transport.note_told(queue, place.digest, place.door)
    logger(__name__).info("agent_told", queue=queue, door=place.door)


async def _order(
    transport: MessageTransport, queue: str, id_: str, place: Place
) -> dict[str, object]:
    sections = {name: dict(options) for name, options in place.sections.items()}
    secret = await transport.issue_credential(queue)
    if not place.brokered:
        sections["mailbox"]["token"] = secret
    elif "password" not in sections["rabbitmq"]:
        sections["rabbitmq"]["password"] = secret
    # For an agent that knows no such order it is an empty plan.
    return {
        "FormatVersion": "2.0.0",
        "ID": id_,
        "Action": "Configure",
        "Name": "Configure",
        "Isolation": "optional",
        "Body": "return",
        "Scripts": {},
        "Files": {},
        "Settings": sections,
    }


def _key(signer: PlanSigner | None) -> dict[str, str]:
    return {"engine_key": "" if signer is None else signer.public_key()}
