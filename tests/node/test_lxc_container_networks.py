"""Real containers on networks: security groups, floating addresses, separate networks."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.errors import NodeError
from vetro.node.network.names import host_interface_name

from .lxc_guests import fetch, inside

pytestmark = pytest.mark.root


async def test_security_groups_decide_who_comes_in(containers: Any) -> None:
    """Ingress is denied unless a rule allows it, from the host and from neighbours alike."""
    guarded = containers.nic(5, security_groups=["open-81"])
    member = containers.nic(6, security_groups=["friends"])
    stranger = containers.nic(7)
    groups: list[dict[str, Any]] = [
        {
            "uuid": "open-81",
            "rules": [
                {"direction": "ingress", "protocol": "tcp", "port_range_min": 81,
                 "port_range_max": 81, "remote_ip_prefix": "0.0.0.0/0"},
                {"direction": "ingress", "protocol": "tcp", "port_range_min": 80,
                 "port_range_max": 80, "remote_group_id": "friends"},
            ],
        },
        {"uuid": "friends", "rules": []},
    ]  # fmt: skip
    await containers.apply([guarded, member, stranger], security_groups=groups)
    target = await containers.create([guarded])
    friend = await containers.create([member])
    other = await containers.create([stranger])
    await inside(containers, target["uuid"], "httpd", "-p", "81", "-h", "/www")

    assert await fetch(guarded["ip"], 81) is not None
    assert await fetch(guarded["ip"], 80, timeout=1) is None
    url = f"http://{guarded['ip']}/"
    assert await inside(
        containers, friend["uuid"], "timeout", "120", "wget", "-q", "-O", "-", url
    ) == (
        0,
        "a page\n",
    )
    code, _ = await inside(containers, other["uuid"], "timeout", "1", "wget", "-q", "-O", "-", url)
    assert code != 0
    # Stateful: answers to what an instance asks itself come in.
    code, page = await inside(
        containers,
        target["uuid"],
        "timeout",
        "5",
        "wget",
        "-q",
        "-O",
        "-",
        f"http://{stranger['ip']}/",
    )
    assert (code, page) == (0, "a page\n")


async def test_an_ipv6_network_is_guarded_like_any_other(containers: Any) -> None:
    """Rules of its own family, groups as remotes, and no address that is not the interface's own."""
    start = f"fd7e:8:{secrets.randbelow(0xFFFF) + 1:x}:"

    def nic(host: int, *groups: str) -> dict[str, Any]:
        given = containers.nic(host, security_groups=list(groups), primary=True)
        return {**given, "ip": f"{start}:{host}", "netmask": "64", "gateway": f"{start}:1"}

    guarded, member = nic(5, "open-81"), nic(6, "friends")
    ipv6 = {"ethertype": "IPv6", "protocol": "tcp"}
    rules = [
        {**ipv6, "port_range_min": 81, "port_range_max": 81, "remote_ip_prefix": "::/0"},
        {**ipv6, "port_range_min": 80, "port_range_max": 80, "remote_group_id": "friends"},
        {"protocol": "tcp", "remote_ip_prefix": "0.0.0.0/0"},
    ]
    network = {"uuid": containers.network_uuid, "cidr": f"{start}:/64", "mtu": 1400}
    await containers.apply(
        [guarded, member],
        networks=[{**network, "masquerade": True}],
        security_groups=[{"uuid": "open-81", "rules": rules}, {"uuid": "friends", "rules": []}],
    )
    target, friend = await containers.create([guarded]), await containers.create([member])
    await inside(containers, target["uuid"], "httpd", "-p", "81", "-h", "/www")
    assert await fetch(guarded["ip"], 81) is not None
    assert await fetch(guarded["ip"], 80, timeout=1) is None
    get = ("timeout", "120", "wget", "-q", "-O", "-", f"http://[{guarded['ip']}]/")
    assert await inside(containers, friend["uuid"], *get) == (0, "a page\n")
    _, routes = await inside(containers, friend["uuid"], "ip", "-6", "route")
    assert f"default via {start}:1" in routes
    changes = ("add", f"{start}:99/64"), ("del", f"{member['ip']}/64")
    for verb, address in changes:
        await inside(containers, friend["uuid"], "ip", "addr", verb, address, "dev", "eth0")
    get = ("timeout", "1", *get[2:])
    assert (await inside(containers, friend["uuid"], *get))[0] != 0


async def test_egress_rules_restrict_what_leaves(containers: Any) -> None:
    """A group with egress rules allows those and nothing else."""
    limited = containers.nic(5, security_groups=["out-81"])
    server = containers.nic(6)
    rule = {"direction": "egress", "protocol": "tcp", "port_range_min": 81, "port_range_max": 81}
    await containers.apply([limited, server], security_groups=[{"uuid": "out-81", "rules": [rule]}])
    client = await containers.create([limited])
    target = await containers.create([server])
    await inside(containers, target["uuid"], "httpd", "-p", "81", "-h", "/www")
    base = f"http://{server['ip']}"
    allowed, _ = await inside(
        containers, client["uuid"], "timeout", "120", "wget", "-q", "-O", "-", f"{base}:81/"
    )
    refused, _ = await inside(
        containers, client["uuid"], "timeout", "1", "wget", "-q", "-O", "-", f"{base}/"
    )
    assert allowed == 0
    assert refused != 0


async def test_a_floating_address_leads_to_its_instance(containers: Any) -> None:
    """From this machine, from a neighbour and from the instance itself; gone when it is taken away."""
    nic, neighbour = containers.nic(5), containers.nic(6)
    floating = f"198.18.{int(containers.subnet.split('.')[2])}.77"
    state = {
        "external": {"cidr": f"{floating.rsplit('.', 1)[0]}.0/24"},
        "floating_ips": [{"address": floating, "fixed_ip": nic["ip"], "mac": nic["mac"]}],
    }
    await containers.apply([nic, neighbour], **state)
    vm = await containers.create([nic])
    other = await containers.create([neighbour])
    assert await fetch(floating) == b"HTTP/1.1 200 OK\r\n"
    for uuid in (vm["uuid"], other["uuid"]):
        code, page = await inside(
            containers, uuid, "timeout", "120", "wget", "-q", "-O", "-", f"http://{floating}/"
        )
        assert (code, page) == (0, "a page\n")
    await containers.apply([nic, neighbour])
    assert await fetch(floating, timeout=1) != b"HTTP/1.1 200 OK\r\n"
    assert await fetch(nic["ip"]) is not None


async def test_an_instance_cannot_use_an_address_that_is_not_its_own(containers: Any) -> None:
    """A source address or MAC that was not given is dropped at the interface."""
    nic, server = containers.nic(5), containers.nic(6)
    await containers.apply([nic, server])
    vm = await containers.create([nic])
    await containers.create([server])
    url = f"http://{server['ip']}/"
    get = ("wget", "-q", "-O", "-", url)
    assert (await inside(containers, vm["uuid"], "timeout", "120", *get))[0] == 0
    await inside(
        containers, vm["uuid"], "ip", "addr", "add", f"{containers.subnet}.99/24", "dev", "eth0"
    )
    await inside(containers, vm["uuid"], "ip", "addr", "del", f"{nic['ip']}/24", "dev", "eth0")
    assert (await inside(containers, vm["uuid"], "timeout", "1", *get))[0] != 0


async def test_networks_are_separate_and_only_routed_ones_get_out(
    containers: Any, kit: SimpleNamespace
) -> None:
    """No way from one network to another; outside sees this machine's address; unrouted stays in."""
    number = int(containers.subnet.rsplit(".", 1)[1])
    base, outside, token = f"10.99.{number}", f"198.19.{number}", containers.prefix
    routed, second = containers.nic(5), kit.new_uuid()
    isolated = containers.nic(6) | {
        "network_uuid": second,
        "ip": f"{base}.6",
        "gateway": f"{base}.1",
    }
    networks = [
        {"uuid": containers.network_uuid, "cidr": f"{containers.subnet}.0/24", "masquerade": True},
        {"uuid": second, "cidr": f"{base}.0/24", "masquerade": False},
    ]
    await containers.apply([routed, isolated], networks=networks)
    out = await containers.create([routed])
    shut = await containers.create([isolated])
    script = (
        "import socket\n"
        f"s = socket.create_server(('{outside}.2', 80))\n"
        "print('ready', flush=True)\n"
        "c, peer = s.accept()\n"
        "c.recv(999); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n' + peer[0].encode()); c.close()\n"
    )
    setup = [
        ["ip", "netns", "add", token],
        ["ip", "link", "add", f"{token}o0", "type", "veth", "peer", "o1", "netns", token],
        ["ip", "addr", "add", f"{outside}.1/24", "dev", f"{token}o0"],
        ["ip", "link", "set", f"{token}o0", "up"],
        ["ip", "-n", token, "addr", "add", f"{outside}.2/24", "dev", "o1"],
        ["ip", "-n", token, "link", "set", "o1", "up"],
    ]
    try:
        for command in setup:
            subprocess.run(command, check=True)
        server = await asyncio.create_subprocess_exec(
            "ip", "netns", "exec", token, sys.executable, "-c", script, stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        await server.stdout.readline()
        get = ("wget", "-q", "-O", "-")
        shortly, patiently = ("timeout", "2", *get), ("timeout", "120", *get)
        assert (await inside(containers, shut["uuid"], *shortly, f"http://{outside}.2/"))[0] != 0
        assert await inside(containers, out["uuid"], *patiently, f"http://{outside}.2/") == (
            0,
            f"{outside}.1",
        )
        assert (await inside(containers, out["uuid"], *shortly, f"http://{base}.6/"))[0] != 0
        assert await fetch(f"{base}.6") == b"HTTP/1.1 200 OK\r\n"
        await server.wait()
    finally:
        subprocess.run(["ip", "link", "del", f"{token}o0"], check=False)
        subprocess.run(["ip", "netns", "del", token], check=False)


async def test_networks_refuse_to_contradict_themselves(containers: Any) -> None:
    """A bad state changes nothing on the machine."""
    await containers.plugged(5)
    with pytest.raises(NodeError, match="overlap"):
        await containers.network.apply(
            {
                "version": 99,
                "networks": [
                    {"uuid": "a" * 8, "cidr": "10.0.0.0/8"},
                    {"uuid": "b" * 8, "cidr": "10.1.0.0/16"},
                ],
            }
        )
    assert Path(f"/sys/class/net/{containers.prefix}b{containers.network_uuid[:8]}").exists()


async def test_applying_again_changes_nothing(
    containers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idempotent: the second time no link is touched; an older state is not applied."""
    import vetro.node.network.apply as apply

    nic = await containers.plugged(5)
    batches: list[tuple[str, list[str]]] = []

    async def watch(tool: str, commands: list[str]) -> None:
        batches.append((tool, commands))

    monkeypatch.setattr(apply, "_batch", watch)
    assert (await containers.apply([nic]))["applied"] is True
    assert batches == [("ip", [])]
    old = await containers.network.apply({"version": 1})
    assert old == {"version": 2, "applied": False, "kept": []}


async def test_the_first_packets_of_an_instance_arrive(containers: Any) -> None:
    """Rules, bridge and forwarding are there before the link: nothing an instance sends is sent twice."""
    nic = await containers.plugged(5)
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, f"{containers.subnet}.1", 0)
    port = server.sockets[0].getsockname()[1]
    vm = await containers.create([nic], autoboot=False)
    root = await containers.driver.files(vm["uuid"])
    # The very first thing that runs in the instance.
    first = f"#!/bin/sh\nwget -q -O /dev/null http://{containers.subnet}.1:{port}/first\n"
    root.write("/etc/init.d/rcS", first.encode(), 0o755)
    await containers.driver.start(vm["uuid"])
    async with server, asyncio.timeout(60):
        assert (await heard.get()).startswith(b"GET /first ")
    _, snmp = await inside(containers, vm["uuid"], "cat", "/proc/net/snmp")
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:"))
    counted = dict(zip(names, values, strict=True))
    assert (counted["ActiveOpens"], counted["RetransSegs"], counted["AttemptFails"]) == (
        "1",
        "0",
        "0",
    )
    # What is dropped towards it may be the host's own (multicast, before its link is up); an answer that it
    # had not received would be a retransmission above.
    peer = Path("/sys/class/net", host_interface_name(containers.prefix, nic["mac"]), "statistics")
    assert (peer / "rx_dropped").read_text() == "0\n"
