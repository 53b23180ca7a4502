"""Archives for clients: the same content gives the same bytes (metadata-repository.md §6).

An archive is a gzip-compressed tar whose entries are sorted, directories first, without owners and
times. Its SHA-1 is that of the bytes as they travel, so a client's copy stays good after a restart,
after ``reset_caches`` and on another node.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping

from vetro.documents import MappingNode, compose_yaml, write_yaml_node
from vetro.documents import ScalarNode as YamlScalar
from vetro.repository.definitions import DefinitionSet, Service
from vetro.repository.manifests import manifest_file
from vetro.repository.parsing import LIMITS
from vetro.repository.paths import CLIENT_KINDS, FILE_KINDS, MANIFESTS, Layout, parents

#: The content with a digest.
Contents = Callable[[str], bytes]
COMPRESSION = 6


def sha1_of(content: bytes) -> str:
    """The hash by which clients know an archive."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def pack(files: Mapping[str, bytes], directories: frozenset[str] = frozenset()) -> bytes:
    """A reproducible tar.gz of these files, and of directories that may be empty."""
    folders = set(directories)
    for path in files:
        folders.update(parents(path))
    for path in directories:
        folders.update(parents(path))
    buffer = io.BytesIO()
    with (
        # No file name and no time in the header.
        gzip.GzipFile("", "wb", COMPRESSION, buffer, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(folders):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path in sorted(files):
            if path in folders:
                continue  # two types meet at one name: the directory has the other's files
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(files[path]), 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return buffer.getvalue()


def needed(definitions: DefinitionSet, client: str) -> set[str]:
    """The digests of the contents that a client's archive has."""
    found: set[str] = set()
    for service in definitions.serving(forms=client == "ui"):
        for kind in CLIENT_KINDS[client]:
            for path in service.manifest.sections[kind]:
                digest = definitions.files.get(kind, {}).get(path)
                if digest is not None:
                    found.add(digest)
    return found


def client_archive(
    definitions: DefinitionSet, client: str, contents: Contents, layout: Layout
) -> bytes:
    """The archive for a client: what enabled, valid services list (§6.1)."""
    files: dict[str, bytes] = {}
    for service in definitions.serving(forms=client == "ui"):
        for kind in CLIENT_KINDS[client]:
            for path in service.manifest.sections[kind]:
                digest = definitions.files.get(kind, {}).get(path)
                if digest is None:
                    continue
                if client == "ui":
                    files[f"{service.name}/{path}"] = _form(contents(digest), service)
                else:
                    place = layout.output[kind]
                    files[f"{place}/{path}" if place else path] = contents(digest)
    return pack(files)


def _form(content: bytes, service: Service) -> bytes:
    """A form with the service's description, type and name; its tags and its order stay."""
    node: object = compose_yaml(content, LIMITS)[0]
    assert isinstance(node, MappingNode)
    given = {
        "description": service.manifest.values.get("description", ""),
        "type": service.name,
        "name": service.manifest.display_name,
    }
    kept: list[tuple[object, object]] = [pair for pair in node.value if pair[0].value not in given]
    said = [(_text(key), _text(str(value))) for key, value in given.items()]
    return write_yaml_node(MappingNode(node.tag, [*said, *kept], flow_style=False)).encode()


def _text(value: str) -> YamlScalar:
    return YamlScalar("tag:yaml.org,2002:str", value)


def service_files(definitions: DefinitionSet, service: Service) -> dict[str, str]:
    """The digests of a service's archive by path (§5.2): the layout of uploads."""
    name = manifest_file(service.name)
    digest = definitions.files[MANIFESTS][name]
    assert digest is not None
    found = {name: digest}
    for kind in FILE_KINDS:
        for path in service.manifest.sections[kind]:
            digest = definitions.files.get(kind, {}).get(path)
            if digest is not None:
                found[f"{kind}/{path}"] = digest
    return found


def tree_files(definitions: DefinitionSet, layout: Layout) -> tuple[dict[str, str], frozenset[str]]:
    """The digests of all files by their path on disk (§2), and the directories."""
    found: dict[str, str] = {}
    directories: set[str] = set()
    for kind, files in definitions.files.items():
        place = "" if kind == MANIFESTS else layout.directories[kind] + "/"
        for path, digest in files.items():
            if digest is None:
                directories.add(place + path)
            else:
                found[place + path] = digest
    return found, frozenset(directories)
