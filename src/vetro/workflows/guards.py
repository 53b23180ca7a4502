"""A check of workflows: what a fragment of the stack may be guarded by ("Beyond upstream").

Each deployment rebuilds the stack's template from all fragments, so that what was removed from the model
disappears. A rule that queues its fragment only while a persistent attribute is missing, and then sets it,
leaves the fragment out the next time: its resources are silently removed. Only ``temp`` is a guard.
"""

from __future__ import annotations

from collections.abc import Iterator

from vetro.workflows.query_syntax import (
    Attribute,
    Comparison,
    Filter,
    Logic,
    Node,
    Not,
    parse_query,
)
from vetro.workflows.source import Element


def persistent_guards(root: Element) -> Iterator[tuple[int, str]]:
    """Line and message of each fragment with such a guard. ``root``: of a file that compiles."""
    pending: list[tuple[Element, frozenset[str]]] = [(root, frozenset())]
    while pending:
        element, guards = pending.pop()
        match = element.attributes.get("match")
        if element.tag == "rule" and match is not None:
            guards |= {name for name in _tested(match) if not name.startswith("temp.")}
        elif element.tag == "update-cf-stack":
            for name in sorted(guards & _set_on_success(element)):
                yield (
                    element.place.line,
                    f"the fragment is left out of the next deployment, and its resources are removed, because"
                    f" {name!r} outlives the deployment: let the rule ask for an attribute below 'temp'",
                )
        pending += [(child, guards) for child in reversed(element.elements())]


def _tested(match: str) -> Iterator[str]:
    """The dotted attributes that the conditions of an expression look at."""
    for segment in parse_query(match).segments:
        pending: list[Node] = []
        if isinstance(segment.selector, Filter):
            pending.append(segment.selector.condition)
        while pending:
            node = pending.pop()
            if isinstance(node, Attribute):
                yield ".".join(map(str, node.steps))
            elif isinstance(node, Not):
                pending.append(node.operand)
            elif isinstance(node, Logic):
                pending.extend(node.operands)
            elif isinstance(node, Comparison):
                pending += [node.left, node.right]


def _set_on_success(command: Element) -> set[str]:
    """The model paths that the success block of a command sets, without their prefixes."""
    blocks = [child for child in command.elements() if child.tag == "success"][:1]
    found: set[str] = set()
    while blocks:
        element = blocks.pop()
        path = element.attributes.get("path", "").strip().lstrip(":/")
        if element.tag == "set" and path and not path.startswith("#"):
            found.add(path)
        blocks += element.elements()
    return found
