"""Images of virtual machines: their form on a node, and how they are built.

An image file (type ``vm``) is one of two things: a qcow2 disk that boots by itself, as the
distributions publish with cloud-init; or a tar of ``disk.qcow2``, ``kernel``, ``initrd`` and
``boot.json``, as ``build_vm_image`` makes it, which is started without a boot loader.
On a node both are a directory with these files, read-only for QEMU and shared by all VMs.

A qcow2 file can refer to other files of the host for its contents; such an image is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, ImageBuildError, ImageError
from vetro.node.files import read_json
from vetro.node.guest.root import GuestRoot
from vetro.node.images.bootstrap import (
    SOURCE_DATE_EPOCH,
    ImageFile,
    apt_transport_options,
    build_image,
    host_sources,
)
from vetro.node.images.build_scratch import build_directory, contained
from vetro.node.images.vm_guest import prepare_root
from vetro.node.images.vm_kernel import ARGUMENTS, ROOT_LABEL, Kernel, find_kernel, initial_files

# Added to the packages that the user names: terminal and module tools, growth of the file system,
# and the agent through which the node runs commands.
VM_PACKAGES = ("e2fsprogs", "kmod", "qemu-guest-agent")
KERNEL_PACKAGES = ("linux-image-cloud-amd64", "busybox-static")
# Increase it when a change of the recipe below changes the result.
RECIPE = 5

_QCOW2 = b"QFI\xfb"
_MEMBERS = ("disk.qcow2", "kernel", "initrd", "boot.json")
_TarMode = Literal["w", "w:gz", "w:bz2", "w:xz"]
_TAR_MODES: dict[str, _TarMode] = {"none": "w", "gzip": "w:gz", "bzip2": "w:bz2", "xz": "w:xz"}
_ARGUMENTS = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*|")
_MAX_VIRTUAL = 16 * 2**40
_SPARE = 512 * 2**20
_FS_UUID = "7e7c0f5e-5d3c-4c6e-9a43-76657472006f"


@dataclass(frozen=True)
class VmImage:
    """An image on this node. ``kernel`` and ``initrd`` are ``None`` when the disk boots by itself.

    ``virtual_size``: the disk's bytes as the guest sees them.
    """

    disk: Path
    virtual_size: int
    kernel: Path | None = None
    initrd: Path | None = None
    arguments: str = ""


async def install(archive: Path, directory: Path, uuid: str, group: int = 0) -> None:
    """Put the image file ``archive`` into ``directory`` in the form that ``load`` reads.

    ``group``: may read it, besides root. Errors: ``ImageError`` ``ImageCorrupt``.
    """
    await asyncio.to_thread(_unpack, archive, directory, uuid)
    disk = directory / "disk.qcow2"
    size = await check_disk(disk, uuid)
    boot: dict[str, object] = {"virtual_size": size}
    if (directory / "kernel").exists():
        given: dict[str, object] = read_json(directory / "boot.json") or {}
        arguments = str(given.get("arguments") or ARGUMENTS)
        if not _ARGUMENTS.fullmatch(arguments):
            raise ImageError(f"Image {uuid} has unusable kernel arguments", "ImageCorrupt")
        boot["arguments"] = arguments
    (directory / "boot.json").write_text(json.dumps(boot), encoding="utf-8")
    for name in _MEMBERS:
        path = directory / name
        if path.exists():
            os.chown(path, 0, group)
            path.chmod(0o640)


def _unpack(archive: Path, directory: Path, uuid: str) -> None:
    with archive.open("rb") as file:
        magic = file.read(4)
    if magic == _QCOW2:
        # On the same file system no copy is needed.
        os.link(archive, directory / "disk.qcow2")
        return
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name not in _MEMBERS or not member.isreg():
                    raise ImageError(
                        f"Image {uuid} holds '{member.name}'; a VM image is a qcow2 disk,"
                        f" or a tar of {', '.join(_MEMBERS)}",
                        "ImageCorrupt",
                    )
                source = tar.extractfile(member)
                assert source is not None
                with (directory / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (tarfile.TarError, EOFError) as error:
        raise ImageError(
            f"Image {uuid} is neither a qcow2 disk nor a tar: {error}", "ImageCorrupt"
        ) from error
    if not (directory / "disk.qcow2").exists():
        raise ImageError(f"Image {uuid} has no disk.qcow2", "ImageCorrupt")
    if (directory / "kernel").exists() != (directory / "initrd").exists():
        raise ImageError(f"Image {uuid} has one of kernel and initrd only", "ImageCorrupt")


async def check_disk(disk: Path, uuid: str) -> int:
    """The virtual size of a qcow2 file that depends on no other file. Errors: ``ImageError``."""
    try:
        # With an explicit format, and without rights: the tool must not open files that the image
        # names.
        info = await run("qemu-img", "info", "--output=json", "-f", "qcow2", str(disk), timeout=60)
    except CommandFailed as error:
        raise ImageError(
            f"Image {uuid} is not a qcow2 disk: {error.output.strip()[-300:]}", "ImageCorrupt"
        ) from error
    facts: dict[str, Any] = json.loads(info.output)
    details = facts.get("format-specific", {}).get("data", {})
    for refused in ("backing-filename", "full-backing-filename"):
        if facts.get(refused):
            raise ImageError(
                f"Image {uuid} is based on another file ({facts[refused]}): flatten it with"
                " qemu-img convert",
                "ImageCorrupt",
            )
    if details.get("data-file"):
        raise ImageError(f"Image {uuid} has its data in another file", "ImageCorrupt")
    if details.get("encrypt") or facts.get("encrypted"):
        raise ImageError(f"Image {uuid} is encrypted", "ImageCorrupt")
    size = int(facts["virtual-size"])
    if not 0 < size <= _MAX_VIRTUAL:
        raise ImageError(f"Image {uuid} says that it has {size} bytes", "ImageCorrupt")
    return size


def load(directory: Path, uuid: str) -> VmImage:
    """The image installed in ``directory``. Errors: ``ImageError``."""
    boot = read_json(directory / "boot.json")
    disk = directory / "disk.qcow2"
    if boot is None or not disk.exists():
        raise ImageError(
            f"Image {uuid} is not an image for virtual machines on this node", "ImageNotInstalled"
        )
    kernel, initrd = directory / "kernel", directory / "initrd"
    direct = kernel.exists()
    return VmImage(
        disk,
        int(boot["virtual_size"]),
        kernel if direct else None,
        initrd if direct else None,
        str(boot.get("arguments", "")),
    )


# Building


@dataclass(frozen=True)
class VmImageFile(ImageFile):
    """A built VM image."""

    type: str = "vm"


async def build_vm_image(
    name: str,
    packages: Sequence[str] = (),
    *,
    suite: str = "bookworm",
    cache_dir: Path,
    mirrors: Sequence[str] = (),
    refresh: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> VmImageFile:
    """Build a Debian image for virtual machines, or take the one built before from ``cache_dir``.

    The root file system is that of ``build_image`` with ``VM_PACKAGES``. Errors: ``ImageBuildError``.
    """
    if os.geteuid() != 0:
        raise ImageBuildError("Building an image for virtual machines needs root")
    names = (*VM_PACKAGES, *packages)
    root = await build_image(
        name,
        names,
        suite=suite,
        cache_dir=cache_dir,
        mirrors=mirrors,
        refresh=refresh,
        on_step=on_step,
    )
    sources = "\n".join(mirrors) if mirrors else host_sources(suite, Path("/etc/apt"))
    kernel_key = _key({"suite": suite, "sources": sources, "packages": KERNEL_PACKAGES})
    key = _key({"recipe": RECIPE, "root": root.sha256, "kernel": kernel_key})
    path = cache_dir / f"{suite}-{key}.vm.tar"
    if refresh or not path.exists():
        if on_step is not None:
            on_step(f"making a disk with the kernel of {suite}")
        async with build_directory(cache_dir) as tree:
            tree.chmod(0o755)
            kernel = await unpack_kernel(suite, sources, tree)
            await assemble(root.path, kernel, path)
    digest, size = await asyncio.to_thread(_digest, path)
    return VmImageFile(name, path, digest, size, suite, tuple(sorted(packages)), "none")


async def unpack_kernel(
    suite: str, sources: str, directory: Path, packages: Sequence[str] = ()
) -> Kernel:
    """The distribution's kernel and static busybox, unpacked into ``directory/tree/wanted``.

    ``packages`` are unpacked beside them. Errors: ``ImageBuildError``.
    """
    tree = directory / "tree"
    tree.mkdir(mode=0o755)
    try:
        await run(
            *await contained("mmdebstrap", "--variant=custom", "--mode=root",
            *(f"--aptopt={line}" for line in await apt_transport_options()),
            # Unpacked from the packages' files: installing would also install a boot loader's
            # tools.
            '--setup-hook=mkdir -p "$1/wanted"',
            f"--customize-hook={_DOWNLOAD.replace('@MORE@', ' '.join(packages))}",
            "--skip=check/empty,check/qemu,cleanup/apt",
            suite, str(tree), *([] if not sources else ["-"])),
            stdin=sources.encode() if sources else None, timeout=900,
            environment={"SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH},
        )  # fmt: skip
    except CommandFailed as error:
        words = [line for line in error.output.splitlines() if line.startswith("E:")]
        raise ImageBuildError(
            f"The kernel of {suite} cannot be fetched: {'; '.join(words[-3:]) or error}"
        ) from error
    return find_kernel(tree / "wanted")


# The meta package names the current kernel; both come from the release's own index.
_DOWNLOAD = (
    "set -e; cd \"$1/wanted\"; export APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\"; "
    "kernel=$(apt-cache depends --important linux-image-cloud-amd64 "
    "| sed -n 's/^ *Depends: \\(linux-image-[0-9].*\\)$/\\1/p' | head -n 1); "
    "apt-get download -qq \"$kernel\" busybox-static @MORE@ >/dev/null; "
    'for package in *.deb; do dpkg-deb -x "$package" .; rm "$package"; done'
)  # fmt: skip


async def assemble(root_tar: Path, kernel: Kernel, target: Path) -> None:
    """Build the image file ``target`` from a root file system and a kernel. Needs root."""
    async with build_directory(target.parent) as work:
        tree = work / "root"
        tree.mkdir(mode=0o755)
        await _extract(root_tar, tree)
        await asyncio.to_thread(_add_to_root, tree, kernel)
        # Debian's is an absolute link: looked up from here it would lead to this machine's program.
        if GuestRoot(tree).exists("/sbin/depmod"):
            # Lets the guest's own tools find modules by name.
            await run("chroot", str(tree), "/sbin/depmod", kernel.version)
        raw = work / "disk.raw"
        used = await asyncio.to_thread(_size_of, tree)
        with raw.open("wb") as file:
            # Room for the file system's own tables; the file system grows into a larger disk.
            file.truncate(-(-(used * 5 // 4 + _SPARE) // 2**20) * 2**20)
        try:
            await run(
                "mke2fs", "-q", "-F", "-t", "ext4", "-L", ROOT_LABEL, "-U", _FS_UUID, "-m", "1",
                "-E", f"hash_seed={_FS_UUID},lazy_itable_init=1,lazy_journal_init=1",
                "-d", str(tree), str(raw),
                environment={
                    "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
                    "E2FSPROGS_FAKE_TIME": SOURCE_DATE_EPOCH,
                },
            )  # fmt: skip
            await run(
                "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c",
                "-o", "compression_type=zstd", str(raw), str(work / "disk.qcow2"),
            )  # fmt: skip
        except CommandFailed as error:
            raise ImageBuildError(f"The disk cannot be created: {error}") from error
        (work / "initrd").write_bytes(await asyncio.to_thread(initial_files, kernel))
        (work / "boot.json").write_text(json.dumps({"arguments": ARGUMENTS}), encoding="utf-8")
        result = work / "image.tar"
        members = {name: kernel.image if name == "kernel" else work / name for name in _MEMBERS}
        await asyncio.to_thread(_pack, members, result)
        os.replace(result, target)


async def _extract(root_tar: Path, tree: Path) -> None:
    try:
        await run(
            "tar", "--extract", f"--file={root_tar}", f"--directory={tree}", "--numeric-owner",
            "--preserve-permissions", "--anchored", "--exclude=./dev/*", "--exclude=dev/*",
            "--xattrs", "--xattrs-include=security.capability",
        )  # fmt: skip
    except CommandFailed as error:
        raise ImageBuildError(f"{root_tar} is not a root file system in a tar: {error}") from error


def _add_to_root(tree: Path, kernel: Kernel) -> None:
    root = GuestRoot(tree)
    prepare_root(root)
    # Debian's /lib is a link into /usr; the directory is resolved as the guest would resolve it.
    library = root.resolve("/lib") or "/usr/lib"
    modules = tree / library.lstrip("/") / "modules" / kernel.version
    modules.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(kernel.modules, modules, symlinks=True)
    for name in ("build", "source"):
        (modules / name).unlink(missing_ok=True)
    # The package's own start script needs udev; init keeps the agent running (``vm_guest``).
    for script in tree.glob("etc/rc[2-5].d/S*qemu-guest-agent"):
        script.unlink()


def _size_of(tree: Path) -> int:
    """The size in whole blocks: each small file occupies one."""
    return sum(
        -(-entry.lstat().st_size // 4096) * 4096 + 512
        for entry in tree.rglob("*")
        if not entry.is_symlink()
    )


def _pack(members: Mapping[str, Path], target: Path, mode: _TarMode = "w") -> None:
    with tarfile.open(target, mode) as tar:
        for name, path in members.items():
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            member.mtime = int(SOURCE_DATE_EPOCH)
            member.mode = 0o644
            with path.open("rb") as file:
                tar.addfile(member, file)


async def export(disk: Path, image: VmImage, target: Path, compression: str) -> None:
    """Write an image file of a stopped VM's ``disk`` over ``image``; it is self-contained.

    It boots as ``image`` does. ``compression``: ``none``, ``gzip``, ``bzip2`` or ``xz``.
    Errors: ``ImageError``.
    """
    if compression not in _TAR_MODES:
        raise ImageError(
            f"'{compression}' is not a compression: {', '.join(_TAR_MODES)}", "InvalidPayload"
        )
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as scratch:
        work = Path(scratch)
        flat = work / "disk.qcow2"
        try:
            await run(
                "qemu-img", "convert", "-f", "qcow2", "-O", "qcow2", "-c",
                "-o", "compression_type=zstd", str(disk), str(flat), timeout=3600,
            )  # fmt: skip
        except CommandFailed as error:
            code = "ResourceExhausted" if "No space left" in error.output else ""
            raise ImageError(
                f"The disk cannot be copied: {error.output.strip()[-500:]}", code
            ) from error
        if image.kernel is None and compression == "none":
            os.replace(flat, target)
            return
        members = {"disk.qcow2": flat}
        if image.kernel is not None and image.initrd is not None:
            boot = work / "boot.json"
            boot.write_text(json.dumps({"arguments": image.arguments}), encoding="utf-8")
            members |= {"kernel": image.kernel, "initrd": image.initrd, "boot.json": boot}
        await asyncio.to_thread(_pack, members, target, _TAR_MODES[compression])


def _key(inputs: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
