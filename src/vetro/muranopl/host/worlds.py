"""Which sessions of a runtime share compiled classes (muranopl.md section 5).

The package version that a name means depends on the session: on the fixation table of its
environment and on the packages it has already loaded. Compiled classes cache such results. So a
runtime records each decision (`PackageShelf.decisions`). A session reuses the classes of earlier
sessions only if it would have made the same decisions; otherwise it gets a separate world with
newly compiled classes. Usually there is one version of each package, and the first world is used.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from vetro.muranopl.classes.types import MuranoPackage, MuranoType
from vetro.muranopl.syntax.versions import Version

if TYPE_CHECKING:
    from .runtime import Runtime
    from .session import Session

Fixations = Mapping[str, frozenset[Version]]
"""Versions that an environment already uses, by package name."""
Query = tuple[str, str, str, str | None]
"""`package` or `class`, its name, the version spec, the requesting project."""
Answer = tuple[str, str]
"""Name and version of a package."""
_KEPT = 4
"""Worlds without a session that are kept for the next one."""


class Worlds:
    """The worlds of a runtime, the runtime itself being the first."""

    def __init__(self) -> None:
        self._others: weakref.WeakSet[Runtime] = weakref.WeakSet()
        self._kept: deque[Runtime] = deque(maxlen=_KEPT)

    def __len__(self) -> int:
        """The number of worlds besides the first."""
        return len(self._others)

    def enter(self, main: Runtime, session: Session, fixed: Fixations) -> Runtime:
        """The world in which a session with these fixations runs."""
        before = session.runtime
        before.shelf.residents.discard(session)
        for world in [main, *self._others]:
            if _accepts(world, fixed):
                break
        else:
            world = main.make_world()
            self._others.add(world)
            self._kept.append(world)
        if not _is_inhabited(world):
            world.shelf.begin(fixed)
        world.shelf.residents.add(session)
        return world


def _accepts(world: Runtime, fixed: Fixations) -> bool:
    """Whether a session with these fixations would get the same classes as those in this world."""
    world.catch_up()
    shelf = world.shelf
    if shelf.lacks_names:
        return False
    if _is_inhabited(world) and not (shelf.is_fixed_alike(fixed) and shelf.uses_the_best):
        return False
    return all(
        shelf.fresh_answer(query, fixed) == answer
        for query, answer in list(shelf.decisions.items())
    )


def _is_inhabited(world: Runtime) -> bool:
    return any(not session.closed for session in world.shelf.residents)


def packages_of(types: Iterable[MuranoType]) -> dict[str, list[str]]:
    """Versions, by name, of the packages of the types and of all classes that these use."""
    seen: set[MuranoPackage] = set()
    stack: list[MuranoPackage] = [type_.package for type_ in types]
    while stack:
        package = stack.pop()
        if package in seen:
            continue
        seen.add(package)
        stack.extend(found.package for found in list(package.found.values()))
        for type_ in list(package.types.values()):
            stack.extend(parent.package for parent in type_.parents)
    table: dict[str, list[str]] = {}
    for package in sorted(seen, key=lambda item: (item.name, item.semantic_version)):
        table.setdefault(package.name, []).append(package.version)
    return table
