"""Lint of the template of a Heat package (packages-and-forms.md A6, A8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vetro.packages.check_yaml import (
    Findings,
    entries,
    get,
    is_list,
    is_map,
    is_null,
    is_text,
    items,
    read_documents,
    suggestion,
    text_of,
    unknown_keys,
    walk,
)
from vetro.packages.errors import PackageError
from vetro.packages.hot import ENVIRONMENTS, FILES, TEMPLATE, examine_template
from vetro.packages.members import Members

_ENVIRONMENT = (
    "parameters",
    "parameter_defaults",
    "parameter_merge_strategies",
    "resource_registry",
    "encrypted_param_names",
    "encrypted_parameters",
    "event_sinks",
)
_PSEUDO = ("OS::", "AWS::")


def check_template(members: Members) -> Findings:
    """Mistakes in ``template.yaml`` and in the environments of a Heat package."""
    findings = Findings(TEMPLATE)
    if not members.has(TEMPLATE):
        return findings
    documents = read_documents(members.read(TEMPLATE), findings)
    if documents is None:
        return findings
    if len(documents) > 1:
        findings.add("E005", "a template is one document", documents[1])
    root = documents[0] if documents else None
    if not is_map(root) or not is_map(get(root, "resources")):
        findings.add("E004", "not a Heat template: it has no section resources that is a map", root)
        return findings
    names = [name.removeprefix("Resources/") for name in members.names()]
    _Check(findings, root, [name.removeprefix(FILES) for name in names if name.startswith(FILES)])
    was_good = not findings.found
    try:
        _, problems = examine_template(members.read(TEMPLATE), names)
        for problem in problems:
            findings.add_error("E091", problem)
    except PackageError as error:
        if was_good:  # else the nodes have reported it, with more places
            findings.add_error("E091", error)
    for name in names:
        if name.startswith(ENVIRONMENTS):
            findings.found += _environment(members, f"Resources/{name}", root)
    return findings


def _environment(members: Members, file: str, template: object) -> list[Any]:
    findings = Findings(file)
    try:
        content = members.read(file)
    except PackageError:
        return []  # reported with the other resources
    documents = read_documents(content, findings)
    for root in documents or []:
        if not is_map(root):
            findings.add("E004", "an environment is a map", root)
            continue
        unknown_keys(root, _ENVIRONMENT, "an environment", findings, "W010")
        given = get(root, "parameters")
        if is_null(given):
            continue
        if not is_map(given):
            findings.add("E004", "parameters is a map", given)
            continue
        declared = _names(get(template, "parameters"))
        for name, key, _ in entries(given):
            if name not in declared:
                hint = suggestion(name, declared)
                findings.add("E093", f"the template has no parameter {name}{hint}", key)
    return findings.found


def _names(section: object) -> list[str]:
    return [name for name, _, _ in entries(section)] if is_map(section) else []


def _outside_loops(section: object) -> Iterator[object]:
    """Every node, but for what `repeat` makes copies of: names in it are made of the loop's values."""
    loops = _inside(section, "repeat")
    return (node for node in walk(section) if id(node) not in loops)


def _inside(section: object, function: str) -> set[int]:
    """The nodes in the arguments of a function."""
    return {
        id(node)
        for body in walk(section)
        if is_map(body)
        for name, _, value in entries(body)
        if name == function
        for node in walk(value)
    }


class _Check:
    def __init__(self, findings: Findings, root: Any, files: list[str]) -> None:
        self.findings = findings
        self.files = files
        self.parameters = _names(get(root, "parameters"))
        self.resources = _names(get(root, "resources"))
        self.required: dict[str, list[str]] = {}
        self._keys: dict[str, object] = {}
        for name, key, body in entries(get(root, "resources")):
            self._needs = self.required.setdefault(name, [])
            self._keys[name] = key
            self._resource(name, key, body)
            if is_map(body) and get(body, "condition") is not None:
                self._needs.clear()
        self._needs = []
        self._circles()
        outputs = get(root, "outputs")
        if is_map(outputs):
            for _, _, body in entries(outputs):
                self._references(body)
        elif not is_null(outputs):
            findings.add("E004", "outputs is a map", outputs)

    def _resource(self, name: str, key: object, body: object) -> None:
        if not is_map(body):
            self.findings.add("E004", f"the resource {name} is a map", body)
            return
        kind = get(body, "type")
        if kind is None or not is_text(kind):
            self.findings.add("E020", f"the resource {name} has no type", key)
        else:
            text = text_of(kind) or ""
            if text.endswith((".yaml", ".yml", ".template")):
                self._file(text, kind)
        depends = get(body, "depends_on")
        for node in items(depends) if is_list(depends) else [depends]:
            if node is not None and is_text(node):
                self._known(node, "resource", self.resources)
        self._references(get(body, "properties"))

    def _references(self, section: object) -> None:
        if section is None:
            return
        # What a condition chooses may not be required.
        chosen = _inside(section, "if")
        for node in _outside_loops(section):
            if not is_map(node) or len(entries(node)) != 1:
                continue
            function, _, value = entries(node)[0]
            if is_list(value) and function in ("get_attr", "get_param") and items(value):
                value = items(value)[0]
            if not is_text(value):
                continue
            if function == "get_file":
                self._file(text_of(value) or "", value)
            elif function in ("get_resource", "get_attr"):
                self._known(value, "resource", self.resources, id(node) not in chosen)
            elif function == "get_param" and not (text_of(value) or "").startswith(_PSEUDO):
                self._known(value, "parameter", self.parameters)

    def _known(self, node: object, what: str, names: list[str], required: bool = True) -> None:
        name = text_of(node) or ""
        if what == "resource" and required:
            self._needs.append(name)
        if name not in names:
            hint = suggestion(name, names)
            self.findings.add("E093", f"there is no {what} {name}{hint}", node)

    def _circles(self) -> None:
        """Report the first circle of each set of resources that require each other."""
        done: set[str] = set()
        for first in self.required:
            way = [(first, iter(self.required[first]))] if first not in done else []
            while way:
                step = next(way[-1][1], None)
                names = [name for name, _ in way]
                if step is None:
                    done.add(way.pop()[0])
                elif step in names:
                    circle = [*names[names.index(step) :], step]
                    message = f"the resources {' → '.join(circle)} require each other"
                    self.findings.add("E094", message, self._keys[step])
                    done.update(names)
                    break
                elif step in self.required and step not in done:
                    way.append((step, iter(self.required[step])))

    def _file(self, name: str, node: object) -> None:
        if "://" in name and not name.startswith("file:"):
            return
        if name.removeprefix("file:///").removeprefix("./") not in self.files:
            hint = suggestion(name, self.files)
            self.findings.add("E092", f"there is no file Resources/{FILES}{name}{hint}", node)
