"""Parents that come in several versions (muranopl.md section 5).

A class may inherit classes of one package on two paths that require different versions of it. If
one of these versions satisfies both paths, the class gets parents that all use this version:
*virtual* classes, equal to the originals except for their own parents. The originals and the other
classes that inherit from them do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vetro.muranopl.syntax.findings import Finding

from .types import MuranoType

if TYPE_CHECKING:
    from vetro.muranopl.syntax.declarations import ClassDeclaration
    from vetro.muranopl.syntax.versions import VersionSpec

    from .types import MuranoPackage

Edge = tuple["MuranoPackage", "VersionSpec", MuranoType]
"""The inheriting package, the versions it accepts, and the parent class."""


def reconcile(
    package: MuranoPackage, declaration: ClassDeclaration, parents: Sequence[MuranoType]
) -> list[MuranoType]:
    """The parents of a class being built, in as few versions as its ancestry's requirements allow.

    Versions that no requirement unites stay unrelated classes; a finding reports them.
    """
    edges = list(_edges(package, parents))
    versions: dict[str, set[MuranoPackage]] = {}
    for _, _, parent in edges:
        versions.setdefault(parent.package.name, set()).add(parent.package)
    several = {name: found for name, found in versions.items() if len(found) > 1}
    if not several:
        return list(parents)
    builder = _Builder(_chosen(edges, several))
    made = [builder.parent(package, parent) for parent in parents]
    for name in sorted(several):
        left = {item.package for item in _ancestry(made) if item.package.name == name}
        if len(left) > 1:
            listed = ", ".join(sorted(item.version for item in left))
            package.runtime.classes.findings.append(
                Finding(
                    "W-versions",
                    f"{declaration.name} inherits from {name} in versions {listed}, which are "
                    "unrelated classes: no requirement selects one version for both",
                    declaration.position,
                )
            )
    return made


def _chosen(
    edges: Sequence[Edge], several: dict[str, set[MuranoPackage]]
) -> dict[tuple[MuranoPackage, str], MuranoPackage]:
    """For each inheriting package and inherited package name: the version to use.

    The version that satisfies most packages is chosen first, the higher one among equals.
    """
    chosen: dict[tuple[MuranoPackage, str], MuranoPackage] = {}
    for name, candidates in several.items():
        waiting = {
            child: spec
            for child, spec, parent in edges
            if parent.package.name == name != child.name
        }
        while waiting:
            suited = {
                item: [child for child, spec in waiting.items() if item.semantic_version in spec]
                for item in candidates
            }
            best = max(candidates, key=lambda item: (len(suited[item]), item.semantic_version))
            if not suited[best]:
                break
            for child in suited[best]:
                chosen[child, name] = best
                del waiting[child]
    return chosen


class _Builder:
    """Replaces parents and clones the classes whose ancestry changes."""

    def __init__(self, chosen: dict[tuple[MuranoPackage, str], MuranoPackage]) -> None:
        self._chosen = chosen
        self._made: dict[int, MuranoType] = {}

    def parent(self, package: MuranoPackage, parent: MuranoType) -> MuranoType:
        """The class to inherit from in place of `parent`, for a class of the package."""
        best = self._chosen.get((package, parent.package.name), parent.package)
        if best is not parent.package:
            parent = package.runtime.classes.own_type(best, parent.name) or parent
        return self._with_parents(parent)

    def _with_parents(self, type_: MuranoType) -> MuranoType:
        known = self._made.get(id(type_))
        if known is not None:
            return known
        parents = [self.parent(type_.package, parent) for parent in type_.parents]
        if all(one is other for one, other in zip(parents, type_.parents, strict=True)):
            made = type_
        else:
            made = MuranoType(type_.package, type_.name, type_.declaration, parents)
            if type_.native is not None:
                made.add_native(type_.native)
            for name, item in type_.properties.items():
                if item.is_static:  # one value per class and version
                    made.properties[name] = item
        self._made[id(type_)] = made
        return made


def _edges(package: MuranoPackage, parents: Iterable[MuranoType]) -> Iterable[Edge]:
    seen: set[int] = set()
    stack = [(package, parent) for parent in parents]
    while stack:
        child, parent = stack.pop()
        yield child, child.requirement_for(parent.package), parent
        if id(parent) not in seen:
            seen.add(id(parent))
            stack.extend((parent.package, above) for above in parent.parents)


def _ancestry(parents: Iterable[MuranoType]) -> Iterable[MuranoType]:
    for parent in parents:
        yield from parent.ancestors
