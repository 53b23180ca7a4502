"""YAML for the lint: nodes with places, repeated keys kept, expressions distinguished from text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    MappingNode,
    ScalarNode,
    SequenceNode,
    compose_yaml,
)
from vetro.muranopl import yaml_hint
from vetro.packages.check_codes import CODES
from vetro.packages.errors import PackageError
from vetro.yaql import STANDARD, YaqlException, ast, parse

LIMITS = DocumentLimits(bytes=4 * 2**20, aliases=1000)
_STR = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_CERTAINLY_TEXT = re.compile(r"[\s\w.:]*\Z")


# Not frozen: many are made, and a frozen one takes four times as long.
@dataclass(unsafe_hash=True)
class Finding:
    """One mistake; ``file`` is relative to the package, lines and columns count from 1."""

    level: Literal["error", "warning"]
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Findings:
    """Collects the findings of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Finding] = []
        self.refusals: list[Finding] = []
        """Those with which a package cannot be opened."""

    def add(
        self,
        code: str,
        message: str,
        node: object = None,
        *,
        level: Literal["error", "warning"] | None = None,
    ) -> None:
        """Add a finding at a node, or for the whole file; `level` overrides that of the code."""
        assert code in CODES, code
        mark = getattr(node, "start_mark", None)
        self.found.append(
            Finding(
                level or ("error" if code.startswith("E") else "warning"),
                code,
                message,
                self.file,
                None if mark is None else mark.line + 1,
                None if mark is None else mark.column + 1,
            )
        )

    def refuse(self, code: str, message: str, node: object = None) -> None:
        """Add a finding with which a package cannot be opened."""
        self.add(code, message, node)
        self.refusals.append(self.found[-1])

    def refuse_document(self, error: DocumentError, hint: str | None = None) -> None:
        """Refuse a document that cannot be read."""
        code = "E003" if isinstance(error, DocumentTooLarge) else "E002"
        problem = error.message.removeprefix("not YAML: ")
        message = f"{problem}; {hint}" if hint else problem
        made = Finding("error", code, message, self.file, error.line, error.column)
        self.found.append(made)
        self.refusals.append(made)

    def add_error(self, code: str, error: PackageError) -> None:
        """Add what a reader of the package complains of, at its place."""
        assert code in CODES, code
        found = Finding("error", code, error.problem, self.file, error.line, error.column)
        self.found.append(found)


def read_documents(
    content: bytes, findings: Findings, limits: DocumentLimits = LIMITS
) -> list[Any] | None:
    """The nodes of every document; None (with a finding) when the file is not YAML."""
    maps: list[MappingNode] = []
    try:
        nodes = compose_yaml(content, limits, maps)
    except DocumentError as error:
        hint = None
        if error.line is not None and not isinstance(error, DocumentTooLarge):
            hint = yaml_hint(content.decode("utf-8-sig", errors="replace"), error.line - 1)
        findings.refuse_document(error, hint)
        return None
    found = [node for node in nodes if not is_null(node)]
    _duplicates(maps, found, findings)
    return found


def _duplicates(maps: list[Any], roots: list[Any], findings: Findings) -> None:
    heads = {id(root) for root in roots}
    for node in maps:
        # Nearly all maps have none: a set says so in a third of the time.
        keys = {(key.tag, key.value) for key, _ in node.value if key.__class__ is ScalarNode}
        if len(keys) == len(node.value):
            continue
        seen: dict[tuple[str, str], Any] = {}
        # Deeper inside, the last one has always won when a package is opened.
        report = findings.refuse if id(node) in heads else findings.add
        for key, _ in node.value:
            if key.__class__ is not ScalarNode or key.value == "<<":
                continue
            first = seen.setdefault((key.tag, key.value), key)
            if first is not key:
                report(
                    "E006",
                    f"the key {key.value} appears twice: first in line "
                    f"{first.start_mark.line + 1}, column {first.start_mark.column + 1}",
                    key,
                )


def walk(root: object) -> Iterator[Any]:
    """Every node once, keys included, without recursion."""
    stack: list[Any] = [root]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node.__class__ is MappingNode:
            for pair in reversed(node.value):
                stack += pair[::-1]
        elif node.__class__ is SequenceNode:
            stack += reversed(node.value)


def pairs(node: Any) -> list[tuple[Any, Any]]:
    """Key and value nodes of a map, in order."""
    return node.value


def items(node: Any) -> list[Any]:
    """The nodes of a list."""
    return node.value


def entries(node: Any) -> list[tuple[str, Any, Any]]:
    """Key text, key node and value node of a map."""
    return [(key.value, key, value) for key, value in node.value if key.__class__ is ScalarNode]


def get(node: Any, name: str) -> Any:
    """The value node of a key, or None."""
    for key, value in node.value:
        if key.__class__ is ScalarNode and key.value == name:
            return value
    return None


def is_map(node: object) -> bool:
    """Whether the node is a map."""
    return isinstance(node, MappingNode)


def is_list(node: object) -> bool:
    """Whether the node is a list."""
    return isinstance(node, SequenceNode)


def is_scalar(node: object) -> bool:
    """Whether the node is a scalar."""
    return isinstance(node, ScalarNode)


def is_null(node: object) -> bool:
    """Whether the node is empty or null."""
    return node is None or (isinstance(node, ScalarNode) and node.tag == _NULL)


def is_text(node: object) -> bool:
    """Whether the node is text (an expression is text, too)."""
    return isinstance(node, ScalarNode) and node.tag in (_STR, "!yaql", "!")


def is_boolean(node: object) -> bool:
    """Whether the node is true or false."""
    return isinstance(node, ScalarNode) and node.tag.endswith(":bool")


def is_integer(node: object) -> bool:
    """Whether the node is a whole number."""
    return isinstance(node, ScalarNode) and node.tag.endswith(":int")


def text_of(node: Any) -> str | None:
    """The text of a scalar, as written; None for other nodes."""
    return node.value if node.__class__ is ScalarNode else None


def expression_of(node: Any) -> ast.Expression | None:
    """The tree of a scalar that is an expression of a form."""
    text = text_of(node)
    if text is None:
        return None
    if node.tag != "!yaql" and (
        node.style or node.tag != _STR or text.isalnum() or _CERTAINLY_TEXT.match(text)
    ):
        return None
    try:
        return parse(text, STANDARD)
    except (YaqlException, RecursionError):
        return None


def refusal_of(node: Any) -> str | None:
    """Why a scalar that looks like an expression is not one; None when it does not look so."""
    text = text_of(node)
    if text is None or (node.tag != "!yaql" and (node.style or "$" not in text)):
        return None
    try:
        parse(text, STANDARD)
    except YaqlException as error:
        return str(error.message)
    except RecursionError:
        return "nested too deep"
    return None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing."""
    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_keys(
    node: object, known: Collection[str], what: str, findings: Findings, code: str = "E021"
) -> None:
    """Add a finding for each unknown key of a map."""
    for name, key, _ in entries(node):
        if name not in known:
            findings.add(code, f"{what} has no key {name}{suggestion(name, known)}", key)
