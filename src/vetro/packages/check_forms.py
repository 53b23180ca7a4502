"""Lint of UI definitions (packages-and-forms.md A8, B1-B4, B6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vetro.packages.check_yaml import (
    Findings,
    entries,
    expression_of,
    get,
    is_boolean,
    is_integer,
    is_list,
    is_map,
    is_null,
    is_scalar,
    is_text,
    items,
    read_documents,
    refusal_of,
    suggestion,
    text_of,
    unknown_keys,
    walk,
)
from vetro.packages.forms.vocabulary import ATTRIBUTES, TYPES
from vetro.yaql import ast, is_accident

_TOP = ("Version", "Format", "Application", "Templates", "Forms", "Parameters", "ParametersSource")
_OLD = ("forms", "Forms", "unitTemplates", "Version", "Format")
_TEXTS = ("label", "description", "description_title", "help_text", "empty_value_message")
_NUMBERS = ("min_length", "max_length", "min_value", "max_value")
_CLASS_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+(?:/\S+)?\Z")
_OLD_VERSION = re.compile(r"1(\.\d+)?\Z")
_VERSION = re.compile(r"2(\.[0-6])?\Z")
_PAGE_KEYS = ("fields", "validators", "region")
_KNOWN_VARIABLES = frozenset(["", "forms", "index", "1", "2", "3"])


def check_form(content: bytes, findings: Findings) -> bool:
    """Report all findings of a UI definition; returns whether it seems to be of version 2."""
    documents = read_documents(content, findings)
    if documents is None:
        return True
    if len(documents) > 1:
        findings.add("E005", "a form is one document", documents[1])
    if not documents:
        findings.add("E020", "the form is empty: Application is required")
        return True
    root = documents[0]
    if not is_map(root):
        findings.add("E004", "a form is a map", root)
        return True
    return _FormCheck(findings).check(root)


class _FormCheck:
    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.pages: dict[str, Any] = {}
        self.trees: dict[int, ast.Expression] = {}
        """The expressions of the form, by the ids of their nodes."""

    def check(self, root: object) -> bool:
        """Check everything; returns whether the form is of version 2."""
        add = self.findings.add
        version = get(root, "Version")
        if version is None:
            version = get(root, "Format")
        text = "2.6" if version is None else text_of(version) or ""
        old = _OLD_VERSION.match(text) is not None or (
            version is None
            and get(root, "Application") is None
            and (get(root, "forms") is not None or get(root, "unitTemplates") is not None)
        )
        if not old and not _VERSION.match(text):
            add(
                "W082",
                f"version {text} of UI definitions is not known: 1 and 2 to 2.6 are",
                version,
            )
        unknown_keys(root, _OLD if old else _TOP, "a form", self.findings, "W010")
        forms = get(root, "Forms")
        if forms is None and old:
            forms = get(root, "forms")
        self._forms(forms)
        scalars = [item for item in walk(root) if is_scalar(item)]
        for item in scalars:
            if (tree := expression_of(item)) is not None:
                self.trees[id(item)] = tree
        if not old:
            self._application(get(root, "Application"), root)
            self._names(root, scalars)
        for item in scalars:
            self._scalar(item)
        return not old

    # -- pages and fields ----------------------------------------------------------------------

    def _forms(self, node: object) -> None:
        add = self.findings.add
        if node is None or is_null(node):
            return
        if not is_list(node):
            add("E004", "Forms is a list of pages", node)
            return
        for page in items(node):
            if not is_map(page) or len(entries(page)) != 1:
                add("E004", "a page is a map of one name", page)
                continue
            name, key, body = entries(page)[0]
            if name in self.pages:
                first = self.pages[name].start_mark.line + 1
                add("E085", f"the page {name} exists already, in line {first}", key)
            self.pages[name] = key
            if is_null(body):
                continue
            if not is_map(body):
                add("E004", f"page {name} is a map of {', '.join(_PAGE_KEYS)}", body)
                continue
            unknown_keys(body, _PAGE_KEYS, f"page {name}", self.findings)
            self._fields(name, get(body, "fields"))

    def _fields(self, page: str, node: object) -> None:
        if node is None or is_null(node):
            return
        if not is_list(node):
            self.findings.add("E004", f"the fields of {page} are a list", node)
            return
        seen: dict[str, object] = {}
        for item in items(node):
            if not is_map(item):
                self.findings.add("E004", f"a field of {page} is a map", item)
                continue
            self._field(page, item, seen)

    def _field(self, page: str, node: object, seen: dict[str, Any]) -> None:
        add = self.findings.add
        values = {_snake(name): (key, value) for name, key, value in entries(node)}
        for name in ("name", "type"):
            if name not in values:
                add("E020", f"a field of {page} has no {name}", node)
        title = text_of(values["name"][1]) if "name" in values else None
        what = f"{page}.{title or '?'}"
        if title is not None:
            if title in seen:
                first = seen[title].start_mark.line + 1
                add("E085", f"the field {what} exists already, in line {first}", node)
            seen[title] = node
        for name, (key, value) in values.items():
            if name not in ATTRIBUTES:
                hint = suggestion(name, ATTRIBUTES)
                add("W083", f"{what}: the attribute {text_of(key)} is not known{hint}", key)
            computed = expression_of(value) is not None
            if name == "name" and not is_text(value):
                add("E040", f"{what}: name is text", value)
            elif name in _TEXTS and not computed and not is_null(value) and not is_text(value):
                add("E040", f"{what}: {text_of(key)} is text", value)
            elif name in ("required", "hidden") and not computed and not is_boolean(value):
                add("E081", f"{what}: {name} is true or false", value)
            elif name in _NUMBERS and not computed and not is_integer(value):
                add("E082", f"{what}: {text_of(key)} is a whole number", value)
            elif name == "type":
                self._type(what, value)

    def _type(self, what: str, node: object) -> None:
        for item in items(node) if is_list(node) else [node]:
            text = text_of(item)
            if text is None or not is_text(item):
                self.findings.add("E100", f"{what}: a type is text", item)
            elif text in TYPES or _CLASS_NAME.match(text) or expression_of(item) is not None:
                continue
            elif "." in text:
                self.findings.add("E100", f"{what}: {text!r} is neither a type nor a class", item)
            else:
                hint = suggestion(text, TYPES)
                self.findings.add("W100", f"{what}: the type {text} is not known{hint}", item)

    # -- the application and its names ---------------------------------------------------------

    def _application(self, node: object, root: object) -> None:
        if node is None:
            self.findings.add("E020", "Application section is required", root)
            return
        if not is_map(node):
            self.findings.add("E084", "Application is a map", node)
            return
        for name, key, _ in entries(node):
            if name != "?" and not name.isidentifier() and expression_of(key) is None:
                self.findings.add("E083", f"{name!r} is not a property of an application", key)

    def _names(self, root: object, scalars: list[Any]) -> None:
        templates = self._table(root, "Templates")
        parameters = self._table(root, "Parameters")
        known = {*templates, *parameters, *_KNOWN_VARIABLES}
        dynamic = get(root, "ParametersSource") is not None
        used: set[str] = set()
        for item in scalars:
            tree = self.trees.get(id(item))
            if tree is None:
                continue
            own = set(_bound(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.Variable):
                    used.add(node.name)
                    if node.name not in known and node.name not in own and not dynamic:
                        hint = suggestion(node.name, known)
                        self.findings.add(
                            "E086", f"there is no template or parameter ${node.name}{hint}", item
                        )
                elif isinstance(node, ast.Call) and node.name == "ref" and node.arguments:
                    first = node.arguments[0]
                    name = first.name if isinstance(first, ast.Keyword) else ""
                    if isinstance(first, ast.Constant):
                        name = str(first.value)
                    used.add(name)
                    if name and name not in templates:
                        hint = suggestion(name, templates)
                        self.findings.add("E086", f"ref(): there is no template {name}{hint}", item)
        for name, key in templates.items():
            if name not in used:
                self.findings.add("W085", f"the template {name} is not used", key)
        for section in ("Application", "Templates"):
            self._pages_named(get(root, section))

    def _table(self, root: object, name: str) -> dict[str, object]:
        node = get(root, name)
        if node is None or is_null(node):
            return {}
        if not is_map(node):
            self.findings.add("E004", f"{name} is a map", node)
            return {}
        return {text: key for text, key, _ in entries(node)}

    def _pages_named(self, section: object) -> None:
        if section is None or not self.pages:
            return
        for item in walk(section):
            tree = self.trees.get(id(item))
            for page in () if tree is None else _pages_of(tree):
                if page not in self.pages:
                    hint = suggestion(page, self.pages)
                    self.findings.add("E086", f"there is no page {page}{hint}", item)

    def _scalar(self, node: object) -> None:
        tree = self.trees.get(id(node))
        if tree is not None and is_accident(tree):
            self.findings.add(
                "W203",
                f"{text_of(node)!r} is an expression, not text: quote it if it is meant as text",
                node,
            )
        reason = None if tree is not None else refusal_of(node)
        if reason is not None:
            self.findings.add("W202", f"{text_of(node)!r} is not an expression: {reason}", node)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


def _bound(tree: ast.Expression) -> Iterator[str]:
    """Variables that the expression itself binds (`let(x => 1) -> $x`, `.as($ => x)`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Pair):
            for part in (node.key, node.value):
                if isinstance(part, ast.Keyword):
                    yield part.name
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value
        elif isinstance(node, ast.MethodCall) and node.name == "unpack":
            for argument in node.arguments:
                if isinstance(argument, ast.Keyword):
                    yield argument.name


def _pages_of(tree: ast.Expression) -> Iterator[str]:
    """`page` of each `$.page` outside method arguments, which may rebind `$`."""
    stack: list[ast.Node] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Property) and isinstance(node.target, ast.Variable):
            if node.target.name in ("", "forms"):
                yield node.name
        elif isinstance(node, ast.MethodCall):
            stack.append(node.target)
        elif isinstance(node, ast.Arrow):
            stack.append(node.left)
        else:
            stack.extend(node.children())
