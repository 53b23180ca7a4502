"""Runtimes with the core library, shared by all sessions and tests whose packages say the same.

An engine's workers have the core library ready too. To compile it for each session took three quarters of the
processor time of the tests of the library.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vetro.engine.services import library_path
from vetro.engine.system import register
from vetro.muranopl import MemoryPackage, Runtime, check_package, enable_testing
from vetro.muranopl.compiler.codecache import CodeCache
from vetro.packages import Package, open_package
from vetro.packages.members import DirectoryMembers

if TYPE_CHECKING:
    from vetro.muranopl.syntax.yamltree import Node

#: Runtimes that stay; the one that was used longest ago goes first.
KEPT = 6


class TreesInMemory(CodeCache):
    """A code cache that reads no class file twice: most of a new runtime is the core library's trees."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._trees: dict[tuple[str, str], list[Node] | None] = {}

    def documents(self, text: str, file: str) -> list[Node] | None:
        """The trees of a class file."""
        key = text, file
        if self._trees.get(key) is None:
            self._trees[key] = super().documents(text, file)
        return self._trees[key]


class Runtimes:
    """Makes runtimes with the core library, and keeps the last ones."""

    def __init__(self, code: Path) -> None:
        self._code = TreesInMemory(code)
        self._core = open_package(library_path() / "io.murano")
        self._kept: dict[object, Runtime] = {}
        self._alarms: dict[object, list[str]] = {}

    def new(self, core: Path | None = None) -> Runtime:
        """A runtime of its own, with the core library or with this other release of it."""
        runtime = Runtime(code_cache=self._code)
        register(runtime)
        runtime.add_package(open_package(core) if core else self._core)
        return runtime

    def shared(self, packages: list[Any], class_configs: Mapping[str, Any]) -> Runtime:
        """A runtime with these packages and class configs, which must not be changed."""
        words = words_of(packages)
        key = words, json.dumps(class_configs, sort_keys=True)
        made = self._kept.pop(key, None) if words is not None else None
        if made is None:
            made = self.new()
            made.class_configs = copy.deepcopy(class_configs)
            for package in packages:
                # A test may give its own another version later.
                made.add_package(package if words is None else copy.copy(package))
        if words is not None:
            self._kept[key] = made
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return made

    def false_alarms(
        self, packages: list[Any], codes: Container[str], make: Callable[[], Runtime]
    ) -> list[str]:
        """What the lint has against the last of these packages: errors, and findings with these codes.

        ``make``: the runtime beside the packages.
        """
        words = words_of(packages) if make == self.new else None
        if words in self._alarms:
            return self._alarms[words]
        runtime = make()
        enable_testing(runtime)
        added = [runtime.add_package(one) for one in packages]
        listed = check_package(runtime, added[-1])
        found = [str(item) for item in listed if item.level == "error" or item.code in codes]
        if words is not None:
            self._alarms[words] = found
        return found


def words_of(packages: list[Any]) -> tuple[str, ...] | None:
    """What tells these packages from others, with all files of those of a test; None for archives."""
    words: list[str] = []
    for one in packages:
        members = one.members if isinstance(one, Package) else None
        if isinstance(one, MemoryPackage):
            words.append(repr(one))
        elif isinstance(members, DirectoryMembers):
            words.append(str(members.root))
            if not members.root.is_relative_to(library_path()):
                words += [f"{name} {members.checksum(name)}" for name in members.names()]
        else:
            return None
    return tuple(words)
