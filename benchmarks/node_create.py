"""From ``POST /servers/:uuid/vms`` to `running`, against a bare ``lxc-start`` of the same container.

Needs root, LXC and busybox-static. The image is on the node already. Both are medians of the same
containers in this run: each is made through the service, stopped, and started by hand. Milliseconds are those
of the reference machine (`limits.py`).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deployment import Vetro
from limits import Topic, repetitions

ROUNDS = int(os.environ.get("VETRO_BENCH_ROUNDS", "15"))
SIDE_BY_SIDE = 20
#: Times a bare `lxc-start` of the same container: what a container costs is the kernel's work, of which the
#: loop of `limits.py` says little (our part was 55 to 101 ms on one host).
#: Measured: 3.7, where bare starts take 10 to 13 ms.
LIMIT = 4.5
OWNER = "9f7c1b3a-4a0e-4c0d-8a3c-f4f4b7c1f111"


def tiny_image(target: Path) -> Path:
    """A root file system of one static program."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise SystemExit("busybox is missing: tools/system-packages.sh test installs it")
    with tarfile.open(target, "w") as tar:
        for name in ("bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root", "var"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        entry, data = tarfile.TarInfo("bin/busybox"), Path(busybox).read_bytes()
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
        for name, link in (("bin/sh", "busybox"), ("sbin/init", "../bin/busybox")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            tar.addfile(entry)
    return target


class Node:
    """The one node of a ``vetro up``."""

    def __init__(self, vetro: Vetro, image: str) -> None:
        self.vetro, self.image = vetro, image
        self.server = vetro.call("GET", "/compute/servers")[0]["uuid"]
        self.network = str(uuid.uuid4())
        vetro.call("POST", "/compute/networks", {"uuid": self.network, "name": "bench"})
        vetro.call(
            "POST", "/compute/subnets", {"network_uuid": self.network, "cidr": "10.91.0.0/24"}
        )

    def task(self, made: dict[str, Any]) -> None:
        """Wait for a task that must end well."""
        ended = self.vetro.call("GET", f"/compute/tasks/{made['id']}/wait?timeout=120")
        if ended["status"] != "complete":
            raise RuntimeError(json.dumps(ended["result"]))

    def port(self) -> str:
        """A port on the network."""
        port = {"uuid": str(uuid.uuid4()), "network_uuid": self.network}
        self.vetro.call("POST", "/compute/ports", port)
        return port["uuid"]

    def create(self, *ports: str) -> tuple[str, float]:
        """A running container and the seconds it took."""
        payload = {
            "uuid": str(uuid.uuid4()), "brand": "lx", "image_uuid": self.image, "quota": 1,
            "max_physical_memory": 64, "owner_uuid": OWNER, "ports": list(ports),
        }  # fmt: skip
        began = time.perf_counter()
        self.task(self.vetro.call("POST", f"/compute/servers/{self.server}/vms", payload))
        return payload["uuid"], time.perf_counter() - began

    def stop(self, vm: str) -> None:
        """Stop a container."""
        path = f"/compute/servers/{self.server}/vms/{vm}/stop"
        self.task(self.vetro.call("POST", path, {"force": True}))

    def destroy(self, vm: str) -> None:
        """Destroy a container."""
        self.task(self.vetro.call("DELETE", f"/compute/servers/{self.server}/vms/{vm}"))


def by_hand(vm: str) -> float:
    """Seconds a bare ``lxc-start`` of a stopped container takes, until it runs."""
    [config] = Path("/run/vetro").glob(f"vb-*/{vm}/config")
    where = ("-P", str(config.parent.parent), "-n", vm)
    began = time.perf_counter()
    subprocess.run(["lxc-start", *where, "-d"], check=True)
    took = time.perf_counter() - began
    subprocess.run(["lxc-stop", *where, "-k"], check=True)
    return took


def main() -> int:
    """Measure, judge, and leave nothing."""
    if os.geteuid() != 0 or shutil.which("lxc-start") is None:
        print("needs root and LXC: left out")
        return 0
    directory = Path(tempfile.mkdtemp(prefix="vetro-bench-"))
    directory.chmod(0o711)
    vetro = Vetro(directory)
    vetro.start()
    topic = Topic("node_create")
    made: list[str] = []
    node: Node | None = None
    try:
        vetro.token = vetro.run("token").strip()
        vetro.run("image", "import", "tiny", str(tiny_image(directory / "tiny.tar")))
        node = Node(vetro, vetro.call("GET", "/compute/images")[0]["uuid"])
        # Brings the image and the network to the node.
        made.append(node.create(node.port())[0])
        whole: list[float] = []
        bare: list[float] = []
        networked: list[float] = []
        together: list[float] = []
        for factor in repetitions(ROUNDS):
            vm, seconds = node.create()
            made.append(vm)
            whole.append(1000 * seconds * factor)
            node.stop(vm)
            bare.append(1000 * by_hand(vm) * factor)
            node.destroy(made.pop())
            vm, seconds = node.create(node.port())
            made.append(vm)
            networked.append(1000 * seconds * factor)
            node.destroy(made.pop())
        for factor in repetitions():
            began = time.perf_counter()
            with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
                made += threads.map(lambda _: node.create()[0], range(SIDE_BY_SIDE))
            together.append(1000 * (time.perf_counter() - began) * factor)
            while made:
                node.destroy(made.pop())
    finally:
        for vm in made:
            assert node is not None
            node.destroy(vm)
        vetro.stop()
        shutil.rmtree(directory, ignore_errors=True)
    topic.take("POST to running", whole, "ms")
    topic.take("bare lxc-start of the same containers", bare, "ms")
    ratios = [ours / theirs for ours, theirs in zip(whole, bare, strict=True)]
    topic.take("POST to running to a bare lxc-start", ratios, "x by hand", LIMIT)
    topic.take("POST to running with an interface", networked, "ms")
    topic.take(f"{SIDE_BY_SIDE} side by side, all running after", together, "ms")
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
