"""The kernel of VM images and the small file system in front of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vetro.node.errors import ImageBuildError
from vetro.node.images import vm_kernel

VERSION = "6.1.0-10-cloud-amd64"


def module(directory: Path, name: str, needs: str = "", soft: str = "") -> Path:
    """A module file that says what it needs."""
    path = directory / f"{name}.ko"
    path.parent.mkdir(parents=True, exist_ok=True)
    info = [b"\x7fELF", b"license=GPL", f"depends={needs}".encode()]
    if soft:
        info.append(f"softdep={soft}".encode())
    path.write_bytes(b"\0".join(info) + b"\0")
    return path


def tree(directory: Path, *, without: str = "") -> Path:
    """An unpacked kernel package and busybox."""
    (directory / "boot").mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin/busybox").write_bytes(b"busybox")
    (directory / f"boot/vmlinuz-{VERSION}").write_bytes(b"kernel")
    modules = directory / "lib/modules" / VERSION
    for name in ("virtio_blk", "virtio_net", "virtio_scsi", "sd_mod", "isofs", "evdev", "button"):
        if name != without:
            module(modules / "kernel", name, "virtio" if name.startswith("virtio") else "")
    module(modules / "kernel", "virtio")
    if without != "virtio_pci":
        # A part of this kernel itself.
        (modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    return directory


def test_modules_come_after_what_they_need(tmp_path: Path) -> None:
    """Also what is only wished for before, not what is wished for after; '-' and '_' are one."""
    files = {
        path.stem: path
        for path in (
            module(tmp_path, "ext4", "mbcache,jbd2", "pre: crc32c post: later"),
            module(tmp_path, "jbd2", ""),
            module(tmp_path, "mbcache"),
            module(tmp_path, "crc32c"),
            module(tmp_path, "later"),
            module(tmp_path, "virtio-rng", "virtio_ring"),
            module(tmp_path, "virtio_ring"),
        )
    }
    order = [path.stem for path in vm_kernel.module_order(files, ["ext4", "virtio_rng", "absent"])]
    assert order == ["mbcache", "jbd2", "crc32c", "ext4", "virtio_ring", "virtio-rng"]


def test_a_circle_of_modules_is_refused(tmp_path: Path) -> None:
    """The error names the modules of the circle."""
    files = {name: module(tmp_path, name, other) for name, other in (("a", "b"), ("b", "a"))}
    with pytest.raises(ImageBuildError, match="a → b"):
        vm_kernel.module_order(files, ["a"])


def test_the_newest_kernel_is_taken(tmp_path: Path) -> None:
    """By its numbers, not by its letters; modules may be below /usr as well."""
    root = tree(tmp_path / "tree")
    (root / "boot/vmlinuz-6.1.0-9-cloud-amd64").write_bytes(b"old")
    kernel = vm_kernel.find_kernel(root)
    assert (kernel.version, kernel.image.read_bytes()) == (VERSION, b"kernel")
    (root / "usr").mkdir()
    shutil.move(root / "lib", root / "usr/lib")
    assert vm_kernel.find_kernel(root).modules == root / "usr/lib/modules" / VERSION


@pytest.mark.parametrize(
    ("removed", "words"),
    [("boot", "no kernel"), ("lib", "no modules"), ("bin", "no busybox")],
)
def test_what_is_missing_in_a_kernel_is_named(tmp_path: Path, removed: str, words: str) -> None:
    """Kernel, modules, busybox."""
    root = tree(tmp_path / "tree")
    shutil.rmtree(root / removed)
    with pytest.raises(ImageBuildError, match=words):
        vm_kernel.find_kernel(root)


@pytest.mark.parametrize("name", ["virtio_pci", "virtio_net", "sd_mod", "isofs", "button"])
def test_a_kernel_that_cannot_serve_a_vm_is_refused(tmp_path: Path, name: str) -> None:
    """Without disks, volumes, interfaces, the seed or a power button a VM would be lost."""
    kernel = vm_kernel.find_kernel(tree(tmp_path / "tree", without=name))
    with pytest.raises(ImageBuildError, match=f"no module {name}"):
        vm_kernel.initial_files(kernel)


def test_packed_modules_are_refused(tmp_path: Path) -> None:
    """Our initial file system loads plain files."""
    root = tree(tmp_path / "tree")
    for path in root.rglob("*.ko"):
        path.rename(path.with_suffix(".ko.xz"))
    with pytest.raises(ImageBuildError, match="packed"):
        vm_kernel.initial_files(vm_kernel.find_kernel(root))


def test_the_initial_file_system_is_one_that_cpio_reads(tmp_path: Path) -> None:
    """Program, modules in their order and a script that is shell; the same input, the same bytes."""
    kernel = vm_kernel.find_kernel(tree(tmp_path / "tree"))
    archive = vm_kernel.initial_files(kernel)
    assert archive == vm_kernel.initial_files(kernel)
    assert len(archive) % 4 == 0
    unpacked = read_cpio(archive)
    assert unpacked["bin/busybox"] == (0o100755, b"busybox")
    order = unpacked["modules/order"][1].decode().split()
    assert order.index("virtio.ko") < order.index("virtio_blk.ko")
    assert {f"modules/{name}" for name in order} <= set(unpacked)
    assert unpacked["proc"] == (0o040755, b"")
    mode, script = unpacked["init"]
    assert mode == 0o100755
    assert subprocess.run(["sh", "-n"], input=script).returncode == 0


def read_cpio(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and content by name, of a 'newc' archive."""
    found: dict[str, tuple[int, bytes]] = {}
    position = 0
    while True:
        assert data[position : position + 6] == b"070701"
        fields = [
            int(data[position + 6 + 8 * n : position + 14 + 8 * n], 16) for n in range(13)
        ]  # fmt: skip
        mode, size, length = fields[1], fields[6], fields[11]
        start = position + 110
        name = data[start : start + length - 1].decode()
        body = -(-(start + length) // 4) * 4
        position = -(-(body + size) // 4) * 4
        if name == "TRAILER!!!":
            assert position == len(data)
            return found
        found[name] = (mode, data[body : body + size])
