"""`vetro vm create` and the commands for networks against a whole service with a simulated node."""

from __future__ import annotations

import re
import shlex
import struct
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.cli.serving import Service, serving

from vetro.cli import cli

pytestmark = [pytest.mark.e2e]
PAGE = Path(__file__).parents[2] / "docs" / "compute" / "using.md"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUdC775vHTWw464UZWrQf5HuSSzybbW8ji5KXcqYk+J ann@desk"
#: The kinds with the same verbs, and what makes one.
KINDS = {
    "network": ("network", "create", "NAME"),
    "router": ("router", "create", "NAME"),
    "group": ("group", "create", "NAME"),
    "port": ("port", "create", "home", "--name", "NAME"),
}


def everything(service: Service) -> dict[str, list[str]]:
    """The names of all that is there."""
    groups = ("network", "subnet", "router", "port", "address", "group", "keypair")
    found = {one: service.json(one, "list") for one in groups}
    found["vm"] = service.json("vm", "list")
    return {
        one: sorted(str(row.get("uuid") or row["name"]) for row in rows)
        for one, rows in found.items()
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with a node of the driver `simulated` and an image, for all tests of the module."""
    directory = tmp_path_factory.mktemp("compute")
    with serving(directory, "server_registered") as made:
        made.on_the_way = ("  ",)
        yield made


@pytest.fixture
def service(running: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Service:
    """The service; commands find it by the files in its data directory, and work in a directory."""
    running.reach(monkeypatch)
    monkeypatch.chdir(tmp_path)
    if not running.json("image", "list"):
        running.ok("image", "import", "debian", root_tar(tmp_path))
        # Registered is not yet heard: room is found on nodes whose heartbeat was.
        while running.json("server", "list")[0]["status"] != "running":
            assert running.process.poll() is None
    return running


def root_tar(directory: Path) -> Path:
    """A root file system of one file."""
    (directory / "hostname").write_text("debian\n")
    with tarfile.open(directory / "debian.tar", "w") as tar:
        tar.add(directory / "hostname", "etc/hostname")
    return directory / "debian.tar"


@pytest.fixture
def home(service: Service) -> Iterator[Service]:
    """The service with a network of one range."""
    service.ok("network", "create", "home", "--cidr", "10.78.0.0/24")
    yield service
    service.ok("network", "delete", "home", "--yes")


def test_the_page_for_users_works_as_it_is_written(service: Service, tmp_path: Path) -> None:
    """Each command of docs/compute/using.md does what it says, in order; nothing is left at the end."""
    (tmp_path / "id_ed25519.pub").write_text(KEY)
    (tmp_path / "first-start.sh").write_text("#!/bin/sh\necho hello\n")
    before = everything(service)
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len([line for line in blocks[0].splitlines() if line]) == 3, (
        "three commands, as promised"
    )
    printed: dict[str, str] = {}
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "vetro"
        # A simulated machine runs nothing; tests of the drivers have commands in machines.
        if words[1:3] != ["vm", "exec"]:
            printed[line] = service.ok(*words[1:])
        if words[1:3] == ["network", "rename"]:
            (row,) = [one for one in service.json("vm", "list") if one["alias"] == "web-1"]
            assert (row["addresses"], row["floating"]) == ("10.77.5.2", "172.24.4.2")
            (row,) = [one for one in service.json("vm", "list") if one["alias"] == "inner-1"]
            assert set(row["addresses"].split(", ")) == {"10.77.7.20", "10.77.5.6"}
    assert "172.24.4.2 leads to 10.77.5.2" in printed[lines[2]]
    assert "172.24.4.2" in printed["vetro vm list"]
    assert everything(service) == before


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_same_verbs(home: Service, kind: str) -> None:
    """Made, listed, shown by name and by uuid, renamed, deleted by name and uuid; completed in a shell."""
    make = [word.replace("NAME", f"my-{kind}") for word in KINDS[kind]]
    made = home.json(*make)
    assert made["uuid"] in [row["uuid"] for row in home.json(kind, "list")]
    assert f"my-{kind}" in home.ok(kind, "list")
    for wanted in (f"my-{kind}", made["uuid"], made["uuid"].upper()):
        assert home.json(kind, "show", wanted)["uuid"] == made["uuid"]
    completer = ShellComplete(cli, {}, "vetro", "_VETRO_COMPLETE")
    offered = [item.value for item in completer.get_completions([kind, "show"], "my-")]
    assert offered == [f"my-{kind}"]
    assert home.json(kind, "rename", made["uuid"], "other")["name"] == "other"
    assert "There is no" in home.refused(kind, "show", f"my-{kind}")
    # Two of one name: nobody can answer, so the command ends with the list of both.
    second = home.json(*[word.replace(f"my-{kind}", "other") for word in make])
    for verb in (("show", "other"), ("delete", "other"), ("rename", "other", "third")):
        text = home.refused(kind, *verb, code=2)
        assert made["uuid"] in text
        assert second["uuid"] in text
    # A wrong name among good ones changes nothing.
    assert "nosuch" in home.refused(kind, "delete", made["uuid"], "nosuch", "--yes")
    deleted = home.json(kind, "delete", made["uuid"], second["uuid"], second["uuid"], "--yes")
    assert deleted == {"deleted": [made["uuid"], second["uuid"]]}
    assert "There is no" in home.refused(kind, "delete", made["uuid"], "--yes")


def test_somebody_who_watches_is_asked_which(
    home: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal an ambiguous name is a question; the answer is what is taken."""
    rows = [home.json("group", "create", "twice") for _ in range(2)]
    monkeypatch.setattr("vetro.cli.terminal.confirmation.is_watched", lambda: True)
    code, text = home.run("group", "delete", "twice", input="1\ny\n")
    assert (code, "Which one" in text) == (0, True)
    (left,) = [row for row in home.json("group", "list") if row["name"] == "twice"]
    assert left["uuid"] in [row["uuid"] for row in rows]
    home.ok("group", "delete", "twice", "--yes")


def test_a_machine_that_cannot_be_made_leaves_nothing(home: Service, tmp_path: Path) -> None:
    """Whatever is wrong is said in a line with a hint, and neither machine, port nor room stays."""
    before = everything(home)
    room = home.json("server", "list")[0]["unreserved_ram"]
    for arguments, code, said in (
        (("x", "--image", "nosuch"), 1, "Images: debian."),
        (("X Y",), 2, "not a host name"),
        (("x" * 64,), 2, "not a host name"),
        (("x", "--network", "nosuch"), 1, "There are: ext-net, home."),
        (("x", "--port", "nosuch"), 1, "vetro port create"),
        (("x", "--group", "nosuch"), 1, "vetro group create"),
        (("x", "--size", "m1.smal"), 1, "Did you mean m1.small?"),
        (("x", "--memory", "12000000"), 1, "unreserved RAM"),
        (("x", "--memory", "1"), 2, "not in the range"),
        (("x", "--vcpus", "x"), 2, "not a valid integer"),
        (("x", "--server", "nosuch"), 1, "vetro server list"),
        (("x", "--key", "nosuch"), 1, "vetro keypair create"),
        (("x", "--user-data", "nosuch"), 2, "there is no such file"),
        (("x", "--tag", "a"), 2, "NAME=VALUE"),
        (("x", "--project", "nosuch"), 1, "Your projects: admin"),
        (("x", "--no-network", "--network", "home"), 2, "excludes"),
    ):
        given = arguments if "--image" in arguments else (*arguments, "--image", "debian")
        assert said in home.refused("vm", "create", *given, code=code), arguments
    for content in (b"plain text", b"\xff\xfe", b"#!/bin/sh\n" + b"x" * 2**20):
        (tmp_path / "ud").write_bytes(content)
        home.refused(
            "vm", "create", "x", "--image", "debian", "--user-data", tmp_path / "ud", code=2
        )
    assert everything(home) == before
    assert home.json("server", "list")[0]["unreserved_ram"] == room


def test_a_disk_below_that_of_the_image_is_refused(home: Service, tmp_path: Path) -> None:
    """With both sizes and what to give; no port, no room and no machine is left of it."""
    disk = tmp_path / "disk.qcow2"
    header = struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 0, 0, 16, 20 * 2**30)
    disk.write_bytes(header + bytes(488))
    assert "--type vm" in home.refused("image", "import", "large", disk, code=1)
    (tmp_path / "raw").write_bytes(bytes(100) + b"raw" * 200)
    assert "qemu-img convert" in home.refused(
        "image", "import", "large", tmp_path / "raw", "--type", "vm", code=1
    )
    home.ok("image", "import", "large", disk, "--type", "vm")
    before = everything(home)
    text = home.refused("vm", "create", "db", "--image", "large", "--disk", 10, code=1)
    assert "VM db would have a disk of 10240 MiB, and the disk of image large (" in " ".join(
        text.split()
    )
    assert "at least 20 GiB" in " ".join(text.split())
    assert everything(home) == before
    home.ok("image", "delete", "large", "--yes")


def test_a_machine_has_what_it_was_made_with(home: Service, tmp_path: Path) -> None:
    """Size, key, user data, tags and the owner reach the node; --no-wait returns while it is made."""
    (tmp_path / "key.pub").write_text(KEY)
    (tmp_path / "ud").write_text("#!/bin/sh\necho hello\n")
    made = home.json(
        *("vm", "create", "Big", "--image", "debian", "--memory", 300, "--vcpus", 3, "--disk", 7),
        *("--key", tmp_path / "key.pub", "--user-data", tmp_path / "ud", "--tag", "a=b"),
    )
    assert (made["alias"], made["hostname"], made["state"]) == ("Big", "big", "running")
    assert (made["max_physical_memory"], made["cpu_cap"], made["quota"]) == (300, 300, 7)
    assert made["tags"] == {"a": "b"}
    whole = home.json("vm", "show", "Big", "--show-secrets")["customer_metadata"]
    assert whole["root_authorized_keys"] == KEY
    assert "echo hello" in whole["user-data"]
    assert KEY in whole["user-data"]
    again = home.json("vm", "create", "Big", "--image", "debian", "--no-wait")
    text = home.refused("vm", "stop", "Big", code=2)
    assert made["uuid"] in text
    assert again["uuid"] in text
    home.ok("vm", "stop", made["uuid"])
    assert "Nothing was done" in home.refused("vm", "destroy", made["uuid"], code=2)
    home.ok("vm", "delete", made["uuid"], again["uuid"], "--yes")
    assert home.json("vm", "list") == []
    assert home.json("port", "list") == []


def test_a_network_is_made_whole_or_not_at_all(home: Service) -> None:
    """A range that is taken or wrong leaves neither network, subnet nor router."""
    before = everything(home)
    assert "overlaps" in home.refused("network", "create", "n", "--cidr", "10.78.0.128/25")
    for wrong, said in (
        (("--cidr", "10.79.0.5/24"), "Is 10.79.0.0/24 meant?"),
        (("--cidr", "nonsense"), "A range is written like"),
        (("--cidr", "10.79.0.0/31"), "too small"),
        (("--cidr", "10.79.0.0/24", "--gateway", "10.80.0.1"), "outside of"),
        (("--gateway", "10.79.0.1"), "--cidr"),
        (("--cidr", "10.79.0.0/24", "--dns", "x"), "written like"),
        (("--uplink", "a b"), "TAG or TAG:VLAN"),
        (("--uplink", "office:5000"), "4094"),
        (("--mtu", "1"), "not in the range"),
        (("--cidr", "fd00:79::5/64"), "Is fd00:79::/64 meant?"),
        (("--cidr", "fd00:79::/64", "--gateway", "10.79.0.1"), "outside of"),
    ):
        assert said in home.refused("network", "create", "n", *wrong, code=2), wrong
    assert everything(home) == before
    machine = home.json("vm", "create", "in-it", "--image", "debian")
    text = home.refused("network", "delete", "home", "--yes")
    assert "in-it-net0" in text
    assert "vetro vm destroy" in text
    assert "10.78.0.0/24" in home.ok("network", "list"), "refused before anything was removed"
    home.ok("vm", "destroy", machine["uuid"], "--yes")


def test_a_network_of_ipv6_and_its_rules(home: Service) -> None:
    """Ranges and addresses of IPv6 are taken where IPv4's are; a rule is of its range's family."""
    home.ok("network", "create", "six", "--cidr", "fd00:79::/64", "--isolated")
    assert "fd00:79::/64" in home.ok("network", "list")
    home.ok("group", "create", "six")
    home.ok("group", "rule", "add", "six", "--port", "80", "--remote", "fd00:79::/64")
    home.ok("group", "rule", "add", "six", "--port", "22", "--ipv6")
    home.ok("group", "rule", "add", "six", "--ipv6", "--remote-group", "six")
    rows = home.json("group", "rule", "list", "six")
    assert [(row["ethertype"], row["remote"]) for row in rows] == [
        ("IPv6", "fd00:79::/64"),
        ("IPv6", "::/0"),
        ("IPv6", "group six (IPv6)"),
    ]
    wrong = ("--ipv6", "--remote", "10.0.0.0/8")
    assert "range of IPv4" in home.refused("group", "rule", "add", "six", *wrong, code=2)
    home.ok("group", "delete", "six", "--yes")
    home.ok("network", "delete", "six", "--yes")


def test_rules_are_checked_before_they_are_sent(home: Service) -> None:
    """Protocols, ports, ranges and numbers that cannot be are wrong usage; a rule is added once."""
    home.ok("group", "create", "strict")
    for wrong in (
        ("--port", "0"),
        ("--port", "65536"),
        ("--port", "80-70"),
        ("--port", "http"),
        ("--protocol", "icmp", "--port", "8"),
        ("--protocol", "nosuch"),
        ("--protocol", "256"),
        ("--remote", "10.0.0.1/8"),
        ("--remote", "10.0.0.0/8", "--remote-group", "strict"),
    ):
        home.refused("group", "rule", "add", "strict", *wrong, code=2)
    for _ in range(2):
        home.ok("group", "rule", "add", "strict", "--port", "80")
    home.ok("group", "rule", "add", "strict", "--out", "--remote-group", "strict")
    rows = home.json("group", "rule", "list", "strict")
    assert [(row["direction"], row["ports"], row["remote"]) for row in rows] == [
        ("in", "80", "0.0.0.0/0"),
        ("out", "any", "group strict"),
    ]
    assert "no rule 3, only 2" in home.refused("group", "rule", "remove", "strict", "3")
    home.refused("group", "rule", "remove", "strict", "0", code=2)
    home.refused("group", "update", "strict", code=2)
    home.ok("group", "delete", "strict", "--yes")


def test_addresses_lead_where_they_are_told(home: Service) -> None:
    """An address moves between machines and stays when its machine is destroyed."""
    for name in ("one", "two"):
        home.ok("vm", "create", name, "--image", "debian")
    home.ok("vm", "create", "none", "--image", "debian", "--no-network")
    made = home.json("address", "create", "--vm", "one")
    assert made["fixed_ip"] == "10.78.0.2"
    moved = home.json("address", "associate", made["address"], "--vm", "two")
    assert moved["fixed_ip"] == "10.78.0.3"
    assert "in no network" in home.refused("address", "create", "--vm", "none")
    home.refused("address", "create", "--vm", "one", "--port", "two-net0", code=2)
    home.refused("address", "associate", made["address"], code=2)
    assert made["address"] in home.refused("address", "associate", "192.0.2.1", "--vm", "one")
    home.ok("vm", "destroy", "one", "two", "none", "--yes")
    assert home.json("address", "show", made["address"])["fixed_ip"] is None
    home.ok("address", "delete", made["address"], "--yes")


def test_key_pairs_are_public_keys(home: Service, tmp_path: Path) -> None:
    """A private key, and text that is not a key, are refused; so is a second key of one name."""
    file = tmp_path / "key"
    for text, said in (
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "Give the public one"),
        ("hello", "not a public key"),
        ("", "not a public key"),
    ):
        file.write_text(text)
        assert said in home.refused("keypair", "create", "k", file, code=2)
    file.write_text(KEY)
    for _ in range(2):
        assert home.json("keypair", "create", "k", file)["public_key"] == KEY
    file.write_text(KEY.replace("AAAAC3", "AAAAC4"))
    assert "with another key" in home.refused("keypair", "create", "k", file)
    assert [row["public_key"] for row in home.json("keypair", "list")] == [KEY]
    assert home.json("keypair", "delete", "k", "--yes") == {"deleted": ["k"]}
    home.refused("keypair", "show", str(uuid.uuid4()))


def test_a_virtual_machine_has_a_volume_as_a_disk(home: Service, tmp_path: Path) -> None:
    """It is named by what the guest sees, a serial number; a directory is refused before anything."""
    home.ok("image", "import", "disk", root_tar(tmp_path), "--type", "vm")
    home.json("vm", "create", "v", "--image", "disk", "--no-network")
    uuid = home.json("volume", "create", "data", "--size", "1")["uuid"]
    assert "gets a disk, not a directory" in home.refused(
        "volume", "attach", "data", "v", "--at", "/srv", code=2
    )
    assert f"a disk of VM v: its serial number is {uuid}" in home.ok(
        "volume", "attach", "data", "v"
    )
    home.ok("vm", "destroy", "v", "--yes")
    home.ok("volume", "delete", "data", "--yes")
    home.ok("image", "delete", "disk", "--yes")


def test_a_volume_outlives_its_machine(home: Service) -> None:
    """Made, attached, refused elsewhere, grown, copied, restored, detached; deleted when nothing uses it."""
    for name in ("holder", "other"):
        home.json("vm", "create", name, "--image", "debian", "--no-network")
    assert "needs a size" in home.refused("volume", "create", "data", code=2)
    made = home.json("volume", "create", "data", "--size", "1")
    assert (made["size"], made["state"], made["server_uuid"]) == (1, "available", None)
    assert home.json("volume", "attach", "data", "holder", "--at", "/srv")["device"] == "/srv"
    assert "attached to VM" in home.refused("volume", "attach", "data", "other")
    assert "attached to VM" in home.refused("volume", "delete", "data", "--yes")
    assert home.json("volume", "grow", "data", "2")["size"] == 2
    assert "cannot shrink" in home.refused("volume", "grow", "data", "1")
    assert home.json("volume", "snapshot", "create", "data", "before")["state"] == "available"
    assert home.json("volume", "backup", "create", "data", "nightly")["size"] == 2
    assert "one source" in home.refused(
        "volume", "create", "x", "--from-volume", "data", "--from-backup", "nightly", code=2
    )
    assert home.json("volume", "create", "copy", "--from-snapshot", "before")["size"] == 2
    assert "detach it first" in home.refused(
        "volume", "backup", "restore", "nightly", "data", "--yes"
    )
    assert home.json("volume", "detach", "data", "--yes")["vm_uuid"] is None
    home.json("volume", "backup", "restore", "nightly", "data", "--yes")
    home.json("volume", "attach", "data", "other")
    home.json("vm", "destroy", "other", "holder", "--yes")
    assert [row["state"] for row in home.json("volume", "list")] == ["available"] * 2
    home.json("volume", "snapshot", "delete", "before", "--yes")
    home.json("volume", "delete", "data", "copy", "--yes")
    home.json("volume", "backup", "delete", "nightly", "--yes")
    assert home.json("volume", "list") == home.json("volume", "backup", "list") == []


def test_a_machine_gets_and_loses_interfaces(home: Service) -> None:
    """By network and by port, as `vm create` takes them; what is lost is said first."""
    home.ok("network", "create", "lan", "--cidr", "10.79.0.0/24")
    home.ok("port", "create", "lan", "--name", "fixed", "--ip", "10.79.0.20")
    home.ok("group", "create", "front")
    home.ok("vm", "create", "box", "--image", "debian", "--network", "home")
    before = everything(home)
    for arguments, code, said in (
        ((), 2, "--network or --port"),
        (("--port", "fixed", "--group", "front"), 2, "vetro port update --group"),
        (("--network", "nosuch"), 1, "There are: ext-net, home, lan."),
        (("--network", "lan", "--port", "nosuch"), 1, "There are: box-net0, fixed."),
    ):
        assert said in home.refused("vm", "interface", "add", "box", *arguments, code=code)
    assert everything(home) == before
    home.ok("vm", "create", "other", "--image", "debian", "--port", "fixed")
    assert "is used by VM" in home.refused("vm", "interface", "add", "box", "--port", "fixed")
    home.ok("vm", "destroy", "other", "--yes")
    text = home.ok(
        *(
            "vm",
            "interface",
            "add",
            "box",
            "--network",
            "lan",
            "--group",
            "front",
            "--port",
            "fixed",
        )
    )
    assert "VM box has 10.79.0.2 in network lan, 10.79.0.20 in network lan" in text
    rows = home.json("vm", "interface", "list", "box")
    assert [(row["interface"], row["network"], row["port"], row["primary"]) for row in rows] == [
        ("net0", "home", "box-net0", True),
        ("net1", "lan", "box-net1", False),
        ("net2", "lan", "fixed", False),
    ]
    assert len(home.json("port", "show", "box-net1")["security_groups"]) == 1
    made = home.json("address", "create", "--port", "fixed")["address"]
    # Two in one network: nobody can answer which.
    text = home.refused("vm", "interface", "remove", "box", "--network", "lan", "--yes", code=2)
    assert "--mac" in text
    assert rows[1]["mac"] in text
    assert "one of" in home.refused("vm", "interface", "remove", "box", code=2)
    text = home.refused("vm", "interface", "remove", "box", "--port", "fixed", code=2)
    assert f"Nothing was done: VM box would lose the interface {rows[2]['mac']}" in text
    assert f"not be reached at {made}" in text
    assert "the port fixed is free" in home.ok(
        "vm", "interface", "remove", "box", "--port", "fixed", "--yes"
    )
    assert home.json("port", "show", "fixed")["device_uuid"] is None
    text = home.refused("vm", "interface", "remove", "box", "--network", "home", code=2)
    assert f"its default route through {rows[1]['mac']}" in text
    home.ok("vm", "interface", "remove", "box", "--mac", rows[0]["mac"].upper(), "--yes")
    assert "There is no" in home.refused("port", "show", "box-net0")
    text = home.refused("vm", "interface", "remove", "box", "--network", "lan", code=2)
    assert "be in no network" in text
    assert "has no interface" in home.refused("vm", "interface", "remove", "box", "--port", "fixed")
    home.json("vm", "interface", "remove", "box", "--network", "lan", "--yes")
    assert home.json("vm", "interface", "list", "box") == []
    # It goes with the machine, as those that it was made with.
    home.ok("vm", "interface", "add", "box", "--network", "home")
    home.ok("vm", "destroy", "box", "--yes")
    home.ok("address", "delete", made, "--yes")
    home.ok("group", "delete", "front", "--yes")
    home.ok("port", "delete", "fixed", "--yes")
    home.ok("network", "delete", "lan", "--yes")


def test_a_virtual_machine_is_restarted_for_an_interface_only_when_agreed(
    home: Service, tmp_path: Path
) -> None:
    """Its command says so and does nothing without an answer; stopped, it has nothing to lose by it."""
    home.ok("image", "import", "disk", root_tar(tmp_path), "--type", "vm")
    home.ok("vm", "create", "v", "--image", "disk", "--no-network")
    ports = home.json("port", "list")
    text = home.refused("vm", "interface", "add", "v", "--network", "home", code=2)
    assert "Nothing was done: VM v would be restarted" in text
    assert home.json("port", "list") == ports
    home.ok("vm", "interface", "add", "v", "--network", "home", "--yes")
    text = home.refused("vm", "interface", "remove", "v", "--network", "home", code=2)
    assert text.count("be restarted") == 1
    home.ok("vm", "stop", "v")
    home.ok("vm", "interface", "add", "v", "--network", "home")
    home.ok("vm", "destroy", "v", "--yes")
    home.ok("image", "delete", "disk", "--yes")
