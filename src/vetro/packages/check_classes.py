"""Lint of class files: every wrong declaration at once (muranopl.md sections 2, 6, 8, 18)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from vetro.packages.check_code import CodeCheck, check_variables
from vetro.packages.check_manifest import check_class_name
from vetro.packages.check_yaml import (
    CODE,
    Findings,
    entries,
    get,
    is_boolean,
    is_list,
    is_map,
    is_null,
    is_quoted_expression,
    is_scalar,
    is_text,
    items,
    read_documents,
    suggestion,
    text_of,
    unknown_keys,
    walk,
)

_CLASS_KEYS = (
    "Name",
    "Namespaces",
    "Extends",
    "Usage",
    "Properties",
    "Methods",
    "Workflow",
    "Import",
    "Meta",
    "Cardinality",
    "Applies",
    "Inherited",
)
_PROPERTY_KEYS = ("Contract", "Usage", "Default", "Meta")
_METHOD_KEYS = ("Arguments", "Body", "Usage", "Scope", "Meta")
_PROPERTY_USAGES = ("In", "Out", "InOut", "Const", "Static", "Runtime", "Config")
_METHOD_USAGES = ("Runtime", "Static", "Extension", "Action")
_ARGUMENT_USAGES = ("Standard", "VarArgs", "KwArgs")
_TARGETS = ("Package", "Type", "Method", "Property", "Argument", "All")
_TYPE_NAME = re.compile(r"(?:(?:[A-Za-z_]\w*|=)?:)?[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_PREFIX = re.compile(r"(?:[A-Za-z_]\w*|=)\Z")
_NAMESPACE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_MEMBER = re.compile(r"[^\W\d]\w*\Z")
_METHOD = re.compile(r"(?:\.init|\.destroy|[^\W\d]\w*)\Z")


def check_class_file(
    content: bytes, findings: Findings, *, format_: tuple[int, int], wanted: Collection[str]
) -> None:
    """All findings of a file. `wanted`: the classes that the manifest declares in it."""
    documents = read_documents(content, findings)
    if documents is None:
        return
    default = ""
    declared: set[str] = set()
    unnamed = 0
    for document in documents:
        if not is_map(document):
            findings.add("E004", "a class document is a map", document)
            continue
        namespaces = get(document, "Namespaces")
        if namespaces is not None:
            default = _namespaces(namespaces, findings)
            if len(entries(document)) == 1:
                continue
        name = _ClassCheck(findings, format_).document(document)
        if name is None:
            unnamed += 1
        elif ":" in name:
            declared.add(name.rpartition(":")[2])
        elif "." in name or not default:
            declared.add(name)
        else:
            declared.add(f"{default}.{name}")
    if findings.has_errors or unnamed:
        return
    for name in wanted:
        bare = name.rpartition(".")[2]
        if name not in declared and bare not in declared:
            found = ", ".join(sorted(declared)) or "none"
            findings.add("E051", f"the file does not declare {name}; it has {found}")


def _namespaces(node: Any, findings: Findings) -> str:
    """Check the map; returns the `=` namespace."""
    if is_null(node):
        return ""
    if not is_map(node):
        findings.add("E044", "Namespaces is a map of prefixes", node)
        return ""
    default = ""
    for prefix, key, value in entries(node):
        if not _PREFIX.match(prefix):
            findings.add("E060", f"{prefix!r} is not a namespace prefix", key)
        text = text_of(value)
        if not is_null(value) and text != "" and (text is None or not _NAMESPACE.match(text)):
            findings.add("W060", f"{text!r} is not a namespace", value)
        elif prefix == "=":
            default = "" if is_null(value) else text or ""
    return default


class _ClassCheck:
    def __init__(self, findings: Findings, format_: tuple[int, int]) -> None:
        self.findings = findings
        self.format = format_

    def document(self, node: Any) -> str | None:
        """Check one class; returns its name as written."""
        add = self.findings.add
        unknown_keys(node, _CLASS_KEYS, "a class", self.findings, "W010")
        name = get(node, "Name")
        written: str | None = None
        if name is not None and not is_null(name):
            written = text_of(name)
            if written is None or not is_text(name):
                add("E011", "a class name is text", name)
                written = None
            else:
                check_class_name(written, name, self.findings)
        usage = get(node, "Usage")
        if usage is not None and text_of(usage) not in ("Class", "Meta"):
            add("E043", f"Usage of a class is Class or Meta, not {text_of(usage)!r}", usage)
        for key in ("Extends", "Import"):
            self._type_names(get(node, key), key)
        self._meta_keys(node)
        self._properties(get(node, "Properties"))
        for key in ("Methods", "Workflow"):
            self._methods(get(node, key), key)
        self._meta(get(node, "Meta"))
        return written

    def _type_names(self, node: Any, what: str) -> None:
        if node is None or is_null(node):
            return
        for item in items(node) if is_list(node) else [node]:
            text = text_of(item)
            if not is_text(item) or text is None or not _TYPE_NAME.match(text):
                self.findings.add("E025", f"{what} takes class names, not {text!r}", item)

    def _meta_keys(self, node: Any) -> None:
        add = self.findings.add
        cardinality = get(node, "Cardinality")
        if cardinality is not None and text_of(cardinality) not in ("One", "Many"):
            add("E027", "Cardinality is One or Many", cardinality)
        inherited = get(node, "Inherited")
        if inherited is not None and not is_boolean(inherited):
            add("E027", "Inherited is true or false", inherited)
        applies = get(node, "Applies")
        if applies is not None:
            for item in items(applies) if is_list(applies) else [applies]:
                text = text_of(item)
                if text not in _TARGETS:
                    hint = suggestion(str(text), _TARGETS)
                    add("E028", f"metadata applies to {', '.join(_TARGETS)}{hint}", item)

    def _meta(self, node: Any) -> None:
        if node is None or is_null(node):
            return
        for item in items(node) if is_list(node) else [node]:
            if is_map(item):
                for name, key, value in entries(item):
                    if not _TYPE_NAME.match(name):
                        self.findings.add("E004", f"Meta takes class names, not {name!r}", key)
                    CodeCheck(self.findings).value(value)
            elif not is_text(item) or not _TYPE_NAME.match(text_of(item) or ""):
                self.findings.add("E004", "Meta takes class names, or maps of one", item)

    # -- properties ----------------------------------------------------------------------------

    def _properties(self, node: Any) -> None:
        if node is None or is_null(node):
            return
        if not is_map(node):
            self.findings.add("E026", "Properties is a map", node)
            return
        for name, key, value in entries(node):
            if not _MEMBER.match(name):
                self.findings.add("E054", f"{name!r} is not the name of a property", key)
            self._property(name, key, value)

    def _property(self, name: str, key: Any, node: Any) -> None:
        add = self.findings.add
        if not is_map(node):
            add("E047", f"property {name} has no Contract", key)
            return
        unknown_keys(node, _PROPERTY_KEYS, f"property {name}", self.findings)
        if get(node, "Contract") is None:
            add("E047", f"property {name} has no Contract", key)
        self._contract(get(node, "Contract"))
        usage = get(node, "Usage")
        if usage is not None and text_of(usage) not in _PROPERTY_USAGES:
            hint = suggestion(str(text_of(usage)), _PROPERTY_USAGES)
            add("E042", f"the Usage of {name} is one of {', '.join(_PROPERTY_USAGES)}{hint}", usage)
        default = get(node, "Default")
        if default is not None:
            CodeCheck(self.findings).value(default)
        self._meta(get(node, "Meta"))

    def _contract(self, node: Any) -> None:
        if node is None:
            return
        for item in walk(node):
            reason = CODE.refusal(item)
            if reason is not None and CODE.expression(item) is None:
                self.findings.add("W048", f"{text_of(item)!r} is not a contract: {reason}", item)
            elif is_quoted_expression(item):
                self.findings.add(
                    "W049",
                    f"{text_of(item)!r} in quotes is the one text that is allowed: write it without",
                    item,
                )

    # -- methods -------------------------------------------------------------------------------

    def _methods(self, node: Any, what: str) -> None:
        if node is None or is_null(node):
            return
        if not is_map(node):
            self.findings.add("E046", f"{what} is a map", node)
            return
        for name, key, value in entries(node):
            if not _METHOD.match(name):
                self.findings.add("E054", f"{name!r} is not the name of a method", key)
            if is_null(value):
                continue
            if not is_map(value):
                self.findings.add(
                    "E046", f"method {name} is a map of {', '.join(_METHOD_KEYS)}", value
                )
                continue
            self._method(name, value)

    def _method(self, name: str, node: Any) -> None:
        add = self.findings.add
        unknown_keys(node, _METHOD_KEYS, f"method {name}", self.findings)
        usage = get(node, "Usage")
        text = text_of(usage)
        if usage is not None:
            if text not in _METHOD_USAGES:
                hint = suggestion(str(text), _METHOD_USAGES)
                add(
                    "W045",
                    f"the Usage of {name} is one of {', '.join(_METHOD_USAGES)}{hint}",
                    usage,
                )
            elif text == "Action" and self.format >= (1, 4):
                add("W045", f"{name}: write `Scope: Public` instead of `Usage: Action`", usage)
            elif text in ("Static", "Extension") and self.format < (1, 3):
                add("W045", f"{name}: Usage {text} is newer than the package's format", usage)
        scope = get(node, "Scope")
        if scope is not None:
            if text_of(scope) not in ("Session", "Public"):
                add("E044", f"the Scope of {name} is Session or Public", scope)
            elif self.format < (1, 4):
                add("E044", f"{name}: Scope belongs to format 1.4", scope, level="warning")
        self._arguments(name, get(node, "Arguments"))
        body = get(node, "Body")
        if body is not None and is_scalar(body) and not is_null(body) and not is_text(body):
            add("E045", f"the Body of {name} is a statement or a list of them", body)
        elif body is not None:
            CodeCheck(self.findings).block(body)
            check_variables(body, _argument_names(get(node, "Arguments")), self.findings)
        self._meta(get(node, "Meta"))

    def _arguments(self, method: str, node: Any) -> None:
        add = self.findings.add
        if node is None or is_null(node):
            return
        if is_map(node):
            if len(entries(node)) > 1:
                add("E048", f"the arguments of {method} have an order: write a list", node)
            found = entries(node)
        elif is_list(node):
            found: list[tuple[str, Any, Any]] = []
            for item in items(node):
                if not is_map(item) or not entries(item):
                    add("E046", f"an argument of {method} is a map of its name", item)
                    continue
                if len(entries(item)) > 1:
                    add("E048", f"one argument of {method} a dash: their order counts", item)
                found.extend(entries(item))
        else:
            add("E046", f"the arguments of {method} are a list", node)
            return
        for name, key, value in found:
            self._argument(method, name, key, value)

    def _argument(self, method: str, name: str, key: Any, node: Any) -> None:
        add = self.findings.add
        if not _MEMBER.match(name):
            add("E054", f"{name!r} is not the name of an argument", key)
        if not is_map(node) or get(node, "Contract") is None:
            add("E046", f"argument {name} of {method} has no Contract", key)
            if not is_map(node):
                return
        unknown_keys(node, _PROPERTY_KEYS, f"argument {name}", self.findings)
        self._contract(get(node, "Contract"))
        usage = get(node, "Usage")
        if usage is not None:
            if text_of(usage) not in _ARGUMENT_USAGES:
                add("E053", f"the Usage of {name} is one of {', '.join(_ARGUMENT_USAGES)}", usage)
            elif self.format < (1, 4):
                add("E052", f"{name}: Usage of arguments belongs to format 1.4", usage)
        default = get(node, "Default")
        if default is not None:
            CodeCheck(self.findings).value(default)
        self._meta(get(node, "Meta"))


def _argument_names(node: Any) -> list[str]:
    maps = items(node) if is_list(node) else [node]
    return [name for item in maps if is_map(item) for name, _, _ in entries(item)]
