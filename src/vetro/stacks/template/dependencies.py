"""Dependency graphs: `requires[x]` are the nodes that must be done before `x`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TypeVar

from vetro.stacks.errors import DependencyCycle

Node = TypeVar("Node", str, int)


def order(requires: Mapping[Node, Set[Node]]) -> list[Node]:
    """The nodes so that each follows everything it requires; otherwise in the given order.

    Requirements that are not nodes are ignored. Raises `DependencyCycle` with one circle.
    """
    done: set[Node] = set()
    path: list[Node] = []
    result: list[Node] = []
    places = {node: place for place, node in enumerate(requires)}

    for start in requires:
        # Depth first with an explicit stack: templates can be deeper than Python's recursion.
        stack: list[tuple[Node, list[Node]]] = [(start, _needs(requires, start, places))]
        if start in done:
            continue
        path.append(start)
        while stack:
            node, needs = stack[-1]
            if not needs:
                stack.pop()
                path.pop()
                if node not in done:
                    done.add(node)
                    result.append(node)
                continue
            need = needs.pop(0)
            if need in done:
                continue
            if need in path:
                circle = [*path[path.index(need) :], need]
                raise DependencyCycle([str(one) for one in circle])
            path.append(need)
            stack.append((need, _needs(requires, need, places)))
    return result


def reverse(requires: Mapping[Node, Set[Node]]) -> dict[Node, set[Node]]:
    """The graph turned around: what must be gone before a node may go."""
    result: dict[Node, set[Node]] = {node: set() for node in requires}
    for node, needs in requires.items():
        for need in needs:
            if need in result:
                result[need].add(node)
    return result


def _needs(
    requires: Mapping[Node, Set[Node]], node: Node, places: Mapping[Node, int] | None = None
) -> list[Node]:
    needed = requires[node]
    if len(needed) < 2:
        return [other for other in needed if other in requires]
    order = {node: place for place, node in enumerate(requires)} if places is None else places
    return sorted((other for other in needed if other in order), key=order.__getitem__)
