"""A machine that is made anew from its image is the same one, and empty: deployments install there again."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.conftest import ROOT, Installation

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


def test_a_script_runs_again_where_it_was_lost(install: Callable[..., Installation]) -> None:
    """Once, and not at the deployment after that; the machine stays the same."""
    vetro = install("anew", driver="process")
    empty = vetro.directory / "empty.tar"
    empty.write_bytes(b"\0" * 10240)
    vetro.run("image", "import", "host", str(empty))
    vetro.run("package", "import", "--public", str(ROOT / "library" / "HelloScript"))
    vetro.run("env", "create", "e")
    given = (f"script={STAMP}", "image=host", "hostname=host")
    sets = [word for one in given for word in ("--set", one)]
    vetro.run("env", "add", "e", "HelloScript", "--name", "hello", *sets)
    vetro.run("env", "deploy", "e")
    first = component(vetro)
    vetro.run("env", "deploy", "e")
    assert component(vetro)["output"] == first["output"]
    made_anew(vetro, "host")
    vetro.run("env", "deploy", "e")
    second = component(vetro)
    assert second["output"] != first["output"]
    assert second["instance"]["openstackId"] == first["instance"]["openstackId"]
    vetro.run("env", "deploy", "e")
    assert component(vetro)["output"] == second["output"]


@pytest.mark.root
def test_wordpress_is_there_again(install: Callable[..., Installation]) -> None:
    """First the site's machine is made anew, then that of its database: each time the site is installed."""
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
    for lost in (None, "site", "store"):
        if lost is not None:
            made_anew(vetro, lost)
        vetro.run("env", "deploy", "e")
        url = component(vetro, 1)["url"]
        with urllib.request.urlopen(f"{url}wp-admin/install.php", timeout=120) as answer:
            page = answer.read().decode()
        assert "WordPress" in page, (lost, page)
        assert "Install WordPress" in page or "Site Title" in page, (lost, page)
    vetro.run("env", "destroy", "--yes", "e")
