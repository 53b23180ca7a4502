"""Archives of root file systems: safe unpacking, packing, and records of removed files.

A file that an image removes from its origin is recorded as in OCI layers: an empty file
``.wh.<name>`` says that ``<name>`` is removed, ``.wh..wh..opq`` that the origin's directory is
hidden.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vetro.node.commands import ending_with_us, run
from vetro.node.errors import CommandFailed, ImageError
from vetro.node.files import remove_tree
from vetro.node.guest.former_machine import OF_ONE_MACHINE
from vetro.node.guest.root import ID_COUNT, GuestRoot
from vetro.node.storage.room import is_full

WHITEOUT = ".wh."
_NO_ROOM = 1 << 16
_LOOK_SECONDS = 0.2
OPAQUE = ".wh..wh..opq"
_OVERLAY_OPAQUE = "trusted.overlay.opaque"

_MAGIC = {
    b"\x28\xb5\x2f\xfd": ["zstd", "-dc"],
    b"\x1f\x8b": ["gzip", "-dc"],
    b"\xfd7zXZ\x00": ["xz", "-dc"],
    b"BZh": ["bzip2", "-dc"],
}
COMPRESSORS = {
    "none": None,
    "gzip": ["gzip", "-c"],
    "bzip2": ["bzip2", "-c"],
    "xz": ["xz", "-c", "-T0"],
    "zstd": ["zstd", "-c", "-q"],
}


async def unpack(
    archive: Path,
    root: Path,
    uuid: str,
    id_base: int,
    progress: Callable[[float], None] = lambda _share: None,
) -> None:
    """Unpack in the containers' user namespace. ``progress`` is called with the share read so far.

    Owners are shifted, and an archive that tries to write outside is refused by the kernel: the
    unpacking process has no rights on the host. It cannot create device nodes; containers get
    theirs from LXC. Errors: ``ImageError`` (``ImageCorrupt``, ``ResourceExhausted``).
    """
    with archive.open("rb") as file:
        magic = file.read(8)
    decompress = next((c for start, c in _MAGIC.items() if magic.startswith(start)), ["cat"])
    argv = ["lxc-usernsexec", "-m", f"b:0:{id_base}:{ID_COUNT}", "--", "tar", "--extract",
            "--file=-", "--numeric-owner", "--preserve-permissions", "--delay-directory-restore",
            "--anchored", "--exclude=./dev/*", "--exclude=dev/*",
            "--xattrs", "--xattrs-include=security.capability"]  # fmt: skip
    reader, writer = os.pipe()
    # Kept open while it is read: its position, which the reading process moves, is the progress.
    file = archive.open("rb")
    try:
        source = await asyncio.create_subprocess_exec(
            *ending_with_us(*decompress), stdin=file, stdout=writer, stderr=subprocess.DEVNULL
        )
    except BaseException:
        file.close()
        raise
    finally:
        os.close(writer)
    size = max(1, archive.stat().st_size)
    looking = asyncio.create_task(
        _look(lambda: progress(os.lseek(file.fileno(), 0, os.SEEK_CUR) / size))
    )
    try:
        with os.fdopen(reader, "rb") as stream:
            await _pipe_into(stream, argv, root)
    except CommandFailed as error:
        await _end(source)
        # On a full disk, tar reports only a short write.
        room = os.statvfs(root)
        # (btrfs does not count inodes: both numbers are 0.)
        no_inode = room.f_files > 0 and room.f_ffree == 0
        if is_full(error.output) or room.f_bavail * room.f_frsize < _NO_ROOM or no_inode:
            raise ImageError(
                f"Image {uuid} does not fit: the disk that holds {root.parent.parent} is full",
                "ResourceExhausted",
            ) from error
        raise ImageError(
            f"Image {uuid} is not a root file system in a tar: {error.output.strip()[-500:]}",
            "ImageCorrupt",
        ) from error
    except BaseException:
        await _end(source)
        raise
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        file.close()
    # It ends by itself, also when tar needs no more data. (Killing it here would be wrong: a signal
    # to a process that has just ended takes its exit status away from the event loop.)
    status = await source.wait()
    if status > 0:
        raise ImageError(
            f"Image {uuid} is truncated or damaged ({decompress[0]} says so)", "ImageCorrupt"
        )


async def _look(at: Callable[[], None]) -> None:
    while True:
        at()
        await asyncio.sleep(_LOOK_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process whose exit status is no longer needed."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def _pipe_into(stream: Any, argv: list[str], cwd: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *ending_with_us(*argv),
        stdin=stream,
        stdout=subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        await _end(process)
        raise
    if process.returncode:
        raise CommandFailed(argv, process.returncode, errors.decode("utf-8", "replace"))


def mark_whiteouts(root: Path) -> int:
    """Turn ``.wh.`` files below ``root`` into the marks of an overlay; returns their number."""
    count = 0
    for directory, _names, files, handle in os.fwalk(root, topdown=False, follow_symlinks=False):
        for mark in (name for name in files if name.startswith(WHITEOUT)):
            count += 1
            os.unlink(mark, dir_fd=handle)
            if mark == OPAQUE:
                os.setxattr(directory, _OVERLAY_OPAQUE, b"y")
            elif name := _marked(mark):
                os.mknod(name, stat.S_IFCHR, device=os.makedev(0, 0), dir_fd=handle)
    return count


async def merge_layer(layer: Path, root: Path) -> None:
    """Apply an unpacked layer to a copy of its origin: remove the entries it marks, copy the rest.

    Errors: ``CommandFailed``.
    """
    await asyncio.to_thread(_clear_way, layer, root)
    await run(
        "cp", "--archive", "--force", f"{layer}/.", str(root), timeout=3600, ends_with_us=True
    )


def _clear_way(layer: Path, root: Path) -> None:
    """Remove from ``root`` what ``layer`` marks as removed, and entries of another type.

    After that no directory of the layer meets a link in the root, so copying follows no link.
    """
    for directory, names, files in os.walk(layer, topdown=True, followlinks=False):
        target = root / Path(directory).relative_to(layer)
        marks = [name for name in files if name.startswith(WHITEOUT)]
        for mark in marks:
            Path(directory, mark).unlink()
        if OPAQUE in marks and target.is_dir():
            for entry in list(target.iterdir()):
                _remove(entry)
        for name in filter(None, map(_marked, marks)):
            _remove(target / name)
        for name in [*names, *(file for file in files if file not in marks)]:
            old, new = target / name, Path(directory, name)
            if os.path.lexists(old) and _is_directory(old) != _is_directory(new):
                _remove(old)


def _marked(mark: str) -> str:
    """The name that a whiteout marks as removed; '' if it marks none."""
    name = mark[len(WHITEOUT) :]
    return "" if name in ("", ".", "..") or mark == OPAQUE else name


def _is_directory(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if _is_directory(path):
        remove_tree(path)
    else:
        path.unlink()


def prepare_layer(upper: Path, target: Path) -> None:
    """Copy an overlay's writable layer, with its marks turned into ``.wh.`` files."""
    shutil.copytree(upper, target, symlinks=True, ignore=_only_ordinary, copy_function=_copy)
    for directory, names, files in os.walk(upper, followlinks=False):
        inside = target / Path(directory).relative_to(upper)
        _copy_owner(Path(directory), inside)
        for name in [*names, *files]:
            path = Path(directory, name)
            if is_whiteout(path):
                (inside / f"{WHITEOUT}{name}").touch()
        with contextlib.suppress(OSError):
            if os.getxattr(directory, _OVERLAY_OPAQUE) == b"y":
                (inside / OPAQUE).touch()


def give_away(tree: Path, owner: int) -> None:
    """Give our marks to the container's root: otherwise the packing process could not read them."""
    for directory, _names, files in os.walk(tree, followlinks=False):
        for name in files:
            if name.startswith(WHITEOUT):
                os.chown(Path(directory, name), owner, owner, follow_symlinks=False)


def is_whiteout(path: Path) -> bool:
    """Whether an overlay marks this name as removed."""
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _only_ordinary(directory: str, names: list[str]) -> list[str]:
    """Names that are not copied: whiteouts, sockets, devices."""
    ordinary = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [
        name
        for name in names
        if not any(check(Path(directory, name).lstat().st_mode) for check in ordinary)
    ]


def _copy(source: str, target: str) -> None:
    shutil.copy2(source, target, follow_symlinks=False)
    _copy_owner(Path(source), Path(target))


def _copy_owner(source: Path, target: Path) -> None:
    status = source.lstat()
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        target.chmod(stat.S_IMODE(status.st_mode))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


async def pack(
    root: Path, target: Path, *, compression: str, id_base: int, without: Sequence[str] = ()
) -> None:
    """Write the tree at ``root`` as a tar with the owners that a container sees.

    ``without``: patterns below the root that are left out.
    Errors: ``ImageError`` (``ResourceExhausted`` when the disk is full).
    """
    if compression not in COMPRESSORS:
        raise ImageError(
            f"'{compression}' is not a compression: {', '.join(COMPRESSORS)}", "InvalidPayload"
        )
    compressor = COMPRESSORS[compression]
    tar = ["tar", "--create", "--file=-", "--numeric-owner", "--sort=name", "--one-file-system",
           "--xattrs", "--xattrs-include=security.capability",
           "--anchored", "--no-wildcards-match-slash", "--exclude=./dev/*", "--exclude=./proc/*",
           "--exclude=./sys/*", *(f"--exclude=./{pattern}" for pattern in without), "."]  # fmt: skip
    if id_base:
        tar = ["lxc-usernsexec", "-m", f"b:0:{id_base}:{ID_COUNT}", "--", *tar]
    reader, writer = os.pipe()
    started: list[asyncio.subprocess.Process] = []
    try:
        try:
            packing = await asyncio.create_subprocess_exec(
                *ending_with_us(*tar), cwd=root, stdout=writer, stderr=asyncio.subprocess.PIPE
            )
            started.append(packing)
        finally:
            os.close(writer)
        with os.fdopen(reader, "rb") as stream, target.open("wb") as file:
            squeezing = await asyncio.create_subprocess_exec(
                *ending_with_us(*(compressor or ["cat"])), stdin=stream, stdout=file,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            started.append(squeezing)
        (_, tar_words), (_, words) = await asyncio.gather(
            packing.communicate(), squeezing.communicate()
        )
    except BaseException:
        for process in started:
            await _end(process)
        raise
    said = (tar_words + words).decode("utf-8", "replace")
    # 1: a file changed while it was read, which also happens to logs of a frozen copy.
    if packing.returncode not in (0, 1) or squeezing.returncode:
        code = "ResourceExhausted" if is_full(said) else "ImageBuildFailed"
        raise ImageError(f"{root} could not be packed: {said.strip()[-2000:]}", code)


async def write_image(root: GuestRoot, target: Path, *, compression: str) -> dict[str, object]:
    """Export the root without what belongs to its machine; returns additions to its manifest."""
    await pack(
        root.path, target, compression=compression, id_base=root.shift, without=OF_ONE_MACHINE
    )
    return {"type": "lxc-rootfs", "os": "linux"}


async def write_layer(
    directory: Path, root: GuestRoot, origin: str, target: Path, *, compression: str
) -> dict[str, object]:
    """Export what a container in ``directory`` wrote over ``origin``, which the manifest names."""
    layer = directory / "layer"
    await asyncio.to_thread(remove_tree, layer)
    try:
        await asyncio.to_thread(prepare_layer, directory / "upper", layer)
        await asyncio.to_thread(give_away, layer, root.shift)
        await pack(
            layer, target, compression=compression, id_base=root.shift, without=OF_ONE_MACHINE
        )
    finally:
        await asyncio.to_thread(remove_tree, layer)
    return {"type": "lxc-rootfs", "os": "linux", "origin": origin}
