"""Writing into root file systems that may be hostile, and what instances get."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vetro.node.errors import NodeError
from vetro.node.guest.instance_files import (
    Init,
    detect_init,
    write_guest_agent,
    write_identity,
    write_init,
)
from vetro.node.guest.root import GuestRoot


@pytest.fixture
def root(tmp_path: Path) -> GuestRoot:
    """An empty root beside a file of the host that must stay as it is."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host/secret").write_text("host")
    (tmp_path / "root").mkdir()
    return GuestRoot(tmp_path / "root")


def test_files_are_written_with_their_directories(root: GuestRoot) -> None:
    """Missing directories are made, contents replaced in one step."""
    root.write("/etc/deep/file", b"one")
    root.write("/etc/deep/file", b"two", 0o600)
    path = root.path / "etc/deep/file"
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("target", ["/host", "../host", "../../../../host", "/var/../../host"])
def test_links_do_not_lead_out(root: GuestRoot, target: str, tmp_path: Path) -> None:
    """A directory that is a link is followed inside the root only."""
    (root.path / "var").mkdir()
    os.symlink(str(tmp_path / "host") if target == "/host" else target, root.path / "etc")
    root.write("/etc/secret", b"guest")
    assert (tmp_path / "host/secret").read_text() == "host"
    assert root.read("/etc/secret") == b"guest"


def test_a_link_in_place_of_the_file_is_replaced(root: GuestRoot, tmp_path: Path) -> None:
    """The last component is never followed when writing."""
    (root.path / "etc").mkdir()
    os.symlink(tmp_path / "host/secret", root.path / "etc/hosts")
    root.write("/etc/hosts", b"guest")
    assert (tmp_path / "host/secret").read_text() == "host"
    assert not (root.path / "etc/hosts").is_symlink()


def test_links_inside_are_followed(root: GuestRoot) -> None:
    """`/bin -> usr/bin` works, absolute and relative, and `..` stops at the root."""
    (root.path / "usr/bin").mkdir(parents=True)
    os.symlink("usr/bin", root.path / "bin")
    os.symlink("/../../usr", root.path / "top")
    root.write("/bin/tool", b"x")
    assert root.read("/usr/bin/tool") == b"x"
    assert root.read("/top/bin/../bin/tool") == b"x"
    os.symlink("tool", root.path / "usr/bin/alias")
    assert root.read("/bin/alias") == b"x"
    assert root.exists("/bin/alias")
    assert not root.exists("/bin/nothing")


def test_loops_of_links_end(root: GuestRoot) -> None:
    """Two links to each other are an error, not an endless walk."""
    os.symlink("b", root.path / "a")
    os.symlink("a", root.path / "b")
    with pytest.raises(NodeError, match="too many symbolic links"):
        root.write("/a/file", b"")
    with pytest.raises(NodeError, match="too many symbolic links"):
        root.read("/a")


def test_a_name_must_be_a_file(root: GuestRoot) -> None:
    """The root itself and `..` are not files."""
    for name in ("/", "", "/etc/.."):
        with pytest.raises(NodeError, match="does not name a file"):
            root.write(name, b"")


def test_special_files_are_not_read(root: GuestRoot) -> None:
    """A pipe in the image does not hang the agent."""
    os.mkfifo(root.path / "pipe")
    assert root.read("/pipe") is None


@pytest.mark.root
def test_owners_are_shifted(tmp_path: Path) -> None:
    """What is written belongs to the instance's root."""
    root = GuestRoot(tmp_path, 100000)
    root.write("/etc/x/file", b"")
    root.link("/etc/link", "x")
    for name in ("etc", "etc/x", "etc/x/file", "etc/link"):
        assert (tmp_path / name).lstat().st_uid == 100000


@pytest.mark.parametrize(
    ("files", "links", "expected"),
    [
        ([], {"sbin/init": "/lib/systemd/systemd"}, Init.SYSTEMD),
        (["bin/busybox"], {"sbin/init": "../bin/busybox"}, Init.BUSYBOX),
        (["sbin/init", "etc/init.d/rc"], {}, Init.SYSVINIT),
        (["usr/sbin/init", "etc/init.d/rc"], {"sbin": "usr/sbin"}, Init.SYSVINIT),
        (["sbin/init"], {}, Init.NONE),
        ([], {}, Init.NONE),
    ],
)
def test_the_init_system_is_recognised(
    root: GuestRoot, files: list[str], links: dict[str, str], expected: Init
) -> None:
    """By what `/sbin/init` is."""
    for name, target in links.items():
        (root.path / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root.path / name)
    for name in files:
        (root.path / name).parent.mkdir(parents=True, exist_ok=True)
        (root.path / name).write_text("")
    assert detect_init(root) is expected


def vm(**changes: object) -> dict[str, object]:
    """A VM object."""
    nic = {"ip": "10.0.0.5", "primary": True, "dns": ["10.0.0.2"]}
    return {"uuid": "u-1", "hostname": "web-1", "dns_domain": "example", "nics": [nic], **changes}


def test_names_and_resolvers_are_written(root: GuestRoot) -> None:
    """The VM's resolvers, else its network's, else the machine's."""
    write_identity(root, vm(), ["9.9.9.9"])
    assert root.read("/etc/hostname") == b"web-1\n"
    assert b"10.0.0.5\tweb-1.example web-1\n" in (root.read("/etc/hosts") or b"")
    assert root.read("/etc/resolv.conf") == b"search example\nnameserver 10.0.0.2\n"
    write_identity(root, vm(resolvers=["1.1.1.1"]), ["9.9.9.9"])
    assert b"nameserver 1.1.1.1" in (root.read("/etc/resolv.conf") or b"")
    write_identity(root, vm(nics=[]), ["9.9.9.9"])
    assert b"nameserver 9.9.9.9" in (root.read("/etc/resolv.conf") or b"")
    assert b"127.0.1.1\tweb-1.example" in (root.read("/etc/hosts") or b"")


def test_the_guest_agent_goes_where_it_is_expected(root: GuestRoot, tmp_path: Path) -> None:
    """User data private, archive beside it; without user data nothing is put in."""
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(b"zip")
    assert not write_guest_agent(root, vm(customer_metadata={}), archive)
    assert not root.exists("/opt/vetro/vetro-guest.pyz")
    data = vm(customer_metadata={"user-data": "#!/bin/sh\n"})
    assert write_guest_agent(root, data, archive)
    assert root.read("/opt/vetro/vetro-guest.pyz") == b"zip"
    assert (root.path / "var/lib/vetro/user-data").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("init", "file", "expected"),
    [
        (Init.SYSVINIT, "/etc/inittab", b"vg:2345:respawn:/opt/vetro/start-agent\n"),
        (Init.BUSYBOX, "/etc/inittab", b"::respawn:/opt/vetro/start-agent\n"),
        (Init.SYSTEMD, "/etc/systemd/system/vetro-guest.service", b"Restart=always"),
        (Init.NONE, "/opt/vetro/init", b"while :; do /opt/vetro/start-agent; done &"),
    ],
)
def test_each_init_starts_the_agent(
    root: GuestRoot, init: Init, file: str, expected: bytes
) -> None:
    """The agent is started, and started again when it ends; without one nothing names it."""
    write_init(root, init, with_agent=True)
    assert expected in (root.read(file) or b"")
    script = root.read("/opt/vetro/start-agent") or b""
    assert (
        b"python3 /opt/vetro/vetro-guest.pyz --bootstrap /var/lib/vetro/user-data"
        b" --config-file /etc/murano/agent.conf\n"
    ) in script
    other = GuestRoot(root.path.parent / "other")
    other.path.mkdir()
    write_init(other, init, with_agent=False)
    assert b"start-agent" not in (other.read(file) or b"")


def test_a_systemd_image_enables_the_unit(root: GuestRoot) -> None:
    """By the link `systemctl enable` would make."""
    write_init(root, Init.SYSTEMD, with_agent=True)
    link = root.path / "etc/systemd/system/multi-user.target.wants/vetro-guest.service"
    assert os.readlink(link) == "/etc/systemd/system/vetro-guest.service"


@pytest.mark.parametrize(
    ("command", "level", "expected"),
    [
        ("start", "2", ["0.05", "0.1", "0.2", "0.4", *["1.6"] * 5, "1.25", "1"]),
        # By hand, and when something else than a start waits, nothing changes.
        ("start", "", ["1"] * 11),
        ("stop", "0", ["1"] * 11),
    ],
)
def test_service_scripts_look_early_for_their_process(
    root: GuestRoot, tmp_path: Path, command: str, level: str, expected: list[str]
) -> None:
    """At an instance's start the first looks come within 50 ms; ten of them take ten seconds as before."""
    (root.path / "lib/lsb/init-functions.d").mkdir(parents=True)
    write_init(root, Init.SYSVINIT, with_agent=True)
    hook = root.path / "lib/lsb/init-functions.d/60-vetro-start"
    programs = tmp_path / "programs"
    programs.mkdir()
    slept = tmp_path / "slept"
    sleep = programs / "sleep"
    sleep.write_text(f'#!/bin/sh\necho "$@" >> {slept}\n')
    sleep.chmod(0o755)
    script = tmp_path / "service"
    script.write_text(
        f"#!/bin/sh\nset -eu\n. {hook}\nfor look in 1 2 3 4 5 6 7 8 9 10 11; do sleep 1; done\nsleep 7\n"
    )
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"} | (
        {"RUNLEVEL": level} if level else {}
    )
    subprocess.run(["/bin/sh", str(script), command], env=environment, check=True)
    assert slept.read_text().split() == [*expected, "7"]
    assert sum(float(seconds) for seconds in expected[:10]) == 10
