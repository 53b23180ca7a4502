"""Lint of code blocks: every wrong statement of a body at once (muranopl.md sections 9-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from vetro.packages.check_yaml import (
    CODE,
    Findings,
    entries,
    get,
    is_accident,
    is_list,
    is_map,
    is_null,
    is_scalar,
    is_text,
    items,
    pairs,
    suggestion,
    text_of,
    walk,
)
from vetro.yaql import ast

# Construct to its required and optional keys.
_CONSTRUCTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Return": ((), ()),
    "If": (("Then",), ("Else",)),
    "While": (("Do",), ()),
    "For": (("In", "Do"), ()),
    "Repeat": (("Do",), ()),
    "Break": ((), ()),
    "Continue": ((), ()),
    "Match": (("Value",), ("Default",)),
    "Switch": ((), ("Default",)),
    "Parallel": ((), ("Limit",)),
    "Try": ((), ("Catch", "Else", "Finally")),
    "Throw": ((), ("Message", "Extra", "Cause")),
    "Rethrow": ((), ()),
}
_PARTS = sorted({*_CONSTRUCTS, *(p for r, o in _CONSTRUCTS.values() for p in (*r, *o)), "Do"})


_COMPARISONS = frozenset(["=", "!=", "<", ">", "<=", ">="])
_OWN_VARIABLES = frozenset(["", "this", "_", *(str(number) for number in range(10))])
_MOCKS = frozenset(["inject", "withOriginal"])


def check_variables(body: Any, arguments: Iterable[str], findings: Findings) -> None:
    """W204 for each variable of a method that is not an argument and never assigned in it."""
    known = {*_OWN_VARIABLES, *arguments, *_assigned(body)}
    for node in walk(body):
        tree = CODE.expression(node)
        if tree is None:
            continue
        parts = list(ast.walk(tree))
        if any(isinstance(part, ast.Call) and part.name in _MOCKS for part in parts):
            continue  # its variables are those of the mocked method and its caller
        bound = {name for part in parts for name in _bound(part)}
        unknown = dict.fromkeys(part.name for part in parts if isinstance(part, ast.Variable))
        for name in unknown:
            if name not in known and name not in bound:
                hint = suggestion(name, known - _OWN_VARIABLES)
                findings.add("W204", f"nothing assigns ${name}: it is null{hint}", node)


def _bound(part: ast.Node) -> list[str]:
    """Names that a part of an expression defines for another: `let(x => 1)`, `unpack(a, b)`."""
    if isinstance(part, ast.Pair):
        return [item.name for item in (part.key, part.value) if isinstance(item, ast.Keyword)]
    if isinstance(part, ast.MethodCall) and part.name == "unpack":
        return [item.name for item in part.arguments if isinstance(item, ast.Keyword)]
    return []


def _assigned(body: Any) -> set[str]:
    names: set[str] = set()
    for node in walk(body):
        if not is_map(node):
            continue
        for key, value in pairs(node):
            tree = CODE.expression(key)
            if isinstance(tree, ast.MethodCall):
                tree = tree.target
            while isinstance(tree, (ast.Property, ast.Index)):
                tree = tree.target
            if isinstance(tree, ast.Variable):
                names.add(tree.name)
            elif text_of(key) in ("For", "As"):
                names.add((text_of(value) or "").removeprefix("$"))
    return names


class CodeCheck:
    """Walks the statements of one method."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def block(self, node: Any, loops: int = 0) -> None:
        """Check a statement or a list of statements."""
        if is_null(node):
            return
        for item in items(node) if is_list(node) else [node]:
            self.statement(item, loops)

    def statement(self, node: Any, loops: int) -> None:
        """Check one statement."""
        add = self.findings.add
        if is_list(node):
            add("E204", "a list is no statement; write Do: to nest a block", node)
        elif is_scalar(node):
            self._scalar(node)
        elif not pairs(node):
            add("E204", "an empty map is no statement", node)
        else:
            self._map(node, loops)

    def _scalar(self, node: Any) -> None:
        tree = CODE.expression(node)
        if tree is not None:
            self.expression(node)
            if isinstance(tree, ast.Binary) and tree.operator in _COMPARISONS:
                name = str(text_of(node)).partition(tree.operator)[0].strip()
                self.findings.add(
                    "W205", f"the result is dropped; an assignment is `{name}: …`", node
                )
            return
        text = str(text_of(node))
        reason = CODE.refusal(node)
        detail = f" ({reason})" if reason else ""
        self.findings.add("E205", f"{text!r} is text, not an expression{detail}", node)

    def _map(self, node: Any, loops: int) -> None:
        add = self.findings.add
        keys = [key for key, _ in pairs(node)]
        expressions = [key for key in keys if CODE.expression(key) is not None]
        if expressions:
            if len(keys) > 1:
                add("E204", "a statement is one assignment: begin each with its own dash", keys[1])
                return
            self._assignment(keys[0])
            self.value(pairs(node)[0][1])
            return
        names = [name for name, _, _ in entries(node)]
        construct = next((name for name in names if name in _CONSTRUCTS), None)
        if construct is None and names == ["Do"]:
            self.block(get(node, "Do"), loops)
            return
        if construct is None:
            for name, key, _ in entries(node):
                if name.startswith("$"):
                    add("E204", f"{name!r} is no assignment target", key)
                elif name not in _PARTS:
                    add("E201", f"no statement has the key {name}{suggestion(name, _PARTS)}", key)
            if all(name in _PARTS for name in names):
                add("E204", f"{', '.join(names)} without the statement it belongs to", node)
            return
        required, optional = _CONSTRUCTS[construct]
        allowed = (construct, *required, *optional)
        for name, key, _ in entries(node):
            if name not in allowed:
                add("E201", f"{construct} has no part {name}{suggestion(name, allowed)}", key)
        for name in required:
            if name not in names:
                add("E204", f"{construct} needs {name}", node)
        _CHECKS[construct](self, node, loops)

    def _assignment(self, key: Any) -> None:
        whole = tree = CODE.expression(key)
        if isinstance(tree, ast.MethodCall) and tree.name in ("append", "insert"):
            tree = tree.target
        while isinstance(tree, (ast.Property, ast.Index)):
            tree = tree.target
        is_type = isinstance(tree, ast.TypeLiteral) or (
            isinstance(tree, ast.Call) and tree.name == "type"
        )
        if not isinstance(tree, ast.Variable) and not is_type:
            self.findings.add("E204", f"{text_of(key)!r} is no assignment target", key)
        elif whole is tree and text_of(key) in ("$", "$this"):
            self.findings.add("E204", f"{text_of(key)} cannot be assigned", key)

    # -- values --------------------------------------------------------------------------------

    def value(self, node: Any) -> None:
        """Check the expressions anywhere in a structure."""
        for item in walk(node):
            if is_scalar(item):
                self.expression(item)

    def expression(self, node: Any) -> None:
        """Check one scalar: accidental expressions, and expressions that do not parse."""
        tree = CODE.expression(node)
        if tree is not None:
            if is_accident(tree) and getattr(node, "tag", "") != "!yaql":
                self.findings.add(
                    "W203",
                    f"{text_of(node)!r} is an expression, not text: quote it if it is meant as text",
                    node,
                )
            return
        reason = CODE.refusal(node)
        if reason is not None:
            self.findings.add(
                "E002" if getattr(node, "tag", "") == "!yaql" else "W202",
                f"{text_of(node)!r} is not an expression: {reason}",
                node,
            )

    # -- constructs ----------------------------------------------------------------------------

    def return_(self, node: Any, loops: int) -> None:
        self.value(get(node, "Return"))

    def if_(self, node: Any, loops: int) -> None:
        self.value(get(node, "If"))
        for part in ("Then", "Else"):
            self._optional(node, part, loops)

    def while_(self, node: Any, loops: int) -> None:
        condition = get(node, "While")
        if CODE.expression(condition) is None:
            self.findings.add("E203", "the condition of While is an expression", condition)
        else:
            self.expression(condition)
        self._optional(node, "Do", loops + 1)

    def for_(self, node: Any, loops: int) -> None:
        name = get(node, "For")
        text = text_of(name) or ""
        if not is_text(name) or CODE.expression(name) is not None or not text.isidentifier():
            self.findings.add("E203", "For takes the plain name of a variable, without $", name)
        collection = get(node, "In")
        if collection is not None:
            self.value(collection)
        self._optional(node, "Do", loops + 1)

    def repeat(self, node: Any, loops: int) -> None:
        count = get(node, "Repeat")
        number = getattr(count, "tag", "").endswith((":int", ":float"))
        if CODE.expression(count) is None and not number:
            self.findings.add("E203", "Repeat takes a number or an expression", count)
        self._optional(node, "Do", loops + 1)

    def leave(self, node: Any, loops: int) -> None:
        name, _, value = entries(node)[0]
        if not is_null(value):
            self.findings.add("E200", f"{name} takes no value", value)
        if loops == 0 and name != "Rethrow":
            self.findings.add("E206", f"{name} outside of a loop", node)

    def match(self, node: Any, loops: int) -> None:
        self._cases(get(node, "Match"), "Match", loops)
        if get(node, "Value") is not None:
            self.value(get(node, "Value"))
        self._optional(node, "Default", loops)

    def switch(self, node: Any, loops: int) -> None:
        self._cases(get(node, "Switch"), "Switch", loops)
        self._optional(node, "Default", loops)

    def _cases(self, table: Any, what: str, loops: int) -> None:
        if not is_map(table):
            self.findings.add("E203", f"{what} is a map from cases to blocks", table)
            return
        for key, body in pairs(table):
            if what == "Switch":
                self.value(key)
            self.block(body, loops)

    def parallel(self, node: Any, loops: int) -> None:
        self.block(get(node, "Parallel"), 0)
        if get(node, "Limit") is not None:
            self.value(get(node, "Limit"))

    def try_(self, node: Any, loops: int) -> None:
        for part in ("Try", "Else", "Finally"):
            self._optional(node, part, loops)
        caught = get(node, "Catch")
        if caught is None or is_null(caught):
            return
        for handler in items(caught) if is_list(caught) else [caught]:
            if is_null(handler):
                continue
            if not is_map(handler):
                self.findings.add("E203", "Catch is a map of With, As, Do", handler)
                continue
            for name, key, value in entries(handler):
                if name == "Do":
                    self.block(value, loops)
                elif name == "As":
                    text = (text_of(value) or "").removeprefix("$")
                    if not text.isidentifier():
                        self.findings.add("E203", "As takes the name of a variable", value)
                elif name == "With":
                    self._names(value)
                else:
                    hint = suggestion(name, ("With", "As", "Do"))
                    self.findings.add("E201", f"Catch has no part {name}{hint}", key)

    def throw(self, node: Any, loops: int) -> None:
        self._names(get(node, "Throw"))
        for part in ("Message", "Extra", "Cause"):
            value = get(node, part)
            if value is not None:
                self.value(value)

    def _names(self, node: Any) -> None:
        for item in items(node) if is_list(node) else [node]:
            if not is_text(item):
                self.findings.add("E203", "an exception's name is text", item)

    def _optional(self, node: Any, part: str, loops: int) -> None:
        value = get(node, part)
        if value is not None:
            self.block(value, loops)


_CHECKS: dict[str, Callable[[CodeCheck, Any, int], None]] = {
    "Return": CodeCheck.return_,
    "If": CodeCheck.if_,
    "While": CodeCheck.while_,
    "For": CodeCheck.for_,
    "Repeat": CodeCheck.repeat,
    "Break": CodeCheck.leave,
    "Continue": CodeCheck.leave,
    "Rethrow": CodeCheck.leave,
    "Match": CodeCheck.match,
    "Switch": CodeCheck.switch,
    "Parallel": CodeCheck.parallel,
    "Try": CodeCheck.try_,
    "Throw": CodeCheck.throw,
}
