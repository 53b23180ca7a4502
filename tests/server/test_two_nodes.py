"""Two compute nodes and a service, each node with a network of its own: docs/compute/two-nodes.md."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.node import terminal
from tests.node.conftest import busybox_tar
from tests.node.drivers import conftest as machines
from tests.server.conftest import Installation, build_image
from tests.server.copied_credential import is_refused_elsewhere
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
VETRO = str(Path(sys.executable).with_name("vetro"))
pytestmark = [pytest.mark.root, pytest.mark.e2e]


def do(*command: str) -> str:
    """Run a command of this machine's."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Node:
    """One machine, as far as namespaces make one: ``vetro node`` with a network and mounts of its own.

    A process that sleeps holds the namespaces, so that an agent that is started again finds them.
    """

    def __init__(self, site: Site, name: str, number: int, driver: str) -> None:
        self.site, self.driver = site, driver
        self.uuid = str(uuid.uuid4())
        self.space = f"{site.prefix}{name}"
        self.wire = f"{site.prefix}w{name}"
        self.address = f"{site.underlay}.{number}"
        self.directory = site.directory / name
        self.process: subprocess.Popen[bytes] | None = None
        self.machine: subprocess.Popen[bytes] | None = None

    def plug(self) -> None:
        """A namespace with one cable to the machine's bridge."""
        do("ip", "netns", "add", self.space)
        do("ip", "link", "add", self.wire, "type", "veth", "peer", "name", "eth0",
           "netns", self.space)  # fmt: skip
        do("ip", "link", "set", self.wire, "master", self.site.bridge, "up")
        inside = ("ip", "-n", self.space)
        do(*inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        do(*inside, "link", "set", "eth0", "up")
        do(*inside, "link", "set", "lo", "up")
        self.directory.mkdir(mode=0o711)
        # With a /sys of its own, which shows this network's interfaces, and the machine's cgroups in it.
        script = (
            "mkdir $0; mount --rbind /sys/fs/cgroup $0 && mount -t sysfs sysfs /sys"
            " && mount --move $0 /sys/fs/cgroup && exec sleep infinity"
        )
        self.machine = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "--mount",
             "sh", "-c", script, str(self.directory / "cgroup")]
        )  # fmt: skip
        running = Path(f"/proc/{self.machine.pid}/comm")
        until(lambda: running.read_text() == "sleep\n", "the namespaces are there")

    def unplug(self) -> None:
        """Remove the namespaces."""
        if self.machine is not None:
            self.machine.kill()
            self.machine.wait(30)
        do("ip", "netns", "delete", self.space)

    def start(self) -> None:
        """Start the agent."""
        assert self.machine is not None
        with (self.directory / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--target={self.machine.pid}", "--net", "--mount", VETRO, "node",
                 "--compute-url", f"http://{self.site.gateway}:{self.site.vetro.port}/compute",
                 "--listen-host", self.address, "--server-uuid", self.uuid,
                 "--driver", self.driver, "--prefix", self.space,
                 "--data-dir", str(self.directory)],
                env={**os.environ, "VETRO_NODE_KEY": self.site.key_of(self)},
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def kill(self) -> None:
        """End the agent as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        """Stop the agent."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(240) == 0, self.log()

    def log(self) -> str:
        """What the agent said."""
        return (self.directory / "node.log").read_text(errors="replace")

    def links(self) -> list[str]:
        """The interfaces in the namespace."""
        return [link["ifname"] for link in json.loads(do("ip", "-n", self.space, "-j", "link"))]


class Site:
    """The service, the cables between the nodes, and a way to use all of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        token = secrets.token_hex(2)
        # Apart from every other run on this machine.
        self.prefix = f"w{token[2:]}"
        self.underlay = f"10.{200 + int(token[:2], 16) % 50}.{int(token[2:], 16)}"
        self.gateway = f"{self.underlay}.254"
        self.bridge = f"{self.prefix}under"
        self.vetro: Installation = None

    def key_of(self, node: Node) -> str:
        """A node's own secret, as an operator gets it: with it the node speaks for no other."""
        return str(self.call("GET", f"/servers/{node.uuid}/key")["key"])

    def call(self, method: str, path: str, body: Any = None, code: int | None = None) -> Any:
        """A call of the compute API."""
        if not hasattr(self, "token"):
            self.token = self.vetro.run("token").strip()
        status, answer = self.vetro.http(method, f"/compute{path}", body, token=self.token)
        assert status == code if code else status < 300, (method, path, status, answer)
        return answer

    def task(self, made: dict[str, Any]) -> dict[str, Any]:
        """A task's result, when it ended well."""
        ended = self.call("GET", f"/tasks/{made['id']}/wait?timeout=240")
        assert ended["status"] == "complete", ended["result"]
        result: dict[str, Any] = ended["result"]
        return result

    def server(self, vm: str) -> str:
        """Where a VM is."""
        rows = self.vetro.json("vm", "list")
        return next(str(row["server_uuid"]) for row in rows if row["uuid"] == vm)

    def status(self, node: Node) -> str:
        """What the service thinks of a node."""
        return str(self.call("GET", f"/servers/{node.uuid}")["status"])

    def pid(self, vm: str) -> int | None:
        """The first process of a container, as its agent sees it; ``None`` when that does not answer."""
        status, answer = self.vetro.http(
            "GET", f"/compute/servers/default/vms/{vm}", token=self.token
        )
        return int(answer["pid"]) if status == 200 else None

    def inside(self, vm: str, *command: str) -> str:
        """The output of a command in a container."""
        where = self.call(
            "POST", f"/servers/default/vms/{vm}/docker-exec", {"command": {"Cmd": [*command]}}
        )
        with socket.create_connection((where["host"], where["port"]), timeout=30) as stream:
            stream.sendall(f"{where['token']}\n".encode())
            with stream.makefile("rb") as lines:
                said = [json.loads(line) for line in lines]
        return "".join(
            base64.b64decode(one["data"]).decode() for one in said if one["type"] == "stdout"
        )

    def page(self, vm: str, address: str) -> str:
        """What a container gets from a web server; '' when there is no answer."""
        return self.inside(vm, "timeout", "5", "wget", "-q", "-O", "-", f"http://{address}/")


@pytest.fixture
def site(
    install: Callable[..., Installation], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, Node, Node]]:
    """A service and two nodes for containers and virtual machines. Nothing of them stays."""
    made = Site(tmp_path)
    first, second = Node(made, "a", 1, "lxc+qemu"), Node(made, "b", 2, "lxc+qemu")
    with ExitStack() as stack:
        stack.enter_context(machines.ended_at_once())
        do("ip", "link", "add", made.bridge, "type", "bridge")
        stack.callback(do, "ip", "link", "delete", made.bridge)
        do("ip", "address", "add", f"{made.gateway}/24", "dev", made.bridge)
        do("ip", "link", "set", made.bridge, "up")
        vetro = install("service", host=made.gateway, VETRO_NODE_ENABLED="false")
        made.vetro = vetro
        for node in (first, second):
            node.plug()
            stack.callback(node.unplug)
            stack.callback(node.stop)
        for node in (first, second):
            (node.directory / "node").mkdir(mode=0o711)
            host = machines.host_directory(tmp_path_factory)
            machines.know_the_host(host, node.directory / "node")
            node.start()
        for node in (first, second):
            until(lambda node=node: set_up(made, node), f"{node.log()} is ready")
        yield made, first, second
        for row in vetro.json("vm", "list"):
            ended = made.call("DELETE", f"/servers/default/vms/{row['uuid']}")
            # Without a task: only room was held.
            assert ended["id"] is None or made.task(ended) == {}
        for node in (first, second):
            node.stop()
            left = [name for name in node.links() if name.startswith(node.space)]
            assert left == [], node.log()
            assert node.machine is not None
            mounts = Path(f"/proc/{node.machine.pid}/mounts").read_text().splitlines()
            assert [line for line in mounts if f"/run/vetro/{node.space}-" in line] == []
        tables = [
            do("ip", "netns", "exec", n.space, "nft", "list", "tables") for n in (first, second)
        ]
        assert tables == ["", ""]


def set_up(site: Site, node: Node) -> bool:
    """Whether the service can place VMs on a node."""
    assert node.process is not None
    assert node.process.poll() is None, node.log()
    known = {row["uuid"]: row for row in site.call("GET", "/servers?extras=memory")}
    row = known.get(node.uuid, {})
    return bool(
        row.get("status") == "running" and row.get("setup") and row.get("memory_total_bytes")
    )


def place(site: Site, name: str, network: str, image: str, **more: Any) -> tuple[str, str]:
    """Find a server for a VM and make it there; its uuid and address."""
    vm, port = str(uuid.uuid4()), str(uuid.uuid4())
    size = {"ram": 128, "quota": 1, "owner_uuid": OWNER, "brand": "lx", **more.pop("size", {})}
    found = site.call(
        "POST", "/allocate",
        {"vm": {"vm_uuid": vm, **size}, "image": {"uuid": image}, "nic_tags": [],
         "reserve": True, **more},
    )  # fmt: skip
    ports = {"uuid": port, "network_uuid": network, "security_groups": [GROUP]}
    address = site.call("POST", "/ports", ports)["fixed_ips"][0][1]
    payload: dict[str, Any] = {
        "uuid": vm, "alias": name, "image_uuid": image, "ports": [port],
        "max_physical_memory": 128, **size,
    }  # fmt: skip
    if size["brand"] == "kvm":
        payload["disks"] = [{"image_uuid": image}]
    site.task(site.call("POST", f"/servers/{found['server']['uuid']}/vms", payload))
    return vm, str(address)


def web_network(world: Site, directory: Path) -> tuple[str, str]:
    """A network and an image with a web server. Members of GROUP reach each other's, nobody else does."""
    world.vetro.run("image", "import", "tiny", str(busybox_tar(directory / "tiny.tar")))
    [image] = [row["uuid"] for row in world.vetro.json("image", "list")]
    network = str(uuid.uuid4())
    world.call("POST", "/networks", {"uuid": network, "name": "blue", "mtu": 1450})
    world.call(
        "POST", "/subnets", {"network_uuid": network, "cidr": f"10.{world.vetro.net}.9.0/24"}
    )
    rules = [{"direction": "ingress", "protocol": "tcp", "port_range_min": 80,
              "port_range_max": 80, "remote_group_id": GROUP}]  # fmt: skip
    world.call("POST", "/security-groups", {"uuid": GROUP, "name": "web", "rules": rules})
    return network, str(image)


OWNER = "9f7c1b3a-4a0e-4c0d-8a3c-f4f4b7c1f111"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
GROUP = "9f7c1b3a-4a0e-4c0d-8a3c-f4f4b7c1f222"


@pytest.mark.thorough
def test_two_nodes_carry_one_network(
    site: tuple[Site, Node, Node], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Five containers and a VM: both kinds migrate, one is rolled back, a node is drained."""
    world, first, second = site
    vetro = world.vetro

    network, tiny = web_network(world, tmp_path)
    machine = machines.image_file(tmp_path_factory)
    vetro.run("image", "import", "machine", str(machine), "--type", "vm")
    images = {row["name"]: row["uuid"] for row in vetro.json("image", "list")}

    # Five containers, three and two, and one virtual machine.
    homes = [first, second, first, second, first]
    made = [
        place(world, f"web-{number}", network, tiny, servers=[node.uuid])
        for number, node in enumerate(homes)
    ]
    vms, addresses = [vm for vm, _ in made], [address for _, address in made]
    hvm, hvm_address = place(
        world, "machine", network, images["machine"], servers=[second.uuid],
        size={"brand": "kvm", "ram": 256, "quota": 4},
    )  # fmt: skip
    assert world.server(hvm) == second.uuid
    # Whether KVM works there was found out, and is told.
    found = world.call("GET", f"/servers/{second.uuid}")["sysinfo"]["Vetro Node"]["accelerator"]
    said = vetro.run("server", "show", second.uuid)
    assert ("with KVM" if found == "kvm" else "KVM does not work (") in said

    # Each reaches each, on its own node and on the other.
    everywhere = ["a page\n"] * 5
    for vm in (vms[0], vms[1]):
        # The others are told of a new one in the background.
        until(
            lambda vm=vm: [world.page(vm, address) for address in addresses] == everywhere,
            "each reaches each",
        )
    until(lambda: world.page(vms[0], hvm_address) != "", "the VM's page")
    # The gateway is each node's own: it answers on both, and never across.
    assert "1 packets received" in world.inside(
        vms[0], "ping", "-c", "1", f"10.{world.vetro.net}.9.1"
    )
    assert "1 packets received" in world.inside(
        vms[1], "ping", "-c", "1", f"10.{world.vetro.net}.9.1"
    )
    # What the group does not allow does not pass either way.
    assert "0 packets received" in world.inside(vms[1], "ping", "-c", "1", "-W", "1", addresses[0])
    # Somebody sits at one: window, keys and exit status go through service and node.
    words = ("sh", "-c", "stty size; echo ready; read -r word; echo got $word; exit 9")
    with terminal.Sitting([VETRO, "vm", "exec", "-t", "web-1", *words], vetro.environ) as person:
        assert b"24 80" in person.until(b"ready")
        person.type(b"keys\r")
        person.until(b"got keys")
        assert person.end() == 9
        assert person.mode == person.before
    # A frame as large as the network allows crosses the tunnel.
    world.inside(vms[0], "sh", "-c", "head -c 3000000 /dev/zero > /www/large")
    large = world.inside(
        vms[1], "sh", "-c", f"timeout 9 wget -q -O - http://{addresses[0]}/large | wc -c"
    )
    assert large == "3000000\n"

    # A container moves: with its files and its address, and the others find it.
    world.inside(vms[2], "sh", "-c", "echo moved > /www/index.html")
    assert f"is on server {second.uuid}" in vetro.run("vm", "migrate", "web-2")
    assert world.server(vms[2]) == second.uuid
    until(lambda: world.page(vms[0], addresses[2]) == "moved\n", "it serves")
    assert world.page(vms[2], addresses[0]) == "a page\n"

    # The virtual machine moves while it runs: it is not restarted.
    started = world.inside(hvm, "cat", BOOT_ID)
    assert f"is on server {first.uuid}" in vetro.run("vm", "migrate", "machine")
    assert world.server(hvm) == first.uuid
    until(lambda: world.page(vms[1], hvm_address) == "a page\n", "it serves")
    assert world.inside(hvm, "cat", BOOT_ID) == started

    # Snapshot, change, back.
    path = f"/servers/{first.uuid}/vms/{vms[0]}/snapshots"
    world.task(world.call("PUT", path, {"snapshot_name": "before"}))
    world.inside(vms[0], "sh", "-c", "echo changed > /www/index.html")
    assert world.page(vms[1], addresses[0]) == "changed\n"
    world.task(world.call("PUT", f"{path}/before/rollback"))
    until(lambda: world.page(vms[1], addresses[0]) == "a page\n", "the page as before")

    # A stopped container becomes an image, which its node gives to the service with its own key; what
    # is made of it on the other node has the first one's files. Once whole, once what differs.
    world.inside(vms[4], "sh", "-c", "echo kept > /root/kept")
    vetro.run("vm", "stop", "web-4")
    for number, incremental in enumerate((False, True)):
        copy = {"uuid": str(uuid.uuid4()), "owner": OWNER, "name": f"copy-{number}", "version": "1"}
        world.task(
            world.call(
                "POST", f"/servers/{first.uuid}/vms/{vms[4]}/images",
                {"manifest": copy, "compression": "gzip", "incremental": incremental},
            )
        )  # fmt: skip
        told = world.call("GET", f"/images/{copy['uuid']}")
        assert (told["state"], told["owner"], told["public"]) == ("active", OWNER, False)
        assert told.get("origin") == (tiny if incremental else None)
        twin, twin_address = place(
            world, f"twin-{number}", network, copy["uuid"], servers=[second.uuid]
        )
        assert world.server(twin) == second.uuid
        assert world.inside(twin, "cat", "/root/kept") == "kept\n"
        until(lambda to=twin_address: world.page(vms[0], to) == "a page\n", "the twin serves")
        vetro.run("vm", "delete", twin, "--yes")
    vetro.run("vm", "start", "web-4")
    until(lambda: world.page(vms[0], addresses[4]) == "a page\n", "it serves again")

    # An agent dies: nothing of its instances notices, and the next one knows them.
    pid = world.pid(vms[1])
    assert pid
    second.kill()
    assert world.page(vms[0], addresses[1]) == "a page\n"
    second.start()
    until(lambda: world.pid(vms[1]) == pid, "the new agent follows the container")
    assert world.page(vms[0], addresses[1]) == "a page\n"

    # A cable is pulled: the service does not know the node, and nothing is destroyed.
    do("ip", "link", "set", second.wire, "down")
    until(lambda: world.status(second) == "unknown", "the node is unknown")
    assert world.page(vms[0], addresses[4]) == "a page\n"
    do("ip", "link", "set", second.wire, "up")
    until(lambda: world.status(second) == "running", "the node is back")
    assert world.pid(vms[1]) == pid
    assert world.page(vms[0], addresses[1]) == "a page\n"

    # The first node is emptied; snapshots move with their container.
    world.inside(vms[0], "sh", "-c", "echo lately > /www/index.html")
    vetro.run("server", "drain", first.uuid)
    until(lambda: world.page(vms[1], addresses[0]) == "lately\n", "it serves")
    vetro.run("vm", "snapshot", "rollback", "web-0", "before", "--yes")
    assert [world.server(vm) for vm in (*vms, hvm)] == [second.uuid] * 6
    assert world.inside(hvm, "cat", BOOT_ID) == started
    pages = ["a page\n", "a page\n", "moved\n", "a page\n", "a page\n"]
    until(lambda: [world.page(vms[1], address) for address in addresses] == pages, "all serve")
    assert (first.directory / "node/vms").is_dir()
    assert list((first.directory / "node/vms").glob("*/vm.json")) == []
    # No network is left where no instance is.
    assert [name for name in first.links() if name.startswith(f"{first.space}x")] == []


def test_an_application_runs_on_a_node_elsewhere(
    site: tuple[Site, Node, Node], tmp_path: Path
) -> None:
    """Its agent reaches its mailbox through the node, which says who asks: no other machine's gets there."""
    world, first, second = site
    vetro = world.vetro
    network, tiny = web_network(world, tmp_path)
    webs = [
        place(world, f"web-{node.space}", network, tiny, servers=[node.uuid])
        for node in (first, second)
    ]
    for (vm, _), (_, other) in zip(webs, reversed(webs), strict=True):
        # A node is told of what is new on another in the background.
        until(lambda vm=vm, to=other: world.page(vm, to) == "a page\n", "each reaches the other")
    for vm, _ in webs:
        vetro.run("vm", "delete", vm, "--yes")
    build_image(vetro)
    vetro.run("package", "import", "--public", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "far")
    script = "#!/bin/sh\necho from $(hostname) afar\n"
    vetro.run("env", "add", "far", "HelloScript", "--name", "s", "--set", f"script={script}")
    assert " afar" in vetro.run("env", "deploy", "far")
    is_refused_elsewhere(vetro, "far")
    homes = {row["server_uuid"] for row in vetro.json("vm", "list")}
    assert homes <= {first.uuid, second.uuid}
    vetro.run("env", "destroy", "--yes", "far")
    until(lambda: vetro.json("vm", "list") == [], "its instance is gone")


@pytest.mark.thorough
def test_an_application_goes_on_without_a_node_that_is_gone(
    site: tuple[Site, Node, Node],
) -> None:
    """The commands of docs/compute/lost-node.md on containers: unknown, evacuated, missing, made again."""
    world, first, second = site
    vetro = world.vetro
    build_image(vetro)
    vetro.run("package", "import", "--public", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "kept")
    vetro.run("env", "add", "kept", "HelloScript", "--name", "s", "--set", "script=hostname")
    vetro.run("env", "deploy", "kept")
    [before] = vetro.json("vm", "list")
    gone, other = (first, second) if before["server_uuid"] == first.uuid else (second, first)
    gone.kill()
    until(lambda: world.status(gone) == "unknown", "the node is silent")
    [silent] = vetro.json("vm", "list")
    assert silent["state"] == "unknown"
    assert vetro.status("kept") == "machines unknown"
    assert "is silent" in vetro.run("env", "deploy", "kept", code=1)
    vetro.run("server", "evacuate", gone.uuid, "--fenced")
    vetro.run("env", "deploy", "kept")
    [after] = vetro.json("vm", "list")
    assert (after["uuid"], after["state"]) == (before["uuid"], "running")
    assert after["server_uuid"] == other.uuid
    # It was only the agent: its container runs, and ends when the node is back.
    gone.start()
    until(lambda: list((gone.directory / "node/vms").glob("*/vm.json")) == [], "it is clean")
    until(lambda: len(vetro.json("vm", "list")) == 1, "the node has said so")
    # Somebody destroys the container: the next deployment makes it again.
    vetro.run("vm", "delete", before["uuid"], "--yes")
    assert "was made again" in vetro.run("env", "deploy", "kept")
    [made] = vetro.json("vm", "list")
    assert (made["uuid"], made["state"]) == (before["uuid"], "running")
    vetro.run("env", "destroy", "--yes", "kept")
    assert vetro.json("vm", "list") == []
