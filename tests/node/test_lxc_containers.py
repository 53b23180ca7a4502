"""Real containers: addresses, security groups, life cycle, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import PATIENCE_SECONDS, eventually

from vetro.node.errors import DriverError, ImageError, NodeError
from vetro.node.network.names import host_interface_name
from vetro.node.processes import command_line

pytestmark = pytest.mark.root

PATH = {"PATH": "/bin:/sbin"}
#: The image that the fixture knows (conftest.py).
IMAGE = "11111111-1111-4111-8111-111111111111"


async def fetch(address: str, port: int = 80, timeout: float = PATIENCE_SECONDS) -> bytes | None:
    """The first line an HTTP server answers; ``None`` when it cannot be reached."""
    deadline = asyncio.get_running_loop().time() + timeout
    while asyncio.get_running_loop().time() < deadline:
        try:
            async with asyncio.timeout_at(deadline):
                reader, writer = await asyncio.open_connection(address, port)
                try:
                    writer.write(b"GET / HTTP/1.0\r\n\r\n")
                    return await reader.readline()
                finally:
                    writer.transport.abort()
        except ConnectionRefusedError:
            # The server of a container that has just started is not there yet.
            await asyncio.sleep(0.02)
        except (OSError, TimeoutError):
            return None
    return None


async def inside(containers: Any, uuid: str, *command: str) -> tuple[int, str]:
    """Run a command in a container."""
    result = await containers.driver.execute(uuid, list(command), PATH, 20)
    return result.exit_code, result.stdout + result.stderr


async def test_a_container_serves_on_its_static_address(containers: Any) -> None:
    """Created means running, with the address, name and route that were asked for."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create(
        [nic], hostname="web-1", dns_domain="example", resolvers=["9.9.9.9"]
    )
    assert vm["state"] == "running"
    assert (await fetch(nic["ip"])) == b"HTTP/1.1 200 OK\r\n"
    assert await inside(containers, vm["uuid"], "hostname") == (0, "web-1\n")
    assert (
        f"{nic['ip']}\tweb-1.example web-1"
        in (await inside(containers, vm["uuid"], "cat", "/etc/hosts"))[1]
    )
    assert (
        "nameserver 9.9.9.9" in (await inside(containers, vm["uuid"], "cat", "/etc/resolv.conf"))[1]
    )
    assert (
        f"default via {containers.subnet}.1"
        in (await inside(containers, vm["uuid"], "ip", "route"))[1]
    )


async def test_root_in_a_container_is_nobody_on_the_host(containers: Any) -> None:
    """Containers are unprivileged: shifted ids, dropped capabilities, a seccomp filter."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    status = Path(f"/proc/{vm['pid']}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["Uid"].split()[0]) >= 100000
    assert fields["Seccomp"].strip() == "2"
    bounding = int(fields["CapBnd"], 16)
    sys_module, sys_time = 16, 25
    assert not bounding >> sys_module & 1
    assert not bounding >> sys_time & 1
    await inside(containers, vm["uuid"], "touch", "/root/mine")
    owner = (containers.store.path(vm["uuid"]) / "upper/root/mine").stat().st_uid
    assert owner >= 100000


async def test_security_groups_decide_who_comes_in(containers: Any) -> None:
    """Ingress is denied unless a rule allows it, from the host and from neighbours alike."""
    guarded = containers.nic(5, security_groups=["open-81"])
    member = containers.nic(6, security_groups=["friends"])
    stranger = containers.nic(7)
    groups = [
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


async def test_stop_start_and_reboot(containers: Any) -> None:
    """The file system survives, `/run` does not; a stopped VM is not stopped twice."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    uuid = vm["uuid"]
    await inside(containers, uuid, "sh", "-c", "echo kept > /root/file; echo gone > /run/file")
    stopped = await containers.driver.stop(uuid, timeout=10)
    assert (stopped["state"], stopped["zone_state"]) == ("stopped", "installed")
    with pytest.raises(DriverError) as error:
        await containers.driver.stop(uuid)
    assert error.value.code == "ENOTRUNNING"
    started = await containers.driver.start(uuid)
    assert started["state"] == "running"
    assert await inside(containers, uuid, "cat", "/root/file") == (0, "kept\n")
    assert (await inside(containers, uuid, "cat", "/run/file"))[0] != 0
    again = await containers.driver.reboot(uuid, timeout=10)
    assert again["pid"] != started["pid"]
    assert await fetch(nic["ip"]) is not None


async def test_limits_are_set_and_changed_while_it_runs(containers: Any) -> None:
    """Memory and process limits reach the kernel at start and with an update."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic], max_physical_memory=128, max_lwps=50, cpu_cap=50)

    def limit(name_v1: str, name_v2: str) -> str:
        group = f"lxc.payload.{vm['uuid']}"
        for path in (
            Path("/sys/fs/cgroup", name_v1.split(".")[0], group, name_v1),
            Path("/sys/fs/cgroup", group, name_v2),
        ):
            if path.exists():
                return path.read_text().strip()
        raise AssertionError(f"no control group has {name_v1} or {name_v2}")

    assert limit("memory.limit_in_bytes", "memory.max") == str(128 << 20)
    assert limit("pids.max", "pids.max") == "50"
    changed = await containers.driver.update(vm["uuid"], {"max_physical_memory": 192})
    assert changed["max_physical_memory"] == 192
    assert limit("memory.limit_in_bytes", "memory.max") == str(192 << 20)
    await containers.driver.update(vm["uuid"], {"max_physical_memory": 96, "max_swap": 96})
    assert limit("memory.limit_in_bytes", "memory.max") == str(96 << 20)


async def test_adding_an_interface_restarts_with_it(containers: Any) -> None:
    """An update with `add_nics` ends in a running container that has both interfaces."""
    first, second = containers.nic(5), containers.nic(6)
    await containers.apply([first, second])
    vm = await containers.create([first])
    updated = await containers.driver.update(vm["uuid"], {"add_nics": [second]})
    assert [nic["interface"] for nic in updated["nics"]] == ["net0", "net1"]
    assert [nic["primary"] for nic in updated["nics"]] == [True, False]
    assert "eth1" in (await inside(containers, vm["uuid"], "ip", "link"))[1]


async def test_reprovision_starts_afresh(containers: Any, kit: SimpleNamespace) -> None:
    """The root file system is the image again; uuid, address and metadata stay."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic], tags={"role": "web"})
    await inside(containers, vm["uuid"], "touch", "/root/file")
    again = await containers.driver.reprovision(vm["uuid"], kit.image)
    assert again["state"] == "running"
    assert again["tags"] == {"role": "web"}
    assert (await inside(containers, vm["uuid"], "ls", "/root/file"))[0] != 0
    assert await fetch(nic["ip"]) is not None


async def test_processes_are_those_of_the_container(containers: Any) -> None:
    """`machine_proc` shows the container's init as pid 1 and nothing of the host."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    await fetch(nic["ip"])
    processes = await containers.driver.processes(vm["uuid"])
    assert processes["1"]["host_pid"] == vm["pid"]
    assert any("httpd" in " ".join(p["command"]) for p in processes.values())
    assert not any("pytest" in " ".join(p["command"]) for p in processes.values())


async def test_a_guest_that_powers_off_is_noticed(containers: Any) -> None:
    """The end of a container is an event: no one has to ask."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    changed = asyncio.Event()
    containers.driver.watch(lambda _uuid: changed.set())
    await inside(containers, vm["uuid"], "poweroff", "-f")
    async with asyncio.timeout(240):
        await changed.wait()
    after = await containers.driver.load(vm["uuid"])
    assert after["state"] == "stopped"
    assert "exit_timestamp" in after


async def test_containers_outlive_the_agent(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """Another agent on the same data finds the container running, and can stop it."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    await containers.driver.close()
    second = await kit.open_containers(tmp_path, containers.prefix, containers.subnet)
    try:
        found = await second.driver.load(vm["uuid"])
        assert (found["state"], found["pid"]) == ("running", vm["pid"])
        await second.driver.stop(vm["uuid"], force=True)
        assert not Path(f"/proc/{vm['pid']}").exists()
    finally:
        await second.driver.close()


async def test_destroy_leaves_nothing(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """No mount, interface, control group, lock, process or directory; again is no error."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    uuid = vm["uuid"]
    await containers.driver.delete(uuid)
    await containers.driver.delete(uuid)
    await containers.network.apply({"version": 100})
    assert kit.traces(containers.prefix, tmp_path) == []
    assert list((tmp_path / "vms").iterdir()) == []
    # LXC's groups are at the top of each hierarchy. Deeper, those of others come and go while we look.
    groups = Path("/sys/fs/cgroup")
    assert [*groups.glob(f"*{uuid}*"), *groups.glob(f"*/*{uuid}*")] == []
    assert list(Path("/run/lxc").glob(f"**/.{uuid}")) == []


async def test_a_missing_network_fails_the_create_and_leaves_nothing(containers: Any) -> None:
    """The error says which network; the VM does not exist afterwards."""
    nic = containers.nic(5)
    with pytest.raises(DriverError, match="is not on this node") as error:
        await containers.create([nic])
    assert error.value.rest_code == "NetworkNotFound"
    assert await containers.driver.list() == []
    assert list((containers.directory / "vms").iterdir()) == []


async def test_an_init_that_cannot_run_is_a_failed_create(containers: Any) -> None:
    """What LXC says reaches the error."""
    nic = containers.nic(5)
    await containers.apply([nic])
    await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    root = containers.images.root("11111111-1111-4111-8111-111111111111")
    (root / "bin/busybox").chmod(0o644)
    with pytest.raises(DriverError, match="did not start|ended right after"):
        await containers.create([nic])
    assert await containers.driver.list() == []


async def test_ten_are_created_side_by_side(containers: Any) -> None:
    """Concurrent creates do not disturb each other."""
    nics = [containers.nic(10 + index) for index in range(10)]
    await containers.apply(nics)
    vms = await asyncio.gather(*(containers.create([nic]) for nic in nics))
    assert {vm["state"] for vm in vms} == {"running"}
    pages = await asyncio.gather(*(fetch(nic["ip"]) for nic in nics))
    assert pages == [b"HTTP/1.1 200 OK\r\n"] * 10


async def test_an_image_that_is_no_tar_is_refused(
    containers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged image fails with its reason and leaves no directory behind."""

    async def broken(_uuid: str, path: Path) -> None:
        path.write_bytes(b"\x28\xb5\x2f\xfdnot really")

    monkeypatch.setattr(containers.images, "_fetch", broken)
    with pytest.raises(ImageError, match="not a root file system|cut short"):
        await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    assert list((containers.directory / "images").iterdir()) == []


async def test_image_owners_are_shifted(containers: Any) -> None:
    """Root's files in the image belong to the containers' root, which is nobody on the host."""
    await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    root = containers.images.root("11111111-1111-4111-8111-111111111111")
    assert (root / "bin/busybox").stat().st_uid >= 100000
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


async def test_a_killed_monitor_is_a_stopped_vm_that_starts_again(containers: Any) -> None:
    """LXC's own process may die; the container goes with it and nothing blocks the next start."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    monitor = int((containers.store.path(vm["uuid"]) / "monitor.pid").read_text())
    os.kill(monitor, signal.SIGKILL)

    async def stopped() -> bool:
        return bool((await containers.driver.load(vm["uuid"]))["state"] == "stopped")

    await eventually(stopped)
    again = await containers.driver.start(vm["uuid"])
    assert again["state"] == "running"
    assert await fetch(nic["ip"]) is not None


async def test_networks_refuse_to_contradict_themselves(containers: Any) -> None:
    """A bad state changes nothing on the machine."""
    nic = containers.nic(5)
    await containers.apply([nic])
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

    nic = containers.nic(5)
    await containers.apply([nic])
    batches: list[tuple[str, list[str]]] = []

    async def watch(tool: str, commands: list[str]) -> None:
        batches.append((tool, commands))

    monkeypatch.setattr(apply, "_batch", watch)
    assert (await containers.apply([nic]))["applied"] is True
    assert batches == [("ip", [])]
    old = await containers.network.apply({"version": 1})
    assert old == {"version": 2, "applied": False, "kept": []}


async def test_containers_of_a_removed_data_directory_are_ended(
    kit: SimpleNamespace, tmp_path: Path, node_names: tuple[str, str]
) -> None:
    """Whoever deletes the directory under running containers gets a clean machine at the next start."""
    prefix, subnet = node_names
    first = await kit.open_containers(tmp_path, prefix, subnet)
    nic = first.nic(5)
    await first.apply([nic])
    vm = await first.create([nic])
    await first.driver.close()
    shutil.rmtree(tmp_path / "vms")
    second = await kit.open_containers(tmp_path, prefix, subnet)
    assert not any(command_line(vm["pid"]))
    await second.network.apply({"version": 1})
    await second.driver.close()
    assert kit.traces(prefix, tmp_path) == []


async def test_a_restart_of_the_machine_brings_containers_back(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """Mounts, configuration and networks are made again from what is on disk."""
    nic = containers.nic(5)
    await containers.apply([nic])
    vm = await containers.create([nic])
    uuid = vm["uuid"]
    await inside(containers, uuid, "touch", "/root/kept")
    await containers.driver.stop(uuid, force=True)
    await containers.driver.close()
    # What a restart takes away.
    [runtime] = Path("/run/vetro").glob(f"{containers.prefix}-*")
    subprocess.run(["umount", str(runtime / uuid / "rootfs")], check=True)
    shutil.rmtree(runtime)
    subprocess.run(
        ["ip", "link", "delete", f"{containers.prefix}b{containers.network_uuid[:8]}"], check=True
    )
    second = await kit.open_containers(tmp_path, containers.prefix, containers.subnet)
    try:
        await second.network.restore()
        assert await second.driver.autoboot() == []
        assert (await second.driver.load(uuid))["state"] == "running"
        assert await inside(second, uuid, "ls", "/root") == (0, "kept\n")
        assert await fetch(nic["ip"]) is not None
        await second.driver.stop(uuid, force=True)
    finally:
        await second.driver.close()


async def test_a_create_cancelled_by_its_time_limit_leaves_nothing(containers: Any) -> None:
    """The task's end takes everything with it, also in the middle of the start."""
    nic = containers.nic(5)
    await containers.apply([nic])
    changed = asyncio.Event()
    hypervisor = containers.driver._hypervisor
    start = hypervisor.start

    async def slow(vm: dict[str, Any]) -> None:
        await start(vm)
        changed.set()
        await asyncio.Event().wait()

    hypervisor.start = slow
    work = asyncio.create_task(containers.create([nic]))
    await changed.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    hypervisor.start = start
    assert await containers.driver.list() == []
    assert list((containers.directory / "vms").iterdir()) == []


async def test_the_first_packets_of_an_instance_arrive(containers: Any) -> None:
    """Rules, bridge and forwarding are there before the link: nothing an instance sends is sent twice."""
    nic = containers.nic(5)
    await containers.apply([nic])
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
    peer = Path("/sys/class/net", host_interface_name(containers.prefix, nic["mac"]), "statistics")
    assert [(peer / name).read_text() for name in ("rx_dropped", "tx_dropped")] == ["0\n", "0\n"]


async def test_an_image_is_unpacked_before_a_container_needs_it(containers: Any) -> None:
    """A creation that comes meanwhile joins it; the store says how far it is, then that it is here."""
    seen: list[tuple[str, int]] = []

    def changed() -> None:
        seen.extend((one["state"], one["percent"]) for one in containers.images.copies().values())

    containers.images.watch(changed)
    nic = containers.nic(5)
    await containers.apply([nic])
    early = asyncio.create_task(containers.images.ensure(IMAGE))
    vm = await containers.create([nic])
    await early
    assert vm["state"] == "running"
    assert seen[0] == ("fetching", 0)
    assert ("unpacking", 40) in seen
    assert seen[-1] == ("present", 100)
    assert [percent for _, percent in seen] == sorted(percent for _, percent in seen)
