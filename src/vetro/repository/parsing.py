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

from vetro.documents import DocumentError, DocumentLimits, compose_yaml, read_json, read_yaml
from vetro.documents import MappingNode as YamlMapping
from vetro.repository.manifests import ManifestError, read_manifest, service_of
from vetro.repository.paths import UnsafePath, safe_path

LIMITS = DocumentLimits(depth=100, aliases=1000, nodes=500_000)
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
            return _workflow(path, content) if path.endswith(".xml") else Parsed()
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


def check_upload(kind: str, path: str, content: bytes) -> tuple[Finding, ...]:
    """What is wrong with a file that is brought: of a workflow also what an engine would refuse, and what
    removes resources unasked (docs/decisions/0381). Raises nothing.
    """
    found = parse(kind, path, content).findings
    if found or kind != "workflows" or not path.endswith(".xml"):
        return found
    from vetro.workflows import WorkflowError, compile_workflow, parse_xml, persistent_guards

    try:
        compile_workflow(content, path)
        guards = persistent_guards(parse_xml(content, path))
        return tuple(Finding(message, line) for line, message in guards)
    except WorkflowError as error:
        return (Finding(error.message, error.place.line if error.place else 0),)


def _mapping(value: object, what: str) -> Parsed:
    if isinstance(value, dict):
        return Parsed()
    return Parsed((Finding(f"{what} must be an object of keys and values"),))


def _workflow(path: str, content: bytes) -> Parsed:
    """Whether a workflow can be read, and which templates its functions name."""
    # Imported when one is read: a service that builds no archive needs none of the language.
    from vetro.workflows import WorkflowSyntaxError, parse_xml

    references: list[Reference] = []
    try:
        pending = [(parse_xml(content, path), frozenset[str]())]
        while pending:
            element, types = pending.pop()
            types = _types_in(element.attributes.get("match", "")) or types
            pending.extend((one, types) for one in element.elements())
            kind, name = _TEMPLATE_OF.get(element.tag), element.attributes.get("template", "")
            if kind is None or not name:
                continue
            version = element.attributes.get("osVersion", "") if kind == "agent" else ""
            named = f"{version}/{name}.template" if version else f"{name}.template"
            line = element.place.line
            try:
                references.append(Reference(kind, safe_path(named), line, types))
            except UnsafePath as error:
                said = f"<{element.tag}> names a template that cannot be: {error}"
                return Parsed((Finding(said, line),))
    except WorkflowSyntaxError as error:
        return Parsed((Finding(error.message, error.place.line if error.place else 0),))
    return Parsed(references=tuple(sorted(references, key=lambda one: one.line)))


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
    for name in _scripts(cast("dict[object, object]", plan)):
        place = name.lstrip("/") if name.startswith("/") else directory + name
        try:
            references.append(Reference("scripts", safe_path(place)))
        except UnsafePath as error:
            findings.append(Finding(f"Scripts: {error}"))
    return Parsed(tuple(findings), tuple(dict.fromkeys(references)))


def _scripts(plan: Mapping[object, object]) -> Iterator[str]:
    """The script files that a plan names: of format 1 a list, of format 2 entry points and files."""
    scripts = plan.get("Scripts")
    if isinstance(scripts, list):
        yield from (one for one in cast("list[object]", scripts) if isinstance(one, str))
    elif isinstance(scripts, dict):
        for script in cast("dict[object, object]", scripts).values():
            if not isinstance(script, dict):
                continue
            known = cast("dict[Any, Any]", script)
            files = known.get("Files")
            more = cast("list[object]", files) if isinstance(files, list) else []
            for name in [known.get("EntryPoint"), *more]:
                if isinstance(name, str) and name:
                    # '<name>' only says that the file travels as Base64.
                    yield name[1:-1] if name[:1] == "<" and name[-1:] == ">" else name
