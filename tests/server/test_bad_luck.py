"""What goes wrong outside of Vetro: guests that never come, full disks, full machines, lost nodes."""

import io
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.server.conftest import Installation
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.root, pytest.mark.e2e]


def bare_image(path: Path) -> None:
    """A root file system that boots and then does nothing: no Python, so no guest agent."""
    busybox = Path("/bin/busybox").read_bytes()
    with tarfile.open(path, "w") as archive:
        for name in ("bin", "sbin", "etc", "dev", "proc", "sys", "tmp", "run", "var", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in (
            ("bin/busybox", busybox),
            ("sbin/init", b"#!/bin/busybox sh\nwhile :; do /bin/busybox sleep 3600; done\n"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        archive.addfile(link)


@pytest.mark.thorough
def test_an_agent_that_never_comes_is_named(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The deployment fails after the time-out and names the agent; it can be destroyed."""
    vetro = install("silent")
    bare_image(tmp_path / "bare.tar")
    vetro.run("image", "import", "bare", str(tmp_path / "bare.tar"))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "silent")
    arguments = ("--name", "s", "--set", "image=bare", "--set", "timeout=3")
    vetro.run("env", "add", "silent", "HelloScript", *arguments)
    text = " ".join(vetro.run("env", "deploy", "silent", code=1).split())
    assert "did not respond within 3 seconds" in text
    assert "never" in text
    assert vetro.status("silent") == "deploy failure"
    vetro.run("env", "destroy", "--yes", "silent")
    assert vetro.leftovers() == []


@pytest.mark.thorough
def test_a_node_without_room_is_explained(vetro: Installation) -> None:
    """The report has the allocation's reasons; with room again it deploys."""
    server = vetro.json("server", "list")[0]["uuid"]
    vetro.run("env", "create", "room")
    arguments = ("--name", "s", "--set", "script=#!/bin/sh\necho fits")
    vetro.run("env", "add", "room", "HelloScript", *arguments)
    assert vetro.http("POST", f"/compute/servers/{server}", {"reserved": True})[0] == 204
    text = " ".join(vetro.run("env", "deploy", "room", code=1).split())
    assert "No compute resources available" in text
    assert "Server is reserved" in text
    assert vetro.http("POST", f"/compute/servers/{server}", {"reserved": False})[0] == 204
    assert "The script printed: fits" in vetro.run("env", "deploy", "room")
    vetro.run("env", "destroy", "--yes", "room")


def node_agent(vetro: Installation) -> subprocess.Popen[bytes]:
    """A node agent as a process of its own, for an installation without one."""
    return subprocess.Popen(
        [
            str(Path(sys.executable).with_name("vetro")),
            *("node", "--compute-url", f"{vetro.url}/compute", "--driver", "lxc"),
        ],
        env=vetro.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.thorough
def test_a_node_killed_in_the_middle_of_a_create_loses_nothing(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The deployment ends, no half-made machine stays, and the next one uses one machine."""
    vetro = install("halved", VETRO_NODE_ENABLED="false")
    bare_image(tmp_path / "bare.tar")
    vetro.run("image", "import", "bare", str(tmp_path / "bare.tar"))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "half")
    arguments = ("--name", "s", "--set", "image=bare", "--set", "timeout=2")
    vetro.run("env", "add", "half", "HelloScript", *arguments)
    node = node_agent(vetro)

    def port() -> object:
        """Where the agent that the service knows listens: another one listens elsewhere."""
        [server] = vetro.json("server", "list")
        path = f"/compute/servers/{server['uuid']}"
        return vetro.http("GET", path)[1]["sysinfo"]["CN Agent Port"]

    def has_room() -> bool:
        """A node is listed before its first status, and nothing is placed there before that."""
        return any(one["memory_free_mb"] for one in vetro.json("server", "list"))

    try:
        until(has_room, "the node is there")
        vetro.run("env", "deploy", "half", "--no-wait")
        machines = vetro.directory / "node/vms"
        until(lambda: machines.is_dir() and any(machines.iterdir()), "the create has begun")
        node.send_signal(signal.SIGKILL)
        node.wait(30)
        killed = port()
        node = node_agent(vetro)
        until(lambda: vetro.status("half") == "deploy failure", "the deployment failed")
        assert len(vetro.json("vm", "list")) <= 1
        # A node that comes back in time is waited for; on a busy machine it needs longer than that.
        until(lambda: port() != killed, "the node is there again")
        # The guest of this image never answers; that its machine was made again is what counts.
        text = " ".join(vetro.run("env", "deploy", "half", code=1).split())
        assert "did not respond within 2 seconds" in text
        assert [row["state"] for row in vetro.json("vm", "list")] == ["running"]
        vetro.run("env", "destroy", "--yes", "half")
        assert vetro.json("vm", "list") == []
        until(lambda: not vetro.leftovers(), "nothing is left of it")
    finally:
        node.terminate()
        node.wait(240)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk of 48 MiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m,mode=711", "tmpfs", str(directory)], check=True
    )
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def package(path: Path, *, weight: int = 0, **files: bytes) -> Path:
    """A package, with ``weight`` bytes that do not compress."""
    manifest = (
        "Format: '1.4'\nType: Application\nFullName: org.acme.Heavy\nVersion: 1.0.0\n"
        "Name: Heavy\nDescription: Heavy\nAuthor: me\nClasses:\n  org.acme.Heavy: Heavy.yaml\n"
    )
    with zipfile.ZipFile(path, "w") as archive:
        contents = {
            "manifest.yaml": manifest.encode(),
            "Classes/Heavy.yaml": b"Name: Heavy\n",
            **files,
        }
        for name, content in contents.items():
            archive.writestr(name, content)
        if weight:
            archive.writestr("Resources/weight.bin", secrets.token_bytes(weight))
    return path


@pytest.mark.thorough
def test_a_full_disk_refuses_an_upload_and_keeps_the_rest(
    install: Callable[..., Installation], small_disk: Path, tmp_path: Path
) -> None:
    """The answer is 507 with the reason, no file stays, and with space again uploads work."""
    vetro = install("disk", directory=small_disk, driver="process", VETRO_NODE_ENABLED="false")
    heavy = package(tmp_path / "heavy.zip", weight=3 * 2**20)
    filler = small_disk / "filler"
    statistics = os.statvfs(small_disk)
    filler.write_bytes(bytes(statistics.f_bavail * statistics.f_frsize - 2**20))
    text = vetro.run("package", "import", str(heavy), code=1)
    assert "disk" in text.lower()
    assert "space" in text.lower() or "full" in text.lower()
    assert not list((small_disk / "packages").glob(".upload-*"))
    image = tmp_path / "image.tar"
    bare_image(image)
    with image.open("ab") as file:
        file.write(secrets.token_bytes(3 * 2**20))
    text = vetro.run("image", "import", "large", str(image), code=1)
    assert "disk is full" in text
    assert [path for path in (small_disk / "images").rglob("*") if path.is_file()] == []
    assert vetro.json("image", "list") == []
    filler.unlink()
    vetro.run("image", "import", "large", str(image))
    [row] = vetro.json("image", "list")
    assert (row["name"], row["size"]) == ("large", image.stat().st_size)
    vetro.run("package", "import", str(heavy))
    assert [row["fully_qualified_name"] for row in vetro.json("package", "list")] == [
        "org.acme.Heavy"
    ]


@pytest.mark.thorough
def test_a_data_directory_of_a_newer_version_is_refused(
    install: Callable[..., Installation],
) -> None:
    """The start fails with that reason and changes nothing."""
    vetro = install("newer", driver="process", VETRO_NODE_ENABLED="false")
    vetro.stop()
    with sqlite3.connect(vetro.directory / "vetro.db") as database:
        database.execute(
            "update vetro_migrations set version_num='catalog_9999'"
            " where version_num like 'catalog%'"
        )
    database.close()
    text = vetro.run("up", "--port", str(vetro.port), "--driver", "process", code=1)
    assert "newer" in text
    assert "Hint:" in text


BAD_PACKAGES: dict[str, tuple[dict[str, bytes], str]] = {
    "a missing class": ({"Classes/Heavy.yaml": b""}, "it must contain a class"),
    "bad YAML": ({"Classes/Heavy.yaml": b"Name: Heavy\nMethods:\n  a: [\n"}, "Heavy.yaml:4:1"),
    "a path outside": ({"../outside.txt": b"x"}, ".."),
}


@pytest.mark.parametrize("case", list(BAD_PACKAGES))
def test_bad_packages_are_refused_with_the_reason(
    vetro: Installation, tmp_path: Path, case: str
) -> None:
    """The command ends with 1 and one clear line; the catalog is unchanged."""
    files, message = BAD_PACKAGES[case]
    bad = package(tmp_path / "bad.zip", **files)
    before = vetro.json("package", "list")
    assert message in vetro.run("package", "import", str(bad), code=1)
    assert vetro.json("package", "list") == before


def test_a_file_that_is_no_zip_and_a_bomb_are_refused(vetro: Installation, tmp_path: Path) -> None:
    """Neither reaches the catalog, and neither fills the disk."""
    (tmp_path / "text.zip").write_text("This is not a zip")
    assert "zip" in vetro.run("package", "import", str(tmp_path / "text.zip"), code=1)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.yaml", bytes(300 * 2**20))
    text = vetro.run("package", "import", str(tmp_path / "bomb.zip"), code=1)
    assert "manifest.yaml" in text or "large" in text


def test_a_user_of_another_project_gets_nothing(vetro: Installation, tmp_path: Path) -> None:
    """403 or 404 for each environment, session, deployment and package; lists are empty."""
    identity = "/identity/v3"
    project = vetro.http("POST", f"{identity}/projects", {"project": {"name": "other"}})[1]
    user = vetro.http(
        "POST", f"{identity}/users", {"user": {"name": "eve", "password": "pass-word-1"}}
    )[1]
    role = vetro.http("GET", f"{identity}/roles?name=member")[1]["roles"][0]["id"]
    ids = (project["project"]["id"], user["user"]["id"])
    path = f"{identity}/projects/{ids[0]}/users/{ids[1]}/roles/{role}"
    assert vetro.http("PUT", path)[0] == 204
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"id": ids[1], "password": "pass-word-1"}},
            },
            "scope": {"project": {"id": ids[0]}},
        }
    }
    status, _ = vetro.http("POST", f"{identity}/auth/tokens", body)
    assert status == 201
    eve = vetro.answer_headers["X-Subject-Token"]
    vetro.run("env", "create", "mine")
    environment = next(row["id"] for row in vetro.json("env", "list") if row["name"] == "mine")
    session = vetro.http("POST", f"/v1/environments/{environment}/configure")[1]["id"]
    private = package(tmp_path / "private.zip")
    vetro.run("package", "import", str(private))
    rows = vetro.json("package", "list")
    secret = next(row["id"] for row in rows if row["fully_qualified_name"] == "org.acme.Heavy")
    base = f"/v1/environments/{environment}"
    for method, path in (
        ("GET", base),
        ("PUT", base),
        ("DELETE", base),
        ("GET", f"{base}/services"),
        ("GET", f"{base}/model/"),
        ("GET", f"{base}/lastStatus"),
        ("GET", f"{base}/deployments"),
        ("GET", f"{base}/deployments/none"),
        ("GET", f"{base}/sessions/{session}"),
        ("POST", f"{base}/configure"),
        ("POST", f"{base}/sessions/{session}/deploy"),
        ("DELETE", f"{base}/sessions/{session}"),
        ("GET", f"{base}/instance-statistics/aggregated"),
        ("POST", f"{base}/actions/any"),
        ("GET", f"/v1/catalog/packages/{secret}"),
        ("GET", f"/v1/catalog/packages/{secret}/download"),
        ("GET", f"/v1/catalog/packages/{secret}/ui"),
        ("DELETE", f"/v1/catalog/packages/{secret}"),
    ):
        given = {"name": "stolen"} if method == "PUT" else None
        assert vetro.http(method, path, given, token=eve)[0] in (403, 404), (method, path)
    assert vetro.http("GET", "/v1/environments", token=eve)[1] == {"environments": []}
    assert vetro.http("GET", "/v1/environments?all_tenants=true", token=eve)[0] == 403
    assert vetro.http("GET", "/v1/deployments", token=eve)[1] == {"deployments": []}
    vetro.run("env", "destroy", "--yes", "mine")
    vetro.run("package", "delete", "--yes", "org.acme.Heavy")
