"""Repositories of packages, bundles, and lists of images: their documents (packages-and-forms.md A9, A10).

A repository is a directory tree that a web server shows: ``apps/<FullName>[.<version>].zip``,
``bundles/<name>.bundle``, ``images/<Name>``, and Vetro's ``index.json``, which says which versions there
are. This module reads the documents and says what files are called; fetching them is the caller's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from vetro.documents import DocumentError, DocumentLimits, read_json, read_yaml
from vetro.json_values import Json
from vetro.muranopl import Version, version_spec
from vetro.packages.errors import DataError, PackageError
from vetro.packages.manifest import FULL_NAME
from vetro.packages.members import MEBIBYTE
from vetro.packages.package import Package, open_package
from vetro.packages.signatures import SIGNATURE_SUFFIX

INDEX = "index.json"
IMAGES = "images.lst"
LIMITS = DocumentLimits(bytes=4 * MEBIBYTE, aliases=100, nodes=200_000)
_EXACT = re.compile(r"=*\s*(\d+\.\d+\.\d+(?:[-+][\w.+-]+)?)\Z")
#: Hash functions by the number of their hexadecimal digits.
_DIGESTS = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}


@dataclass(frozen=True)
class BundleEntry:
    """One package of a bundle. ``version`` is a version spec; ``sha256`` of the archive."""

    name: str
    version: str | None = None
    url: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class IndexEntry:
    """One archive of a repository: ``file`` is relative to the repository's address."""

    name: str
    version: str
    file: str
    sha256: str | None = None
    signature: str | None = None


@dataclass(frozen=True)
class ImageEntry:
    """An image that a package needs. ``hash``: hexadecimal, its length says the function."""

    name: str
    disk_format: str
    container_format: str
    hash: str | None = None
    url: str | None = None
    title: str | None = None
    type: str | None = None


def parse_bundle(content: bytes, file: str) -> tuple[list[BundleEntry], list[str]]:
    """The packages of a bundle, and what was skipped, in words. Errors: ``DataError``."""
    document = _document(content, file)
    listed: Json = _section(document, "Packages")
    if not isinstance(listed, list):
        raise DataError("Can't parse bundle contents: it has no list Packages", file=file)
    entries: list[BundleEntry] = []
    skipped: list[str] = []
    for number, given in enumerate(cast("list[Json]", listed), 1):
        body = cast("dict[str, Json]", given if isinstance(given, dict) else {})
        name = body.get("Name")
        if not isinstance(name, str) or not name:
            skipped.append(f"{file}: package {number} has no Name")
            continue
        version = _text(body.get("Version"))
        try:
            check_name(name)
            version_spec(version)
        except (DataError, ValueError) as error:
            skipped.append(f"{file}: package {number} ({name}): {error}")
            continue
        entries.append(
            BundleEntry(name, version, _text(body.get("Url")), _text(body.get("Sha256")))
        )
    return entries, skipped


def parse_index(content: bytes, file: str = INDEX) -> list[IndexEntry]:
    """The archives of a repository. Errors: ``DataError``."""
    document = _document(content, file)
    listed: Json = _section(document, "Packages")
    if not isinstance(listed, list):
        raise DataError("a repository's index has a list Packages", file=file)
    entries: list[IndexEntry] = []
    for given in cast("list[Json]", listed):
        body = cast("dict[str, Json]", given if isinstance(given, dict) else {})
        name, version, path = (body.get(key) for key in ("Name", "Version", "File"))
        if not (isinstance(name, str) and isinstance(version, str) and isinstance(path, str)):
            raise DataError("an entry of an index has texts Name, Version and File", file=file)
        try:
            Version.parse(version)
        except ValueError as error:
            raise DataError(f"{name}: {error}", file=file) from error
        if "://" in path or path.startswith("/") or ".." in path.split("/"):
            raise DataError(f"{name}: the path {path!r} leaves the repository", file=file)
        sha256, signature = _text(body.get("Sha256")), _text(body.get("Signature"))
        entries.append(IndexEntry(name, version, path, sha256, signature))
    return entries


def write_index(directory: Path) -> bytes:
    """The index of a repository directory: every archive below ``apps/``. Errors: ``PackageError``."""
    rows: list[dict[str, Json]] = []
    for path in sorted((directory / "apps").glob("*.zip")):
        try:
            package = open_package(path)
        except PackageError as error:
            raise DataError(f"{path}: {error}", file=str(path)) from error
        signature = path.with_name(path.name + SIGNATURE_SUFFIX)
        signed = signature.is_file()
        rows.append(
            {
                "Name": package.full_name,
                "Version": package.version,
                "File": f"apps/{path.name}",
                "Sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "Require": dict(package.requirements),
                **({"Signature": signature.read_text(encoding="utf-8").strip()} if signed else {}),
            }
        )
    return json.dumps({"Version": 1, "Packages": rows}, indent=2).encode() + b"\n"


def best_entry(entries: Iterable[IndexEntry], name: str, spec: str | None) -> IndexEntry | None:
    """The newest archive of a package whose version satisfies a spec (``None``: any)."""
    wanted = version_spec(spec) if spec is not None else version_spec("*")
    fitting = [one for one in entries if one.name == name and Version.parse(one.version) in wanted]
    return max(fitting, key=lambda one: Version.parse(one.version), default=None)


def archive_names(name: str, spec: str | None) -> list[str]:
    """Paths to try in a repository without an index: that of the exact version, then without one."""
    check_name(name)
    exact = _EXACT.match(spec.strip()) if spec else None
    versioned = [f"apps/{name}.{exact[1]}.zip"] if exact else []
    return [*versioned, f"apps/{name}.zip"]


def check_name(name: str) -> None:
    """Refuse a name that would leave the repository. Errors: ``DataError``."""
    if "/" in name or "\\" in name or name in ("", ".", "..") or "\0" in name:
        raise DataError(f"Invalid filename path supplied: {name!r}")


def parse_images(content: bytes) -> tuple[list[ImageEntry], list[str]]:
    """The images of an ``images.lst``, and what was skipped, in words.

    A file that cannot be read is as an empty one, and said so.
    """
    try:
        document = _document(content, IMAGES)
    except DataError as error:
        return [], [str(error)]
    listed: Json = _section(document, "Images")
    if not isinstance(listed, list):
        return [], [f"{IMAGES}: there is no list Images"]
    entries: list[ImageEntry] = []
    skipped: list[str] = []
    for number, given in enumerate(cast("list[Json]", listed), 1):
        body = cast("dict[str, Json]", given if isinstance(given, dict) else {})
        needed = [_text(body.get(key)) for key in ("Name", "DiskFormat", "ContainerFormat")]
        if not all(needed):
            skipped.append(f"{IMAGES}: image {number} needs Name, DiskFormat and ContainerFormat")
            continue
        name, disk, container = (str(one) for one in needed)
        try:
            check_name(name)
        except DataError as error:
            skipped.append(f"{IMAGES}: image {number}: {error}")
            continue
        meta: Json = body.get("Meta")
        about = cast("dict[str, Json]", meta if isinstance(meta, dict) else {})
        entries.append(
            ImageEntry(
                name,
                disk,
                container,
                _text(body.get("Hash")),
                _text(body.get("Url")),
                _text(about.get("title")),
                _text(about.get("type")),
            )
        )
    return entries, skipped


def image_problems(entry: ImageEntry) -> list[str]:
    """Why an image could not be imported, in words: its hash or its address is none."""
    problems: list[str] = []
    if entry.hash is not None and _digest(entry.hash) is None:
        problems.append(f"{entry.name}: {_not_a_hash(entry.hash)}")
    if entry.url is not None and not entry.url.startswith(("http://", "https://")):
        problems.append(f"{entry.name}: {entry.url!r} is not an http address")
    return problems


def _digest(text: str) -> str | None:
    """The name of the function that makes hashes of this form."""
    if not re.fullmatch(r"[0-9a-fA-F]+", text.strip()):
        return None
    return _DIGESTS.get(len(text.strip()))


def _not_a_hash(text: str) -> str:
    return f"{text!r} is not a hash (MD5, SHA-1, SHA-256, SHA-384 or SHA-512 in hexadecimal)"


def images_of(package: Package) -> tuple[list[ImageEntry], list[str]]:
    """The images that a package needs, and what was skipped."""
    if not package.members.has(IMAGES):
        return [], []
    return parse_images(package.members.read(IMAGES))


def hash_mismatch(path: Path, wanted: str | None) -> str | None:
    """In words, how a file differs from its hash; ``None`` when it does not, or has none."""
    if wanted is None:
        return None
    kind = _digest(wanted)
    if kind is None:
        return _not_a_hash(wanted)
    with path.open("rb") as file:
        # The hash detects damage, not an attack: the author of the list writes the hash, too.
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False))
    if found.hexdigest() == wanted.strip().lower():
        return None
    return f"its {kind} is {found.hexdigest()}, not {wanted.strip().lower()}"


def _document(content: bytes, file: str) -> Json:
    """JSON, else YAML."""
    try:
        return read_json(content, LIMITS)
    except DocumentError:
        pass
    try:
        return read_yaml(content, LIMITS)
    except DocumentError as error:
        raise DataError(error.message, file=file, line=error.line, column=error.column) from error


def _section(document: Json, name: str) -> Json:
    return cast("dict[str, Json]", document).get(name) if isinstance(document, dict) else None


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def is_package_name(text: str) -> bool:
    """Whether a text can be the full name of a package."""
    return FULL_NAME.match(text) is not None
