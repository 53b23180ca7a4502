"""All packages that some packages need, in the order in which a catalog takes them (A10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vetro.muranopl import Version, version_spec
from vetro.packages.package import Package

Locate = Callable[[str, str | None], Package | None]
"""The package of a name whose version satisfies a spec; ``None``: there is none, or it is not needed
because the catalog has it (the caller keeps the difference)."""


Key = tuple[str, str]
"""Name and version of a package."""


@dataclass
class Closure:
    """``order``: every package once, each after what it requires, except within ``circles``."""

    order: list[Package] = field(default_factory=list[Package])
    circles: list[list[str]] = field(default_factory=list[list[str]])
    """Names of packages that require each other."""


def requirement_closure(roots: Iterable[Package], locate: Locate) -> Closure:
    """Roots and what they require, found breadth first by ``locate``.

    Two packages that require versions of a third that exclude each other bring both versions.
    """
    found: dict[Key, Package] = {}
    asked: set[tuple[str, str | None]] = set()
    queue = list(roots)
    for package in queue:
        found.setdefault((package.full_name, package.version), package)
    while queue:
        package = queue.pop(0)
        for name, spec in package.requirements.items():
            if _fitting(found, name, spec) or (name, spec) in asked:
                continue
            asked.add((name, spec))
            needed = locate(name, spec)
            if needed is not None:
                found[needed.full_name, needed.version] = needed
                queue.append(needed)
    edges = {
        key: [
            other
            for name, spec in package.requirements.items()
            for other in _fitting(found, name, spec)
        ]
        for key, package in found.items()
    }
    closure = Closure()
    for group in _components(edges):
        closure.order += [found[key] for key in group]
        if len(group) > 1:
            closure.circles.append(sorted(name for name, _ in group))
    return closure


def _fitting(found: dict[Key, Package], name: str, spec: str | None) -> list[Key]:
    wanted = version_spec(spec)
    return [key for key in found if key[0] == name and Version.parse(key[1]) in wanted]


def _components(edges: dict[Key, list[Key]]) -> list[list[Key]]:
    """Strongly connected components, each after those it requires (Tarjan, without recursion)."""
    number: dict[Key, int] = {}
    low: dict[Key, int] = {}
    stack: list[Key] = []
    done: set[Key] = set()
    result: list[list[Key]] = []
    for root in edges:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        work = [(root, iter(edges[root]))]
        while work:
            key, others = work[-1]
            for other in others:
                if other in done:
                    continue
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(edges[other])))
                    break
                low[key] = min(low[key], number[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[key])
                if low[key] == number[key]:
                    cut = stack.index(key)
                    group, stack = stack[cut:], stack[:cut]
                    done.update(group)
                    result.append(group)
    return result
