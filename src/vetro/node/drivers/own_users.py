"""Users of their own for instances of the driver ``process``, where the agent runs as root.

A plan is a program of whoever may deploy, so it never runs as root. Each project has a user id among
root's subordinate ids, which no account of the machine has; its programs have no capabilities and no
way to gain any. They see the machine's files as any stranger does, but nothing of the installation: in
place of its directories they see their own instance's directory only, in a mount namespace (decision 0811).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from vetro.node.commands import run
from vetro.node.drivers.id_ranges import IdRanges, images_range, project_ranges
from vetro.node.errors import ConfigurationError
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm

_SUBORDINATE = Path("/etc/subuid"), Path("/etc/subgid")
# The instance's directory is held open while empty file systems cover what is hidden, the way to it among
# that, and is put back at its own name: neither modes above it nor files beside it matter to the instance.
_ENTER = """\
set -e
root=$1 id=$2 where=$3
shift 3
umask 022
exec 9< "$root"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mount -t tmpfs -o mode=0711,size=1m,nosuid,nodev none "$1"
  elif [ -e "$1" ]; then mount --bind /dev/null "$1"; fi
  shift
done
shift
mkdir -p "$root"
mount --no-canonicalize --bind /proc/self/fd/9 "$root"
mount -o remount,bind,nosuid,nodev "$root"
exec 9<&-
cd "$where"
exec setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all --bounding-set=-all \\
  --no-new-privs -- "$@"
"""
_PROBE = "open('written', 'w').close()"


class OwnUsers:
    """The user of each project on this machine."""

    def __init__(self, store: MachineStore, hidden: Sequence[Path] = ()) -> None:
        self._store = store
        self._hidden = hidden
        self._ids: IdRanges | None = None

    async def open(self, python: str) -> None:
        """Take ids, and try how an instance will run. Errors: ``ConfigurationError``."""
        try:
            base = images_range(*_SUBORDINATE)
            ranges = project_ranges(*_SUBORDINATE, base)
        except OSError as error:
            raise ConfigurationError(
                f"Instances of the driver process cannot have users of their own: {error.filename}"
                f" cannot be used: {error.strerror}. Run the agent as a plain user, or in containers"
            ) from error
        self._ids = IdRanges(self._data / "id-ranges.json", base, ranges, translated=True)
        with TemporaryDirectory(dir=self._store.directory, prefix=".probe-") as name:
            place = Path(name)
            os.chown(place, base, base)
            command = self._command(place, base, [python, "-c", _PROBE], place)
            tried = await run(*command, check=False)
        if tried.status != 0:
            said = (tried.errors or tried.output).strip().splitlines()
            raise ConfigurationError(
                "Instances of the driver process cannot have users of their own on this machine:"
                f" {said[-1] if said else f'status {tried.status}'}. Every user must be able to run"
                f" {python}, and root to mount; else run the agent as a plain user, or in containers"
            )

    @property
    def _data(self) -> Path:
        return self._store.directory.parent

    def of(self, vm: Vm | None) -> int:
        """The user of a VM's project. Errors: ``DriverError`` when no id is left."""
        assert self._ids is not None
        return self._ids.of(str((vm or {}).get("owner_uuid")))

    def command(
        self, vm: Vm | None, root: Path, argv: Sequence[str], directory: Path | None = None
    ) -> list[str]:
        """The command that runs ``argv`` as a VM's user, in ``directory`` below its ``root``."""
        return self._command(root, self.of(vm), argv, directory or root)

    def _command(self, root: Path, user: int, argv: Sequence[str], directory: Path) -> list[str]:
        covered = [str(one) for one in _covered([self._data, *self._hidden])]
        return [
            "unshare", "--mount", "--", "/bin/sh", "-c", _ENTER, "enter",
            str(root), str(user), str(directory), *covered, "--", *argv,
        ]  # fmt: skip


def _covered(hidden: Sequence[Path]) -> list[Path]:
    """What is covered to hide these; nothing that is below another.

    In place of each, the first directory on the way to it that is closed to others.
    """
    found: list[Path] = []
    for place in sorted({one.resolve() for one in hidden if one.exists()}):
        ways = [one for one in (*reversed(place.parents), place) if one != Path("/")]
        closed = (one for one in ways if not one.stat().st_mode & stat.S_IXOTH and one.is_dir())
        top = next(closed, place)
        if not any(top.is_relative_to(one) for one in found):
            found.append(top)
    return found


def own_tree(root: Path, user: int) -> None:
    """Give a tree to a user, unless it has it. Nothing of it may run.

    A file with a second name is left alone: the other name may be a file of the machine.
    """
    if root.stat().st_uid == user:
        return
    for _path, directories, files, at in os.fwalk(root):
        for name in (*directories, *files):
            found = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1:
                os.chown(name, user, user, dir_fd=at, follow_symlinks=False)
    # Last: only a tree that has changed hands as a whole is the user's.
    os.chown(root, user, user)


def user_of_process(pid: int) -> int | None:
    """The user id that a process runs with; ``None`` when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = [line.split() for line in status.splitlines() if line.startswith("Uid:")]
    return int(fields[0][2]) if fields else None
