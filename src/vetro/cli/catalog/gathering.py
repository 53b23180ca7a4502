"""Packages with everything that they require, from a repository or from beside a file (A9, A10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vetro.cli.catalog.repository import Repository
from vetro.cli.offline.world import SearchPath, library_directory
from vetro.cli.terminal.output import emit_rows, fail, say

if TYPE_CHECKING:
    from vetro.packages import Package

OUTCOMES = [
    ("PACKAGE", "package"),
    ("VERSION", "version"),
    ("RESULT", "result"),
    ("REASON", "reason"),
]


@dataclass
class Gathering:
    """Packages that were asked for and what they require; what came of each is in ``outcomes``."""

    repository: Repository
    outcomes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _paths: dict[str, Path] = field(default_factory=dict[str, Path])

    @property
    def has_failed(self) -> bool:
        """Whether anything is not as it was asked for."""
        return any(one["result"] in ("failed", "missing") for one in self.outcomes)

    def note(self, name: str, version: str | None, result: str, reason: str = "") -> None:
        """Keep what came of a package or an image."""
        self.outcomes.append(
            {"package": name, "version": version, "result": result, "reason": reason}
        )

    def finish(self, done: str) -> None:
        """Show what came of everything; a failure is the command's. ``done``: "imported"."""
        emit_rows(self.outcomes, OUTCOMES)
        if self.has_failed:
            bad = [
                one["package"] for one in self.outcomes if one["result"] in ("failed", "missing")
            ]
            fail(f"Not everything was {done}: {', '.join(bad)}", "The reasons are in the table.")

    def find(self, name: str, version: str | None, **more: Any) -> Package | None:
        """A package asked for by name; one that cannot be fetched is a failure among the outcomes."""
        from vetro.packages import BundleEntry, SourceError

        try:
            package, path = self.repository.package(BundleEntry(name, version, **more))
        except SourceError as error:
            self.note(name, version, "failed", str(error))
            return None
        self._paths[package.origin] = path
        return package

    def find_all(self, source: str) -> list[Package]:
        """The packages of a bundle, by file, address or name; what cannot be fetched is a failure."""
        from vetro.packages import DataError, SourceError, parse_bundle

        try:
            entries, skipped = parse_bundle(self.repository.bundle(source), source)
        except (SourceError, DataError) as error:
            self.note(source, None, "failed", str(error))
            return []
        for text in skipped:
            say(text)
        found = [
            self.find(one.name, one.version, url=one.url, sha256=one.sha256) for one in entries
        ]
        return [package for package in found if package is not None]

    def with_required(self, roots: Sequence[Package]) -> list[Package]:
        """The packages and what they require, what is required first."""
        from vetro.packages import requirement_closure

        closure = requirement_closure(roots, self._required)
        for circle in closure.circles:
            say(f"These packages require each other: {', '.join(circle)}")
        return list(closure.order)

    def path_of(self, package: Package) -> Path:
        """The archive or directory of a package that was found."""
        return self._paths.get(package.origin, Path(package.origin))

    def is_there(self, name: str, spec: str | None) -> bool:
        """Whether a required package need not be fetched."""
        return False

    def _required(self, name: str, spec: str | None) -> Package | None:
        from vetro.packages import BundleEntry, SourceError

        built_in = SearchPath([library_directory()])
        if built_in.find_package(name, spec or "0", None) is not None or self.is_there(name, spec):
            return None
        try:
            # The condition of a requirement without one is 0.x (A2).
            package, path = self.repository.package(BundleEntry(name, spec or "0"))
        except SourceError as error:
            self.note(name, spec, "missing", str(error))
            return None
        self._paths[package.origin] = path
        return package
