"""The definitions of a project at one moment: its files, and the services that manifests make of them.

A service is *valid* when everything it lists is there, and everything that its workflows and agent
templates name is somewhere in the project's definitions. What is there but not listed, and what
cannot be parsed, are warnings: old installations lean on files of each other's services, and keep
working (§3, "Beyond upstream"; docs/decisions/0226).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from vetro.repository.manifests import Manifest, ManifestError, read_manifest
from vetro.repository.parsing import Parsed, parse
from vetro.repository.paths import FILE_KINDS, MANIFESTS

log = structlog.get_logger("vetro.repository")

#: The files of a set: by type and path the digest of the content; ``None``: a directory.
Files = Mapping[str, Mapping[str, str | None]]
Known = tuple[str, str, str]
#: The types whose files are read to judge services.
PARSED_KINDS = (MANIFESTS, "ui", "workflows", "heat", "agent")


@dataclass(frozen=True)
class Service:
    """A visible manifest, and what is wrong with its service.

    ``errors`` make it invalid; ``form_errors`` only keep it from the archive of forms.
    """

    manifest: Manifest
    errors: tuple[str, ...]
    form_errors: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its full name, which is its type in object models."""
        return self.manifest.name

    @property
    def valid(self) -> bool:
        """Whether clients get it."""
        return not self.errors

    def info(self) -> dict[str, Any]:
        """The keys of its manifest without the lists of files, and whether it is valid."""
        return {**self.manifest.values, "valid": self.valid}

    def files(self) -> dict[str, list[Any]]:
        """What it lists, by type, as the manifest says it."""
        return {kind: list(self.manifest.listed[kind]) for kind in FILE_KINDS}


class ParsedFiles:
    """What is known of files, by type, path and digest: contents never change under a digest."""

    def __init__(self, most: int = 20_000) -> None:
        self._known: OrderedDict[Known, Parsed | Manifest | ManifestError] = OrderedDict()
        self._most = most

    def unknown(self, files: Files) -> dict[str, list[tuple[str, str]]]:
        """What must be parsed: types and paths by the digest of the content."""
        missing: dict[str, list[tuple[str, str]]] = {}
        for kind in PARSED_KINDS:
            for path, digest in files.get(kind, {}).items():
                if digest is not None and (kind, path, digest) not in self._known:
                    missing.setdefault(digest, []).append((kind, path))
        return missing

    def learn(self, kind: str, path: str, digest: str, content: bytes) -> None:
        """Parse a file."""
        known: Parsed | Manifest | ManifestError
        if kind == MANIFESTS:
            try:
                known = read_manifest(path, content)
            except ManifestError as error:
                known = error
        else:
            known = parse(kind, path, content)
        self._known[kind, path, digest] = known
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def manifest(self, path: str, digest: str) -> Manifest | ManifestError | None:
        """What is known of a manifest."""
        known = self._known.get((MANIFESTS, path, digest))
        return None if isinstance(known, Parsed) else known

    def parsed(self, kind: str, path: str, digest: str) -> Parsed:
        """What is known of another file."""
        known = self._known.get((kind, path, digest))
        return known if isinstance(known, Parsed) else Parsed()

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


@dataclass(frozen=True)
class DefinitionSet:
    """Files and services. ``services``: by name, sorted. ``invisible``: why manifests make none."""

    files: Files
    services: Mapping[str, Service]
    invisible: Mapping[str, str] = field(default_factory=dict[str, str])

    def serving(self, *, forms: bool = False) -> Iterator[Service]:
        """The services that clients get; ``forms``: only those whose forms can be read."""
        for service in self.services.values():
            if not service.manifest.enabled or not service.valid:
                continue
            if forms and service.form_errors:
                log.warning(
                    "service_without_form", service=service.name, reason=service.form_errors[0]
                )
                continue
            yield service


def definition_set(files: Files, known: ParsedFiles) -> DefinitionSet:
    """The services of these files, all of which ``known`` has read."""
    manifests: dict[str, Manifest] = {}
    invisible: dict[str, str] = {}
    for path, digest in sorted(files.get(MANIFESTS, {}).items()):
        if digest is None or not path.endswith(".yaml"):
            continue
        found = known.manifest(path, digest)
        if isinstance(found, Manifest):
            manifests[found.name] = found
        elif found is not None:
            invisible[path] = str(found)
            log.warning("manifest_is_not_used", manifest=path, reason=str(found))
    services = {
        name: _judge(manifest, files, known) for name, manifest in sorted(manifests.items())
    }
    return DefinitionSet(files, services, invisible)


def _judge(manifest: Manifest, files: Files, known: ParsedFiles) -> Service:
    errors = list(manifest.problems)
    form_errors: list[str] = []
    warnings: list[str] = []
    listed = {kind: frozenset(manifest.sections[kind]) for kind in FILE_KINDS}
    for kind in FILE_KINDS:
        for path in manifest.sections[kind]:
            there = files.get(kind, {})
            digest = there.get(path)
            if digest is None:
                what = "is a directory" if path in there else "is missing"
                errors.append(f"{kind}/{path} {what}")
                continue
            parsed = known.parsed(kind, path, digest)
            found = [one.at(kind, path) for one in parsed.findings]
            if kind == "ui":
                form_errors += found
            else:
                warnings += found
            for reference in parsed.references:
                if reference.types and manifest.name not in reference.types:
                    continue
                if reference.path in listed[reference.kind]:
                    continue
                where = f"{kind}/{path}" + (f":{reference.line}" if reference.line else "")
                target = f"{reference.kind}/{reference.path}"
                if files.get(reference.kind, {}).get(reference.path) is not None:
                    warnings.append(
                        f"{where} names {target}, which this service does not list: it works only"
                        " while another enabled service brings that file"
                    )
                else:
                    errors.append(f"{where} names {target}, which does not exist")
    return Service(manifest, _once(errors), _once(form_errors), _once(warnings))


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
