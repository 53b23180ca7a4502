"""Which VM sends from an address, and which mailboxes its user data name."""

from __future__ import annotations

import base64
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compute.conftest import MASTER, NODE, OTHER, PROJECT, World

from vetro.compute.vms.guest_addresses import mentions
from vetro.compute.wire import node_key, relay_stamp

QUEUE = "e4f1c2-h9a8b7"


async def vm_with_port(world: World, cidr: str, **port: Any) -> tuple[str, str]:
    """A VM with one address in a network of its own; both."""
    network = await world.ok("POST", "/networks", {"name": cidr, "project_id": PROJECT})
    body = {"network_uuid": network["uuid"], "cidr": cidr, "project_id": PROJECT}
    await world.ok("POST", "/subnets", body)
    body = {"network_uuid": network["uuid"], "project_id": PROJECT, **port}
    made = await world.ok("POST", "/ports", body)
    return await world.vm(ports=[made["uuid"]]), made["fixed_ips"][0][1]


async def test_an_address_is_that_of_its_vm(any_world: World) -> None:
    """In each spelling of a socket, on its node and on no other; a free address is nobody's."""
    guests = any_world.service.guests
    vm, ip = await vm_with_port(any_world, "10.7.0.0/24")
    for said in (ip, f"::ffff:{ip}"):
        assert await guests.having(said, "") == [vm]
        assert await guests.having(said, NODE) == [vm]
        assert await guests.having(said, OTHER) == []
    vm, ip = await vm_with_port(any_world, "fd00:7::/64")
    assert await guests.having(ip, NODE) == [vm]
    for said in ("10.7.0.250", "127.0.0.1", "", "testclient", "fe80::1%eth0"):
        assert await guests.having(said, "") == []


async def test_an_unguarded_port_says_nothing(world: World) -> None:
    """Whoever has it may send as anybody."""
    _, ip = await vm_with_port(world, "10.7.0.0/24", port_security=False)
    assert await world.service.guests.having(ip, "") == []


async def test_a_vm_is_told_what_its_user_data_name(any_world: World) -> None:
    """Those that it was made with; a VM that is gone is told nothing."""
    guests = any_world.service.guests
    vm = await any_world.vm(customer_metadata={"user-data": f"[mailbox]\ninput_queue = {QUEUE}\n"})
    assert await guests.is_told(vm, QUEUE) is True
    assert await guests.is_told(vm, "another") is False
    assert await guests.is_told(OTHER, QUEUE) is None


async def test_a_relay_is_believed_with_a_key_of_its_node(world: World) -> None:
    """What another key has signed, or no key, is no relay's."""
    header = relay_stamp(node_key(MASTER, NODE), NODE, "10.0.0.5").encode()
    guests = world.service.guests
    assert guests.relayed([(b"x-vetro-relay", header)]) == ("10.0.0.5", NODE)
    assert guests.relayed([(b"x-vetro-relay", header.replace(b"10.0.0.5", b"10.0.0.6"))]) is None
    assert guests.relayed([(b"x-vetro-relay", b"10.0.0.5")]) is None
    assert guests.relayed([(b"x-vetro-relay", "é".encode() * 3)]) is None
    assert guests.relayed([]) is None


@pytest.mark.parametrize("charset", ["us-ascii", "utf-8"])
@pytest.mark.parametrize("packed", [False, True])
def test_user_data_of_every_form_are_read(charset: str, packed: bool) -> None:
    """As the core library and workflows make them: MIME with parts in base64, files in base64 in a script."""
    config = f"# {'ä' if charset == 'utf-8' else 'a'}\n[mailbox]\ninput_queue = {QUEUE}\n"
    text = base64.b64encode(config.encode()).decode() if packed else config
    message = MIMEMultipart()
    message.attach(MIMEText(f"#!/bin/sh\n# ü\necho {text}\n", "x-shellscript", "utf-8"))
    assert QUEUE not in message.as_string()
    assert mentions(message.as_string(), QUEUE)
    assert not mentions(message.as_string(), QUEUE.replace("9", "8"))


@given(before=st.binary(max_size=40), after=st.binary(max_size=40), wrapped=st.booleans())
def test_a_word_is_found_at_every_place(before: bytes, after: bytes, wrapped: bool) -> None:
    """In base64 of any length before and after it, in one line or in many, once and twice."""
    once = base64.b64encode(before + QUEUE.encode() + after)
    twice = base64.encodebytes(b"x" + once) if wrapped else base64.b64encode(b"x" + once)
    assert mentions(once.decode(), QUEUE)
    assert mentions(twice.decode(), QUEUE)
