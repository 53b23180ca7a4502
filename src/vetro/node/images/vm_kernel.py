"""The kernel of VM images, and the small initial file system that starts first.

The kernel and a static busybox come from the distribution's packages, unpacked and not installed:
no boot loader and no initial file system of the distribution are needed. Vetro's own has the
modules a virtual machine needs and a shell script that finds the root file system by its label,
runs the seed's script (``vetro.node.drivers.qemu.seed``) and starts init. It takes well under a
second.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vetro.node.errors import ImageBuildError

ROOT_LABEL = "vetro-root"
SEED_LABEL = "cidata"
ARGUMENTS = "console=ttyS0 quiet panic=10"

# Modules for a guest's devices, in any order: their dependencies are added. Modules built into the
# kernel are skipped silently.
_MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "virtio-rng", "virtio_balloon",
    "ext4", "crc32c_generic", "isofs", "af_packet", "button", "evdev", "qemu_fw_cfg",
    # Volumes: nothing in a built image loads what a disk needs that is plugged in later.
    "virtio_scsi", "sd_mod",
)  # fmt: skip
_REQUIRED = (
    "virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "sd_mod", "isofs", "evdev", "button",
)  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """A kernel with its modules, and the program of the initial file system.

    ``modules``: the directory of one version below ``lib/modules``.
    """

    version: str
    image: Path
    modules: Path
    busybox: Path


def find_kernel(tree: Path) -> Kernel:
    """The newest kernel in an unpacked tree of packages. Errors: ``ImageBuildError``."""
    images = sorted((tree / "boot").glob("vmlinuz-*"), key=lambda path: _version_key(path.name))
    if not images:
        raise ImageBuildError(f"There is no kernel (boot/vmlinuz-*) in {tree}")
    version = images[-1].name.removeprefix("vmlinuz-")
    modules = next(
        (
            path
            for path in (tree / "lib/modules" / version, tree / "usr/lib/modules" / version)
            if path.is_dir()
        ),
        None,
    )
    if modules is None:
        raise ImageBuildError(f"Kernel {version} has no modules in {tree}")
    busybox = next(
        (path for path in (tree / "bin/busybox", tree / "usr/bin/busybox") if path.is_file()), None
    )
    if busybox is None:
        raise ImageBuildError(f"There is no busybox in {tree}: the package busybox-static has it")
    return Kernel(version, images[-1], modules, busybox)


def _version_key(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def module_order(files: Mapping[str, Path], wanted: Sequence[str]) -> list[Path]:
    """The files to load, each after its dependencies. ``files``: module name → file.

    Names with '-' and '_' are the same module. Errors: ``ImageBuildError`` for a cycle.
    """
    by_name = {name.replace("-", "_"): path for name, path in files.items()}
    order: list[Path] = []
    pending: list[str] = []

    def add(name: str) -> None:
        name = name.replace("-", "_")
        path = by_name.get(name)
        if path is None or path in order:
            return
        if name in pending:
            raise ImageBuildError(f"Kernel modules depend on each other: {' → '.join(pending)}")
        pending.append(name)
        for other in _dependencies(path):
            add(other)
        pending.pop()
        order.append(path)

    for name in wanted:
        add(name)
    return order


def _dependencies(path: Path) -> list[str]:
    """The dependencies that the module file declares (in its ``.modinfo``), in its order."""
    data = path.read_bytes()
    found: list[str] = []
    for field in (rb"depends", rb"softdep"):
        for match in re.finditer(rb"(?:^|\0)" + field + rb"=([^\0]*)\0", data):
            words = re.sub(r"\bpost:.*", "", match[1].decode("ascii", "replace"))
            found += [word for word in re.split(r"[,\s]+", words.replace("pre:", " ")) if word]
    return found


def initial_files(kernel: Kernel) -> bytes:
    """The initial file system (a cpio archive) for ``kernel``. Errors: ``ImageBuildError``."""
    files = {path.stem: path for path in sorted(kernel.modules.rglob("*.ko"))}
    if not files:
        raise ImageBuildError(
            f"The modules of kernel {kernel.version} are packed: only plain '.ko' files are served"
        )
    built_in = kernel.modules / "modules.builtin"
    inside = (
        {Path(line).stem.replace("-", "_") for line in built_in.read_text().splitlines()}
        if built_in.exists()
        else set[str]()
    )
    known = {name.replace("-", "_") for name in files} | inside
    missing = [name for name in _REQUIRED if name not in known]
    if missing:
        raise ImageBuildError(f"Kernel {kernel.version} has no module {', '.join(missing)}")
    archive = CpioArchive()
    for directory in ("bin", "dev", "modules", "proc", "root", "seed", "sys", "etc"):
        archive.directory(directory)
    archive.file("bin/busybox", kernel.busybox.read_bytes(), 0o755)
    order = module_order(files, _MODULES)
    for path in order:
        archive.file(f"modules/{path.name}", path.read_bytes(), 0o644)
    archive.file("modules/order", "".join(f"{path.name}\n" for path in order).encode(), 0o644)
    archive.file("init", _INIT.encode(), 0o755)
    return archive.finish()


class CpioArchive:
    """A cpio archive in the kernel's format (``newc``): the same input gives the same bytes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._count = 0

    def directory(self, name: str) -> None:
        """Add a directory."""
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, mode: int) -> None:
        """Add a file that belongs to root."""
        self._add(name, stat.S_IFREG | mode, data)

    def finish(self) -> bytes:
        """The whole archive."""
        self._add("TRAILER!!!", 0, b"")
        return bytes(self._data)

    def _add(self, name: str, mode: int, data: bytes) -> None:
        self._count += 1
        raw = name.encode() + b"\0"
        #        inode        mode  uid gid links mtime size     devices     name     checksum
        fields = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        self._data += b"070701" + b"".join(b"%08x" % field for field in fields) + raw
        self._pad()
        self._data += data
        self._pad()

    def _pad(self) -> None:
        self._data += b"\0" * (-len(self._data) % 4)


_INIT = f"""\
#!/bin/busybox sh
# The first process of a Vetro VM: find the root file system, do what the seed says, hand over.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
fail() {{
  echo "vetro: $*" > /dev/console
  poweroff -f
}}
while read -r module; do
  insmod "/modules/$module" 2>/dev/null
done < /modules/order
root=
for round in 1 2 3 4 5 6 7 8 9 10; do
  root=$(findfs LABEL={ROOT_LABEL} 2>/dev/null) && break
  sleep 1
done
seed=$(findfs LABEL={SEED_LABEL} 2>/dev/null)
[ -n "$root" ] || fail "no disk has a file system with the label {ROOT_LABEL}"
mount -t ext4 -o rw,relatime "$root" /root || fail "the root file system cannot be mounted"
if [ -n "$seed" ] && mount -t iso9660 -o ro "$seed" /seed; then
  ROOT=/root ROOT_DEVICE=$root
  [ ! -f /seed/vetro/start ] || . /seed/vetro/start
  umount /seed
fi
mkdir -p /root/dev /root/proc /root/sys /root/run
mount --move /dev /root/dev
mount --move /proc /root/proc
mount --move /sys /root/sys
for init in /sbin/init /opt/vetro/init /bin/sh; do
  # A link may lead to a place that exists only below the new root.
  if [ -e "/root$init" ] || [ -L "/root$init" ]; then
    exec switch_root /root "$init"
  fi
done
fail "the image has no init"
"""
