"""What `vetro doctor` finds on machines and installations in every state."""

import datetime
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.ports import free_port

from vetro.cli import cli
from vetro.node import Accelerator
from vetro.server import data_directory
from vetro.server.doctor import Finding, Machine, examine_installation, examine_machine
from vetro.server.installation import open_database
from vetro.server.settings import Settings, load_settings

ROUTES = b'[{"dst": "default", "dev": "eth0"}, {"dst": "192.0.2.0/24", "dev": "eth0"}]'
WELL = {
    "etc/subuid": "root:1000000:65536",
    "etc/subgid": "root:1000000:65536",
    "proc/sys/user/max_user_namespaces": "15000",
    "proc/sys/kernel/osrelease": "6.1",
    "proc/filesystems": "nodev overlay",
    "lib/modules/6.1/modules.dep": "kernel/net/bridge/bridge.ko: kernel/drivers/net/vxlan/vxlan.ko:",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory pids",
    "dev/kvm": "",
}


def settings_of(directory: Path, **more: object) -> Settings:
    """Settings of an installation in a directory."""
    return load_settings({"server.data_dir": str(directory), **more}, environ={})


def machine(root: Path, **changes: str | None) -> Machine:
    """A machine on which all is well, but for these files (``None``: missing; `__` for `/`)."""
    files = {**WELL, **{name.replace("__", "/"): text for name, text in changes.items()}}
    for name, text in files.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return Machine(
        root,
        which=lambda name: f"/bin/{name}",
        user=0,
        routes=lambda: ROUTES,
        open_files=lambda: 65536,
        library=lambda _name: True,
        accelerator=lambda _directory: Accelerator("kvm"),
    )


def unwell(findings: list[Finding]) -> list[Finding]:
    """What is not well; every such finding says what to do."""
    bad = [finding for finding in findings if finding.level != "ok"]
    assert all(finding.remedy for finding in bad)
    return bad


def test_a_machine_that_has_everything_is_well(tmp_path: Path) -> None:
    """A root with all programs, ranges, modules and KVM gets no remedy."""
    assert unwell(list(examine_machine(machine(tmp_path), settings_of(tmp_path)))) == []


@pytest.mark.parametrize(
    ("changes", "level", "subject", "remedy"),
    [
        ({"etc__subuid": ""}, "error", "user ids", "/etc/subuid"),
        ({"proc__sys__user__max_user_namespaces": "0"}, "error", "user namespaces", "sysctl"),
        ({"sys__fs__cgroup__cgroup.controllers": "cpu"}, "warning", "control groups", "Delegate"),
        ({"sys__fs__cgroup__cgroup.controllers": None}, "warning", "control groups", "Mount"),
        ({"proc__filesystems": ""}, "error", "kernel", "overlay"),
        (
            {"dev__kvm": None, "proc__cpuinfo": "flags : vmx"},
            "warning",
            "virtual machines",
            "modprobe",
        ),
        ({"dev__kvm": None}, "warning", "virtual machines", "firmware"),
    ],
)
def test_what_a_machine_lacks_is_found(
    changes: dict[str, str | None], level: str, subject: str, remedy: str, tmp_path: Path
) -> None:
    """Each missing part is one finding with the level and the remedy that belong to it."""
    [found] = unwell(list(examine_machine(machine(tmp_path, **changes), settings_of(tmp_path))))
    assert (found.level, found.subject) == (level, subject)
    assert remedy in found.remedy


def test_kvm_is_what_ran_a_guest_and_vms_need_their_library(tmp_path: Path) -> None:
    """A device that opens and hangs is no KVM, and without libvirt-python no VM is ever started."""
    settings = settings_of(tmp_path, **{"node.driver": "lxc+qemu"})
    found = replace(
        machine(tmp_path),
        library=lambda name: name != "libvirt",
        accelerator=lambda _directory: Accelerator("tcg", "no answer within 5 s"),
    )
    library, kvm = unwell(list(examine_machine(found, settings)))
    assert (library.level, kvm.level) == ("error", "warning")
    assert "libvirt-python is not installed" in library.found
    assert "KVM does not work here (no answer within 5 s)" in kvm.found


def test_missing_programs_name_their_packages(tmp_path: Path) -> None:
    """Containers and networks need their programs; those of virtual machines only limit."""
    well = machine(tmp_path)
    without = replace(well, which=lambda _name: None, open_files=lambda: 100)
    found = {x.subject: x for x in unwell(list(examine_machine(without, settings_of(tmp_path))))}
    assert found["containers"].level == "error"
    assert found["containers"].remedy == "apt-get install lxc uidmap mmdebstrap"
    assert found["virtual machines"].level == "warning"
    assert "LimitNOFILE" in found["open files"].remedy


def test_a_network_of_the_machine_is_not_given_to_instances(tmp_path: Path) -> None:
    """An external network that overlaps a route of the machine is an error that names both."""
    settings = settings_of(tmp_path, **{"network.external_cidr": "192.0.2.128/25"})
    [found] = unwell(list(examine_machine(machine(tmp_path), settings)))
    assert found.found == "192.0.2.128/25 overlaps 192.0.2.0/24, which is reached over eth0"


async def examined(settings: Settings) -> dict[str, Finding]:
    """What is not well with an installation, by subject."""
    return {x.subject: x for x in unwell([x async for x in examine_installation(settings)])}


async def installed(directory: Path, **more: object) -> Settings:
    """An installation whose service does not run, at a port that nobody has."""
    settings = settings_of(directory, **{"server.port": free_port(), **more})
    data_directory.prepare(directory)
    async with open_database(settings):
        pass
    (directory / "admin-openrc").touch(mode=0o600)
    return settings


def _damage(directory: Path) -> None:
    with (directory / "vetro.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 65536)


def _from_the_future(directory: Path) -> None:
    with sqlite3.connect(directory / "vetro.db") as connection:
        connection.execute("INSERT INTO vetro_migrations VALUES ('catalog_9999')")
    connection.close()


def _from_the_past(directory: Path) -> None:
    with sqlite3.connect(directory / "vetro.db") as connection:
        connection.execute("DELETE FROM vetro_migrations WHERE version_num LIKE 'catalog_%'")
    connection.close()


@pytest.mark.parametrize(
    ("change", "subject", "text"),
    [
        (_damage, "database", "damaged|malformed|cannot be opened"),
        (_from_the_future, "database", r"newer Vetro \(catalog_9999\)"),
        (_from_the_past, "database", "lacks [0-9]+ migrations"),
        (lambda place: (place / "vetro.db").unlink(), "database", "is missing, but the rest"),
        (lambda place: (place / "keys").unlink(), "keys", "is gone: secrets"),
        (lambda place: (place / "keys").chmod(0o644), "data directory", "can read keys"),
    ],
)
async def test_what_an_installation_lacks_is_found(
    change: Callable[[Path], None], subject: str, text: str, tmp_path: Path
) -> None:
    """Each damage is a finding of its subject; a service that is stopped is one as well."""
    settings = await installed(tmp_path / "data")
    change(tmp_path / "data")
    found = await examined(settings)
    found.pop("dashboard", None)
    assert set(found) == {"service", subject}
    assert re.search(text, found[subject].found)


async def test_other_services_are_tried(tmp_path: Path) -> None:
    """A broker and a Keystone that do not answer are errors with their addresses."""
    settings = await installed(
        tmp_path / "data",
        **{
            "rabbitmq.host": "127.0.0.1",
            "rabbitmq.port": 1,
            "identity.url": "http://127.0.0.1:1/v3",
        },
    )
    found = await examined(settings)
    assert found["rabbitmq.host"].found.startswith("127.0.0.1:1 cannot be reached")
    assert found["identity.url"].level == "error"


async def test_a_service_that_holds_the_directory_and_does_not_answer_is_an_error(
    tmp_path: Path,
) -> None:
    """A locked directory names the process; a port with something else says so."""
    settings = await installed(tmp_path / "data")
    with data_directory.lock(tmp_path / "data"):
        found = (await examined(settings))["service"]
    assert found.level == "error"
    assert "in use by process" in found.found


@pytest.mark.parametrize(("days", "level"), [(-1, "error"), (7, "warning")])
async def test_certificates_that_expire_are_found(days: int, level: str, tmp_path: Path) -> None:
    """A certificate that has expired is an error, one that soon will a warning."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vetro")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "own.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = tmp_path / "own.key"
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    files = {"tls.certificate": str(pem), "tls.key": str(secret), "tls.authority": str(pem)}
    assert (await examined(await installed(tmp_path / "data", **files)))["tls"].level == level


@pytest.mark.programs
def test_the_command_prints_findings_and_ends_with_one_for_errors(tmp_path: Path) -> None:
    """JSON has every finding; an error in a setting is said at once."""
    given = ["--data-dir", str(tmp_path / "none"), "doctor", "--json"]
    done = CliRunner().invoke(cli, given, env={"VETRO_NETWORK_EXTERNAL_CIDR": "not/a-network"})
    assert {"level", "subject", "found", "remedy"} == set(json.loads(done.stdout)[0])
    done = CliRunner().invoke(
        cli, given, env={"VETRO_RABBITMQ_HOST": "127.0.0.1", "VETRO_RABBITMQ_PORT": "1"}
    )
    assert done.exit_code == 1
