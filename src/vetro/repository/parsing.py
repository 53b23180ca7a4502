"""What is in a definition's file: whether it can be parsed, and which other files it needs.

Workflows are XML without a document type, stack and agent templates JSON (agent templates may be
YAML), forms YAML. Nothing is executed or fetched: a document type, and with it every entity of the
document's own, is refused before it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from xml.parsers import expat

from vetro.documents import DocumentError, DocumentLimits, compose_yaml, read_json, read_yaml
from vetro.documents import MappingNode as YamlMapping
from vetro.repository.manifests import ManifestError, read_manifest, service_of
from vetro.repository.paths import UnsafePath, safe_path

LIMITS = DocumentLimits(depth=100, aliases=1000, nodes=500_000)
MAX_XML_DEPTH = 200
#: The functions of workflows that name a template, and the type of that template.
_TEMPLATE_OF = {"update-cf-stack": "heat", "send-command": "agent"}
_TYPES = re.compile(r"""@\.type\s*(?:==|in)\s*[\[(]?((?:\s*,?\s*(?:'[^']*'|"[^"]*"))+)""")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file. ``line`` counts from 1; 0: the whole file."""

    message: str
    line: int = 0

    def at(self, kind: str, path: str) -> str:
        """The finding with its place."""
        where = f"{kind}/{path}:{self.line}" if self.line else f"{kind}/{path}"
        return f"{where}: {self.message}"


@dataclass(frozen=True)
class Reference:
    """Another file that a file needs. ``types``: only for services of these; empty: for all."""

    kind: str
    path: str
    line: int = 0
    types: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Parsed:
    """What is known of a file."""

    findings: tuple[Finding, ...] = ()
    references: tuple[Reference, ...] = ()


def parse(kind: str, path: str, content: bytes) -> Parsed:
    """What a file of this type needs, and what is wrong with it. Raises nothing."""
    try:
        if kind == "workflows":
            return _Workflow().parse(content) if path.endswith(".xml") else Parsed()
        if kind == "heat":
            return _mapping(read_json(content, LIMITS), "a stack template")
        if kind == "agent":
            return _agent_template(path, content)
        if kind == "ui":
            nodes = compose_yaml(content, LIMITS)
            if len(nodes) != 1 or not isinstance(nodes[0], YamlMapping):
                return Parsed((Finding("a form must be one mapping of keys to values"),))
        if kind == "manifests" and service_of(path) is not None:
            read_manifest(path, content)
    except DocumentError as error:
        return Parsed((Finding(error.message, error.line or 0),))
    except ManifestError as error:
        return Parsed((Finding(str(error)),))
    return Parsed()


def _mapping(value: Any, what: str) -> Parsed:
    if isinstance(value, dict):
        return Parsed()
    return Parsed((Finding(f"{what} must be an object of keys and values"),))


class _Workflow:
    """Reads a workflow: is it well-formed, and which templates do its functions name?"""

    def __init__(self) -> None:
        self._references: list[Reference] = []
        self._types: list[frozenset[str]] = [frozenset()]
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def parse(self, content: bytes) -> Parsed:
        """The findings and references of a document."""
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code) or "malformed"
            return Parsed((Finding(f"not XML: {reason}", error.lineno),))
        except _Refused as error:
            return Parsed((Finding(str(error), self._parser.CurrentLineNumber),))
        except (LookupError, ValueError) as error:  # an encoding that is not known
            return Parsed((Finding(f"not XML: {error}", 1),))
        return Parsed(references=tuple(self._references))

    def _refuse_doctype(self, *_given: Any) -> None:
        raise _Refused("a workflow must not have a document type: remove <!DOCTYPE …>")

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._types) > MAX_XML_DEPTH:
            raise _Refused(f"nested deeper than {MAX_XML_DEPTH}")
        types = _types_in(attributes.get("match", ""))
        self._types.append(types or self._types[-1])
        kind, name = _TEMPLATE_OF.get(tag), attributes.get("template", "")
        if kind is None or not name:
            return
        version = attributes.get("osVersion", "") if kind == "agent" else ""
        path = f"{version}/{name}.template" if version else f"{name}.template"
        try:
            path = safe_path(path)
        except UnsafePath as error:
            raise _Refused(f"<{tag}> names a template that cannot be: {error}") from error
        line = self._parser.CurrentLineNumber
        self._references.append(Reference(kind, path, line, self._types[-1]))

    def _end(self, _tag: str) -> None:
        self._types.pop()


class _Refused(Exception):
    """The document has what a workflow must not have."""


def _types_in(match: str) -> frozenset[str]:
    """The service types that a rule's expression compares with."""
    found: set[str] = set()
    for listed in _TYPES.finditer(match):
        found.update(one or other for one, other in _QUOTED.findall(listed[1]))
    return frozenset(found)


def _agent_template(path: str, content: bytes) -> Parsed:
    if content.lstrip()[:1] == b"{":
        plan = read_json(content, LIMITS)
    else:
        plan = read_yaml(content, LIMITS)
    if not isinstance(plan, dict):
        return Parsed((Finding("an agent template must be an object of keys and values"),))
    findings: list[Finding] = []
    references: list[Reference] = []
    directory = path.rsplit("/", 1)[0] + "/" if "/" in path else ""
    for name in _scripts(cast("dict[Any, Any]", plan)):
        place = name.lstrip("/") if name.startswith("/") else directory + name
        try:
            references.append(Reference("scripts", safe_path(place)))
        except UnsafePath as error:
            findings.append(Finding(f"Scripts: {error}"))
    return Parsed(tuple(findings), tuple(dict.fromkeys(references)))


def _scripts(plan: Mapping[Any, Any]) -> Iterator[str]:
    """The script files that a plan names: of format 1 a list, of format 2 entry points and files."""
    scripts = plan.get("Scripts")
    if isinstance(scripts, list):
        yield from (one for one in cast("list[Any]", scripts) if isinstance(one, str))
    elif isinstance(scripts, dict):
        for script in cast("dict[Any, Any]", scripts).values():
            if not isinstance(script, dict):
                continue
            known = cast("dict[Any, Any]", script)
            files = known.get("Files")
            more = cast("list[Any]", files) if isinstance(files, list) else []
            for name in [known.get("EntryPoint"), *more]:
                if isinstance(name, str) and name:
                    # '<name>' only says that the file travels as Base64.
                    yield name[1:-1] if name[:1] == "<" and name[-1:] == ">" else name
