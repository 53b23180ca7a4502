"""Which VM sends from an address, and which mailboxes its user data name (guest-agent.md §2a)."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable

from sqlalchemy import select

from vetro.compute.tables import ports, vms
from vetro.compute.values.records import mapping
from vetro.compute.wire import RELAY_HEADER, genuine_relay
from vetro.http import Headers, header
from vetro.storage import Database


class GuestMachines:
    """The VMs of an installation, as its mailboxes ask about them (`vetro.messaging.machines`)."""

    def __init__(self, database: Database, master_key: str) -> None:
        self._database = database
        self._key = master_key

    def relayed(self, headers: Headers) -> tuple[str, str] | None:
        """The guest's address and the node in a relay's stamp; ``None`` when no node's key made one."""
        return genuine_relay(self._key, header(headers, RELAY_HEADER.encode()))

    async def having(self, address: str, node: str) -> list[str]:
        """The VMs that have an address, on a node or ('') on any; none for what is no address.

        A port without port security may send as anybody, so it says nothing of its VM.
        """
        try:
            known = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return []
        plain = getattr(known, "ipv4_mapped", None) or known
        query = (
            select(vms.c.uuid)
            .join(ports, ports.c.device_uuid == vms.c.uuid)
            .where(ports.c.ip == str(plain), ports.c.port_security)
        )
        if node:
            query = query.where(vms.c.server_uuid == node)
        async with self._database.read() as tx:
            return sorted((await tx.execute(query)).scalars())

    async def is_told(self, machine: str, queue: str) -> bool | None:
        """Whether the user data that a VM was made with name a mailbox; ``None``: no such VM."""
        query = select(vms.c.vm, vms.c.payload).where(vms.c.uuid == machine)
        async with self._database.read() as tx:
            row = (await tx.execute(query)).first()
        if row is None:
            return None
        said = [mapping(mapping(one).get("customer_metadata")) for one in (row.payload, row.vm)]
        return any(mentions(str(text), queue) for one in said for text in one.values())


def mentions(text: str, word: str) -> bool:
    """Whether a text has a word, as it is or in base64, once or twice.

    Parts of a MIME message that are not ASCII are in base64, and a script may carry a file in it.
    """
    packed = "".join(text.split())
    once = _encodings([word.encode()])
    return any(form.decode() in packed for form in (word.encode(), *once, *_encodings(once)))


def _encodings(words: Iterable[bytes]) -> list[bytes]:
    """How words look inside of a longer text in base64: one form for each place within three bytes."""
    found: list[bytes] = []
    for word in words:
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + word)
            # The first and last characters have bits of the neighbours.
            start = -(-before * 8 // 6)
            end = (before + len(word)) * 8 // 6
            found.append(encoded[start:end])
    return found
