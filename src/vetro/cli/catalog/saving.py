"""Packages of a repository in a directory, to be imported where the repository cannot be reached."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vetro.cli.catalog.gathering import Gathering
from vetro.cli.terminal.output import say

if TYPE_CHECKING:
    from vetro.packages import Package


@dataclass
class PackageSaving(Gathering):
    """Archives as ``NAME.zip`` and images as ``IMAGE``, as imports find them beside a file."""

    directory: Path = field(kw_only=True)
    images: bool = True

    def run(self, roots: Sequence[Package]) -> None:
        """Save packages and what they require."""
        from vetro.packages import images_of

        for package in self.with_required(roots):
            target = self.directory / f"{package.full_name}.zip"
            self._keep(self.path_of(package), target, package.full_name, package.version)
            if not self.images:
                continue
            entries, skipped = images_of(package)
            for text in skipped:
                say(f"{package.full_name}: {text}")
            for entry in entries:
                self._save_image(entry.name, entry.url, entry.hash)

    def _save_image(self, name: str, address: str | None, wanted: str | None) -> None:
        from vetro.packages import SourceError, hash_mismatch

        what = f"image {name}"
        try:
            path = self.repository.image(name, address)
        except SourceError as error:
            self.note(what, None, "failed", str(error))
            return
        problem = hash_mismatch(path, wanted)
        if problem is not None:
            self.note(what, None, "failed", f"its file is not what it should be: {problem}")
            return
        self._keep(path, self.directory / name, what, None)

    def _keep(self, path: Path, target: Path, name: str, version: str | None) -> None:
        from vetro.packages import SIGNATURE_SUFFIX

        try:
            if path.is_dir():
                shutil.make_archive(str(target.with_suffix("")), "zip", path)
            elif path.resolve() != target.resolve():
                shutil.copyfile(path, target)
                signature = path.with_name(path.name + SIGNATURE_SUFFIX)
                if signature.is_file():
                    shutil.copyfile(signature, target.with_name(target.name + SIGNATURE_SUFFIX))
        except OSError as error:
            self.note(name, version, "failed", f"{error.filename or target}: {error.strerror}")
            return
        self.note(name, version, "saved")
