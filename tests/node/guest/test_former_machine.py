"""What belongs to one machine does not come along into another one."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from vetro.node.guest.former_machine import forget_former, forgetting_script, removing_script
from vetro.node.guest.root import GuestRoot
from vetro.node.images.archive import write_image

OWN = (
    "var/lib/vetro/instance", "var/lib/vetro/bootstrap.json", "var/lib/vetro/user-data",
    "etc/murano/agent.conf", "var/murano/plans/plans/1/plan", "root/.ssh/authorized_keys",
    "etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_ed25519_key.pub", "etc/machine-id",
    "var/lib/systemd/random-seed", "var/lib/dhcp/dhclient.eth0.leases", "root/.bash_history",
    "var/log/vetro-guest.log", "var/log/vetro-guest.log.1", "var/log/apache2/access.log",
    "var/log/apache2/error.log.2.gz", "var/log/syslog", "var/log/wtmp", "var/log/journal/x/system.journal",
    "etc/ssl/private/ssl-cert-snakeoil.key",
)  # fmt: skip
KEPT = (
    "etc/ssh/sshd_config", "etc/murano/other.conf", "root/.ssh/config", "var/log/apache2/notes",
    "srv/www/access.log", "etc/ssl/private/site.key", "var/murano/cache",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The root file system of a machine that has run."""
    for name in (*OWN, *KEPT):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of one machine")
    return tmp_path / "root"


def files(tree: Path) -> set[str]:
    """The files below a directory."""
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}


def test_a_new_root_forgets_the_machine_that_its_image_was_made_of(tree: Path) -> None:
    """Token, plans, keys and logs go, directories and the work stay."""
    forget_former(GuestRoot(tree))
    assert files(tree) == set(KEPT)
    assert (tree / "var/log/apache2").is_dir()


def test_an_image_of_no_machine_keeps_what_its_author_put_there(tree: Path) -> None:
    """Without a mark of ours, keys and configuration are part of the image."""
    for mark in OWN[:3]:
        (tree / mark).unlink()
    forget_former(GuestRoot(tree))
    assert files(tree) == {*OWN[3:], *KEPT}


def test_links_of_an_image_lead_nowhere(tree: Path, tmp_path: Path) -> None:
    """A directory that is a link, or a link among what is removed, touches nothing outside."""
    outside = tmp_path / "outside"
    (outside / "private").mkdir(parents=True)
    (outside / "private/ssl-cert-snakeoil.key").write_text("this machine's")
    (outside / "ssh_host_rsa_key").write_text("this machine's")
    (tree / "etc/ssl/private/ssl-cert-snakeoil.key").unlink()
    (tree / "etc/ssl/private/site.key").unlink()
    (tree / "etc/ssl/private").rmdir()
    (tree / "etc/ssl/private").symlink_to(outside / "private")
    (tree / "etc/ssh/ssh_host_dsa_key").symlink_to(outside / "ssh_host_rsa_key")
    (tree / "var/lib/dhcp/dir").symlink_to(outside)
    forget_former(GuestRoot(tree))
    assert files(outside) == {"private/ssl-cert-snakeoil.key", "ssh_host_rsa_key"}
    assert not os.path.lexists(tree / "etc/ssh/ssh_host_dsa_key")


@pytest.mark.parametrize(("uuid", "forgets"), [("of one machine", False), ("another", True)])
def test_a_vm_forgets_before_its_first_start_only(tree: Path, uuid: str, forgets: bool) -> None:
    """The script of the seed removes it when the disk is another machine's, and only then."""
    script = forgetting_script(f"'{uuid}'")
    subprocess.run(
        ["/bin/sh", "-euc", script], env={"ROOT": str(tree), "PATH": os.defpath}, check=True
    )
    assert files(tree) == (set(KEPT) if forgets else {*OWN, *KEPT})


def test_secrets_are_overwritten_before_they_are_removed(tree: Path) -> None:
    """The blocks of a removed file are still in the image of a disk."""
    kept = tree.parent / "second-name"
    os.link(tree / "etc/murano/agent.conf", kept)
    subprocess.run(
        ["/bin/sh", "-euc", removing_script()],
        env={"ROOT": str(tree), "PATH": os.defpath},
        check=True,
    )
    assert not kept.read_bytes().strip(b"\0")


async def test_an_image_of_a_container_has_nothing_of_its_machine(
    tree: Path, tmp_path: Path
) -> None:
    """Whatever is packed leaves it out, as patterns of the packing program too."""
    await write_image(GuestRoot(tree), tmp_path / "image.tar", compression="none")
    with tarfile.open(tmp_path / "image.tar") as tar:
        packed = {member.name.removeprefix("./") for member in tar if member.isfile()}
    assert packed == set(KEPT)
