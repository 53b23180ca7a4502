"""The id ranges of instances: one for the images of containers, one for each project.

Instances of different projects share no id: a process that escapes from a container, or was never
in one (driver ``process``), has no right to the files and processes of the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import cast

import structlog

from vetro.digits import is_number
from vetro.node.errors import DriverError
from vetro.node.files import read_json, write_bytes, write_json
from vetro.node.guest.root import ID_COUNT

log = structlog.get_logger(__name__)

# How many project ranges root is given at once when it has too few: 64 million of 4 billion ids.
_PROJECTS = 1024
_FIRST = 1_000_000
# Beyond this, the kernel and tools disagree about signs.
_LAST = 2**31


class IdRanges:
    """Which project has which range; kept in ``file``.

    ``ranges``: ``(base, count)`` of root's subordinate ids without the images' own. Without any, or
    where the kernel cannot translate owners (``translated`` false), all projects use the images'
    range.
    """

    def __init__(
        self, file: Path, images_base: int, ranges: Sequence[tuple[int, int]], *, translated: bool
    ) -> None:
        self._file = file
        self.images_base = images_base
        self._bases = [
            base + offset
            for base, count in ranges
            for offset in range(0, count - ID_COUNT + 1, ID_COUNT)
        ]
        self.translated = translated and bool(self._bases)
        self._given: dict[str, int] | None = None

    def of(self, project: str) -> int:
        """The first id of a project's range. Errors: ``DriverError`` when none is left."""
        if not self.translated:
            return self.images_base
        if self._given is None:
            kept = cast("dict[str, int]", read_json(self._file) or {})
            self._given = dict(kept)
        known = self._given.get(project)
        if known is not None:
            return known
        taken = set(self._given.values())
        free = next((base for base in self._bases if base not in taken), None)
        if free is None:
            raise DriverError(
                f"All {len(self._bases)} id ranges are given to projects: add one for root to"
                " /etc/subuid and /etc/subgid and start the agent again",
                rest_code="ResourceExhausted",
            )
        self._given[project] = free
        write_json(self._file, self._given)
        return free


def images_range(subuid: Path, subgid: Path) -> int:
    """The first id of root's range in both files; a missing range is added to both."""
    ranges = _common(subuid, subgid)
    for base, count in ranges:
        if count >= ID_COUNT:
            return base
    with _locked(subuid.parent):
        # Another agent may have added it meanwhile.
        found = [base for base, count in _common(subuid, subgid) if count >= ID_COUNT]
        return found[0] if found else _add(subuid, subgid, ID_COUNT)


def project_ranges(subuid: Path, subgid: Path, images_base: int) -> list[tuple[int, int]]:
    """Root's other ranges; when they hold too few projects, both files get another range."""

    def others() -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for base, count in _common(subuid, subgid):
            if base == images_base:
                base, count = base + ID_COUNT, count - ID_COUNT
            if count >= ID_COUNT:
                found.append((base, count))
        return found

    def enough() -> bool:
        return sum(count // ID_COUNT for _, count in others()) >= _PROJECTS

    if not enough():
        with _locked(subuid.parent):
            if not enough():
                _add(subuid, subgid, _PROJECTS * ID_COUNT)
    return others()


@contextlib.contextmanager
def _locked(directory: Path) -> Generator[None, None, None]:
    """Lock out the other agents of this machine."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _common(subuid: Path, subgid: Path) -> list[tuple[int, int]]:
    """Ranges that root has for both users and groups."""
    groups = _ranges(subgid)
    return [
        (base, count)
        for owner, base, count in _ranges(subuid)
        if owner in ("root", "0") and (owner, base, count) in groups
    ]


def _add(subuid: Path, subgid: Path, count: int) -> int:
    taken = [base + size for _, base, size in (*_ranges(subuid), *_ranges(subgid))]
    base = max([_FIRST, *taken])
    base = -(-base // ID_COUNT) * ID_COUNT if base > _FIRST else base
    if base + count > _LAST:
        raise DriverError(
            f"There is no room for {count} subordinate ids for root after those in {subuid}",
            rest_code="ResourceExhausted",
        )
    log.info("id_range_allocated", base=base, count=count, files=f"{subuid}, {subgid}")
    for path in (subuid, subgid):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        end = "" if not text or text.endswith("\n") else "\n"
        write_bytes(path, f"{text}{end}root:{base}:{count}\n".encode(), mode=0o644)
    return base


def _ranges(path: Path) -> list[tuple[str, int, int]]:
    ranges: list[tuple[str, int, int]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            parts = line.strip().split(":")
            if len(parts) == 3 and is_number(parts[1]) and is_number(parts[2]):
                ranges.append((parts[0], int(parts[1]), int(parts[2])))
    return ranges
