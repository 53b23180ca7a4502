"""Real virtual machines and their images: one that boots by itself, and one made of a VM."""

from __future__ import annotations

import asyncio
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.drivers.guests import page
from tests.waiting import eventually

pytestmark = [pytest.mark.thorough, pytest.mark.root]

# cld; ds = 0; si = text; dx = COM1; until the byte is zero: lodsb, out %al,(%dx); then hlt for ever
_SAYS = bytes.fromhex("fc31c08ed8be167cbaf803ac84c07403eeebf8f4ebfd")
MANIFEST = {
    "uuid": "dddddddd-0000-4000-8000-000000000001",
    "owner": "aaaaaaaa-0000-4000-8000-000000000001",
    "name": "made", "version": "1",
}  # fmt: skip


def bootable(directory: Path) -> Path:
    """A disk whose boot sector says a word on the serial line."""
    raw, disk = directory / "boot.raw", directory / "boot.qcow2"
    sector = (_SAYS + b"started from the disk\r\n\0").ljust(510, b"\0") + b"\x55\xaa"
    raw.write_bytes(sector.ljust(1 << 20, b"\0"))
    subprocess.run(
        ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)], check=True
    )
    return disk


async def test_a_disk_that_boots_by_itself(
    machines: Any, vm_kit: SimpleNamespace, tmp_path: Path
) -> None:
    """A qcow2 image without a kernel beside it starts from its boot sector, on every bus."""
    image = vm_kit.other_image
    machines.files[image] = bootable(tmp_path)
    for model in ("virtio", "sata"):
        vm = await machines.create(
            [], image_uuid=image, ram=64, disks=[{"image_uuid": image, "model": model, "size": 64}]
        )
        log = machines.store.path(vm["uuid"]) / "console.log"

        async def said(file: Path = log) -> bool:
            return b"started from the disk" in file.read_bytes()

        await eventually(said)
        # It hears no power button: it is ended when the time is over.
        assert (await machines.driver.stop(vm["uuid"], timeout=0.1))["state"] == "stopped"


#: With a server that needs keys, and as an image was that is older than what makes them.
PREPARE = """
mkdir -p /usr/sbin /usr/bin
echo '#!/bin/sh' > /usr/sbin/sshd
printf '#!/bin/sh\\necho own > /etc/ssh/ssh_host_rsa_key\\n' > /usr/bin/ssh-keygen
chmod 755 /usr/sbin/sshd /usr/bin/ssh-keygen
rm /opt/vetro/first-start
sed -i /first-start/d /opt/vetro/boot
echo prepared > /www/state
mkdir -p /etc/murano /etc/ssh; echo token-of-one-machine > /etc/murano/agent.conf
echo token-of-one-machine > /etc/ssh/ssh_host_ed25519_key
sync
"""
LOOK = (
    "cat /var/lib/vetro/instance /var/lib/vetro/user-data /root/.ssh/authorized_keys;"
    " find /etc/murano /etc/ssh -type f"
)


async def test_an_image_of_a_vm_has_its_work_and_nothing_of_its_identity(
    machines: Any, vm_kit: SimpleNamespace, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """The disk becomes an image without token and keys, a copy makes its own; the VM stays as it is."""
    own = {"user-data": "#!/bin/sh\n# of one\n", "root_authorized_keys": "ssh-rsa AAAA one"}
    vm = await machines.create(
        [], autoboot=False, owner_uuid=MANIFEST["owner"], customer_metadata=own
    )
    uuid = vm["uuid"]
    async with kit.node_over(machines.driver, machines.images, tmp_path) as node:
        await node.good(
            "machine_create_image", uuid=uuid, manifest=MANIFEST, compression="gzip",
            incremental=True, prepare_image_script=PREPARE,
        )  # fmt: skip
        ((manifest, packed),) = node.published
    assert (manifest["type"], manifest["size"]) == ("vm", len(packed))
    # It stands alone.
    assert "origin" not in manifest
    after = await machines.driver.load(uuid)
    assert (after["state"], after["snapshots"]) == ("stopped", [])
    assert list((tmp_path / "scratch").iterdir()) == []

    file = tmp_path / "made.tar.gz"
    await asyncio.to_thread(file.write_bytes, packed)
    with tarfile.open(file, "r:gz") as tar:
        assert tar.getnames() == ["disk.qcow2", "kernel", "initrd", "boot.json"]
        tar.extract("disk.qcow2", tmp_path)
    # Not compressed, it shows what is in its blocks.
    plain = tmp_path / "plain.qcow2"
    convert = ["qemu-img", "convert", "-O", "qcow2", str(tmp_path / "disk.qcow2"), str(plain)]
    await asyncio.to_thread(subprocess.run, convert, check=True)
    assert b"token-of-one-machine" not in await asyncio.to_thread(plain.read_bytes)
    image = vm_kit.other_image
    machines.files[image] = file
    nic = await machines.nic(5)
    other = {"user-data": "#!/bin/sh\n# of another\n"}
    copy = await machines.create([nic], image_uuid=image, customer_metadata=other)
    assert await page(nic["ip"], "/state") == "prepared\n"
    said = await machines.driver.execute(copy["uuid"], ["sh", "-c", LOOK], {}, 60)
    assert said.stdout == f"{copy['uuid']}\n#!/bin/sh\n# of another\n/etc/ssh/ssh_host_rsa_key\n"
