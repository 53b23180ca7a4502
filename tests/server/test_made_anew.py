"""A machine that is made anew from its image is the same one, and empty: deployments install there again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import ROOT, VETRO, Installation, processes_of
from tests.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.e2e]
#: Images, and the packages in them: those that the samples' pages name.
IMAGES = {
    "store": "mariadb-server",
    "site": "apache2,libapache2-mod-php,php-curl,php-gd,php-intl,php-mbstring,php-mysql,php-xml,php-zip,"
    "wordpress,wordpress-theme-twentytwentythree",
}
STAMP = "#!/bin/sh\ncat /proc/sys/kernel/random/uuid\n"


def made_anew(vetro: Installation, name: str) -> None:
    """What an evacuation does to a machine, on the node that it is on: same uuid and addresses, another disk.

    The image is called as the machine.
    """
    vm = next(one["uuid"] for one in vetro.json("vm", "list") if one["alias"] == name)
    image = next(one["uuid"] for one in vetro.json("image", "list") if one["name"] == name)
    before = vetro.json("vm", "show", vm)["incarnation"]
    where = f"/compute/servers/default/vms/{vm}/reprovision"
    status, task = vetro.http("POST", where, {"image_uuid": image})
    assert status == 200, task
    _, ended = vetro.http("GET", f"/compute/tasks/{task['id']}/wait?timeout=240")
    assert ended["status"] == "complete", ended
    assert vetro.json("vm", "show", vm)["incarnation"] != before


def component(vetro: Installation, number: int = 0) -> Any:
    """An application of the environment as it is deployed."""
    return vetro.json("env", "model", "e", "--path", f"/services/{number}")


def hello(vetro: Installation) -> Any:
    """HelloScript on the machine `host`, deployed; its script prints something else each time."""
    empty = vetro.directory / "client" / "empty.tar"
    empty.parent.mkdir(exist_ok=True)
    empty.write_bytes(b"\0" * 10240)
    vetro.run("image", "import", "host", str(empty))
    vetro.run("package", "import", "--public", str(ROOT / "library" / "HelloScript"))
    vetro.run("env", "create", "e")
    given = (f"script={STAMP}", "image=host", "hostname=host")
    sets = [word for one in given for word in ("--set", one)]
    vetro.run("env", "add", "e", "HelloScript", "--name", "hello", *sets)
    vetro.run("env", "deploy", "e")
    return component(vetro)


def runs_once(vetro: Installation, first: Any) -> None:
    """The next deployment runs the script on the same machine, and the one after it does not."""
    vetro.run("env", "deploy", "e")
    second = component(vetro)
    assert second["output"] != first["output"]
    assert second["instance"]["openstackId"] == first["instance"]["openstackId"]
    vetro.run("env", "deploy", "e")
    assert component(vetro)["output"] == second["output"]


def test_a_script_runs_again_where_it_was_lost(install: Callable[..., Installation]) -> None:
    """Once; a deployment before does not run it."""
    vetro = install("anew", driver="process")
    first = hello(vetro)
    vetro.run("env", "deploy", "e")
    assert component(vetro)["output"] == first["output"]
    made_anew(vetro, "host")
    runs_once(vetro, first)


def node(vetro: Installation, directory: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """A node of the driver `process` beside the service, as soon as it can take machines."""
    directory.mkdir()
    server = str(uuid.uuid4())
    key = (vetro.directory / "node-key").read_text().strip()
    with (directory / "node.log").open("wb") as log:
        process = subprocess.Popen(
            [VETRO, "node", "--compute-url", f"{vetro.url}/compute", "--server-uuid", server,
             "--driver", "process", "--prefix", f"a{server[:3]}", "--data-dir", str(directory)],
            env={**os.environ, "VETRO_NODE_KEY": key}, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    until(lambda: status(vetro, server, "memory_free_mb"), f"node {server} is heard")
    return server, process


def status(vetro: Installation, server: str, field: str = "status") -> Any:
    """A field of a node in the list of nodes."""
    rows = vetro.json("server", "list")
    return next((row.get(field) for row in rows if row["uuid"] == server), None)


def test_an_evacuated_machine_is_installed_again(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """Its node is switched off, the operator says so, and the next deployment runs the script elsewhere."""
    vetro = install("service", driver="process", VETRO_NODE_ENABLED="false")
    with ExitStack() as stack:
        first, process = node(vetro, tmp_path / "first")
        stack.callback(process.kill)
        made = hello(vetro)
        process.kill()
        process.wait(240)
        for pid in processes_of(tmp_path / "first"):
            os.kill(pid, signal.SIGKILL)
        second, other = node(vetro, tmp_path / "second")
        until(lambda: status(vetro, first) == "unknown", "the first node is silent")
        vetro.run("server", "evacuate", first, "--fenced")
        runs_once(vetro, made)
        where = f"/compute/servers/default/vms/{made['instance']['openstackId']}"
        assert vetro.http("GET", where)[1]["server_uuid"] == second
        vetro.run("env", "destroy", "--yes", "e")
        other.terminate()
        assert other.wait(240) == 0


@pytest.mark.root
def test_wordpress_is_there_again(install: Callable[..., Installation], tmp_path: Path) -> None:
    """The site's machine is made anew, its database's, then it is upgraded: it is installed each time."""
    vetro = install("blog", driver="lxc")
    cache = ROOT / "var/image-cache"
    for name, packages in IMAGES.items():
        vetro.run("image", "build", name, "--packages", packages, "--cache-dir", str(cache))
    for name in ("MariaDb", "WordPress"):
        vetro.run("package", "import", "--public", str(ROOT / "library" / name))
    vetro.run("env", "create", "e")
    for name, sample in (("store", "MariaDb"), ("site", "WordPress")):
        given = [f"image={name}", f"pattern={name}"]
        given += ["password=Secret-12345"] if name == "site" else []
        sets = [word for one in given for word in ("--set", one)]
        vetro.run("env", "add", "e", sample, "--name", name, *sets)
    newer = tmp_path / "newer"
    shutil.copytree(ROOT / "library/WordPress", newer)
    manifest = newer / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("Version: 1.0.0", "Version: 1.1.0"))
    for lost in (None, "site", "store", "version"):
        if lost == "version":
            vetro.run("package", "import", "--public", str(newer))
            vetro.run("env", "upgrade", "e", "site", "--yes")
        elif lost is not None:
            made_anew(vetro, lost)
        vetro.run("env", "deploy", "e")
        assert "Installing WordPress" in vetro.reports("e"), lost
        url = component(vetro, 1)["url"]
        with urllib.request.urlopen(f"{url}wp-admin/install.php", timeout=120) as answer:
            page = answer.read().decode()
        assert "WordPress" in page, (lost, page)
        assert "Install WordPress" in page or "Site Title" in page, (lost, page)
    vetro.run("env", "destroy", "--yes", "e")
