"""Images of virtual machines: what a node takes, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from vetro.node.errors import ImageBuildError, ImageError
from vetro.node.guest.instance_files import Init
from vetro.node.guest.root import GuestRoot
from vetro.node.images import vm_guest, vm_images

UUID = "11111111-1111-4111-8111-111111111111"


def qcow2(path: Path, *options: str, size: str = "8M") -> bytes:
    """A disk made by the tool itself."""
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), size], check=True
    )
    return path.read_bytes()


def archive(path: Path, **members: bytes) -> Path:
    """A tar with these files (``disk_qcow2`` is ``disk.qcow2``)."""
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where an image is installed."""
    directory = tmp_path / "image"
    directory.mkdir()
    return directory


@pytest.mark.root
async def test_a_disk_that_boots_by_itself(tmp_path: Path, place: Path) -> None:
    """The image is stored once, readable only by QEMU's group, and has no kernel."""
    file = tmp_path / "cloud.qcow2"
    qcow2(file)
    await vm_images.install(file, place, UUID, group=64055)
    image = vm_images.load(place, UUID)
    assert (image.virtual_size, image.kernel, image.initrd) == (8 << 20, None, None)
    state = image.disk.stat()
    assert (state.st_uid, state.st_gid, state.st_mode & 0o777) == (0, 64055, 0o640)
    assert state.st_ino == file.stat().st_ino


@pytest.mark.root
async def test_a_disk_with_its_kernel(tmp_path: Path, place: Path) -> None:
    """The tar of ``vetro image build``: kernel, initial file system, arguments."""
    disk = qcow2(tmp_path / "d.qcow2")
    file = archive(
        tmp_path / "i.tar", disk_qcow2=disk, kernel=b"k", initrd=b"i",
        boot_json=json.dumps({"arguments": "console=ttyS0 x=1", "virtual_size": 1}).encode(),
    )  # fmt: skip
    await vm_images.install(file, place, UUID)
    image = vm_images.load(place, UUID)
    # The size is the disk's own, whatever the file says.
    assert (image.virtual_size, image.arguments) == (8 << 20, "console=ttyS0 x=1")
    assert image.kernel is not None
    assert image.kernel.read_bytes() == b"k"


@pytest.mark.root
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: archive(d / "i.tar", disk_qcow2=b"no disk"), "not a qcow2 disk"),
        (
            lambda d: archive(d / "i.tar", disk_qcow2=qcow2(d / "d"), kernel=b"k"),
            "one of kernel and initrd",
        ),
        (
            lambda d: archive(
                d / "i.tar", disk_qcow2=qcow2(d / "d"), kernel=b"k", initrd=b"i",
                boot_json=b'{"arguments": "init=/bin/sh\\nroot"}',
            ),
            "kernel arguments",
        ),
        (lambda d: _on_another(d), "based on another file"),
        (lambda d: _data_elsewhere(d), "data in another file"),
        (lambda d: _encrypted(d), "encrypted"),
        (lambda d: _larger(d), "not a qcow2 disk|has .* bytes"),
    ],
    ids=["no-disk", "half-kernel", "arguments", "backing", "data-file", "encrypted", "huge"],
)  # fmt: skip
async def test_a_file_that_is_no_image_of_its_own_is_refused(
    tmp_path: Path, place: Path, make: Any, words: str
) -> None:
    """A disk that reads other files of the host would show them to the guest."""
    with pytest.raises(ImageError, match=words) as refused:
        await vm_images.install(make(tmp_path), place, UUID)
    assert refused.value.rest_code == "ImageCorrupt"


def _on_another(directory: Path) -> Path:
    qcow2(directory / "base")
    qcow2(directory / "i.qcow2", "-b", "/etc/passwd", "-F", "raw")
    return directory / "i.qcow2"


def _data_elsewhere(directory: Path) -> Path:
    qcow2(directory / "i.qcow2", "-o", f"data_file={directory / 'data'}")
    return directory / "i.qcow2"


def _encrypted(directory: Path) -> Path:
    """The header says AES (bytes 32-35): making a LUKS key measures the processor and may fail."""
    disk = bytearray(qcow2(directory / "i.qcow2"))
    disk[32:36] = (1).to_bytes(4, "big")
    (directory / "i.qcow2").write_bytes(disk)
    return directory / "i.qcow2"


def _larger(directory: Path) -> Path:
    qcow2(directory / "i.qcow2", "-o", "cluster_size=2M", size="17T")
    return directory / "i.qcow2"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"disk_qcow2": b"x", "etc/passwd": b"x"}, "holds 'etc/passwd'"),
        ({"kernel": b"x", "initrd": b"x"}, r"no disk\.qcow2"),
    ],
)
async def test_a_tar_of_something_else_is_refused(
    tmp_path: Path, place: Path, members: dict[str, bytes], words: str
) -> None:
    """Nothing but the four files is ever unpacked."""
    with pytest.raises(ImageError, match=words):
        await vm_images.install(archive(tmp_path / "i.tar", **members), place, UUID)
    assert not (place / "etc").exists()


async def test_links_and_noise_are_refused(tmp_path: Path, place: Path) -> None:
    """A link with an allowed name is not a file; bytes that are not an archive are not an image."""
    with tarfile.open(tmp_path / "i.tar", "w") as tar:
        info = tarfile.TarInfo("disk.qcow2")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(ImageError, match=r"holds 'disk\.qcow2'"):
        await vm_images.install(tmp_path / "i.tar", place, UUID)
    (tmp_path / "noise").write_bytes(os.urandom(2048))
    with pytest.raises(ImageError, match="neither"):
        await vm_images.install(tmp_path / "noise", place, UUID)
    assert list(place.iterdir()) == []


def test_an_image_of_containers_is_not_one_for_machines(place: Path) -> None:
    """The error names the image."""
    (place / "rootfs").mkdir()
    with pytest.raises(ImageError, match=f"{UUID} is not an image for virtual") as refused:
        vm_images.load(place, UUID)
    assert refused.value.rest_code == "ImageNotInstalled"


async def test_building_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root the command fails before any download."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ImageBuildError, match="needs root"):
        await vm_images.build_vm_image("x", cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "init"),
    [
        (["lib/systemd/systemd"], Init.SYSTEMD),
        (["etc/init.d/rc"], Init.SYSVINIT),
    ],
)
def test_each_init_gets_what_a_machine_needs(tmp_path: Path, files: list[str], init: Init) -> None:
    """systemd has a unit; the others get boot, stop, power button, console and both agents."""
    root = tmp_path / "root"
    for name in (*files, "sbin/init"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
        (root / name).chmod(0o755)
    if init is Init.SYSTEMD:
        (root / "sbin/init").unlink()
        (root / "sbin/init").symlink_to("/lib/systemd/systemd")
    assert vm_guest.prepare_root(GuestRoot(root)) is init
    if init is Init.SYSTEMD:
        unit = root / "etc/systemd/system/multi-user.target.wants/vetro-guest.service"
        assert unit.is_symlink()
        assert not (root / "etc/inittab").exists()
        return
    table = (root / "etc/inittab").read_text()
    for script in ("boot", "shutdown", "power-button", "start-agent", "qemu-agent"):
        assert f"/opt/vetro/{script}" in table
        path = root / "opt/vetro" / script
        assert path.stat().st_mode & 0o111
        assert subprocess.run(["sh", "-n", str(path)]).returncode == 0
    # An event device gives whole events only.
    assert "head -c" not in (root / "opt/vetro/power-button").read_text()
