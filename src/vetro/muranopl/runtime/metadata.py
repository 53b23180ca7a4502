"""Metadata attached to packages, classes and members (muranopl.md section 18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vetro.muranopl.classes.types import Argument, Method, MuranoPackage, MuranoType, Property
from vetro.muranopl.model.loading import Transaction
from vetro.muranopl.syntax.blocks import constant_value, is_constant
from vetro.muranopl.syntax.declarations import MetaDeclaration
from vetro.muranopl.syntax.findings import Finding
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import DslSyntaxError, MuranoError, NoClassFound

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject

    from .run import Run

Subject = MuranoPackage | MuranoType | Property | Method | Argument
_TARGETS: dict[type[object], str] = {
    MuranoPackage: "Package",
    MuranoType: "Type",
    Property: "Property",
    Method: "Method",
    Argument: "Argument",
}


class MetaItem:
    """One item attached to something: the meta-class and its values."""

    __slots__ = ("declaration", "scope", "type")

    def __init__(
        self, scope: MuranoType | None, type_: MuranoType, declaration: MetaDeclaration
    ) -> None:
        self.scope = scope
        self.type = type_
        self.declaration = declaration


def own_items(subject: Subject) -> list[MetaItem]:
    """The items attached to a subject itself, checked against the meta-classes."""
    scope = _scope(subject)
    if isinstance(subject, MuranoPackage):
        declarations = subject.runtime.package_metas(subject)
        find: Callable[[str], MuranoType] = subject.find_type
    else:
        assert scope is not None
        declarations = (
            subject.declaration.meta if isinstance(subject, MuranoType) else subject.metas
        )
        find = scope.find_type
    items: list[MetaItem] = []
    for declaration in declarations:
        try:
            type_ = find(declaration.type_name)
        except NoClassFound as error:
            error.position = error.position or declaration.position
            error.lint_code = "E304"
            raise
        try:
            _check(type_, subject, declaration, items)
        except DslSyntaxError as error:
            error.lint_code = "E304"
            raise
        items.append(MetaItem(scope, type_, declaration))
    return items


def check_attached(type_: MuranoType) -> None:
    """Check everything attached in a class. Raises DslSyntaxError, NoClassFound."""
    if type_.declaration.meta:
        own_items(type_)
    for item in type_.properties.values():
        if item.metas:
            own_items(item)
    for method in type_.methods.values():
        if method.native is not None:
            check_method(method)


def check_method(method: Method) -> None:
    """Check everything attached to a method. Raises DslSyntaxError, NoClassFound."""
    if method.metas:
        own_items(method)
    for argument in method.arguments or ():
        if argument.metas:
            own_items(argument)


def _check(
    type_: MuranoType, subject: Subject, declaration: MetaDeclaration, before: Sequence[MetaItem]
) -> None:
    target = _TARGETS[type(subject)]
    if type_.usage != "Meta":
        raise DslSyntaxError(
            f"{type_.name} is not a meta-class", position=declaration.position,
            hint="a meta-class must have `Usage: Meta`",
        )  # fmt: skip
    if target not in type_.declaration.applies:
        raise DslSyntaxError(
            f"{type_.name} does not apply to a {target}", position=declaration.position
        )
    if type_.declaration.cardinality == "One" and any(item.type is type_ for item in before):
        raise DslSyntaxError(
            f"{type_.name} can be attached only once, but is attached twice",
            position=declaration.position,
        )


def items_of(subject: Subject) -> list[MetaItem]:
    """Own items and inherited ones."""
    return _items_of(subject, {})


def _items_of(subject: Subject, seen: dict[int, list[MetaItem]]) -> list[MetaItem]:
    """The same with a cache, `seen`: in diamonds many paths lead to one parent."""
    known = seen.get(id(subject))
    if known is None:
        known = seen[id(subject)] = _found_items(subject, seen)
    return known


def _found_items(subject: Subject, seen: dict[int, list[MetaItem]]) -> list[MetaItem]:
    own = own_items(subject)
    if isinstance(subject, (MuranoPackage, Argument)):
        return own
    inherited: list[MetaItem] = []
    for parent in _inherits_from(subject):
        if isinstance(parent, Method) and not _is_readable(parent):
            continue  # this method is refused, its overrides are not
        for item in _items_of(parent, seen):
            if not item.type.declaration.inherited:
                continue
            if item.type.declaration.cardinality == "One":
                if any(known.type is item.type for known in own):
                    continue
                clash = next((k for k in inherited if k.type is item.type), None)
                if clash is not None:
                    if clash.declaration is not item.declaration:
                        raise MuranoError(
                            f"{item.type.name} is inherited by {_describe(subject)} from two parents",
                            names=("ValueError",),
                            hint="attach the metadata to it directly",
                        )
                    continue
            elif any(known.declaration is item.declaration for known in inherited):
                continue
            inherited.append(item)
    return [*own, *inherited]


def _is_readable(subject: Subject) -> bool:
    try:
        own_items(subject)
    except (DslSyntaxError, NoClassFound):
        return False
    return True


def _inherits_from(subject: MuranoType | Property | Method) -> list[Any]:
    """The counterparts in the parents: the classes, or the members of the same name."""
    if isinstance(subject, MuranoType):
        return list(subject.parents)
    found: list[object] = []
    for parent in subject.declaring_type.parents:
        if isinstance(subject, Property):
            found.extend(parent.property_declarations(subject.name))
        else:
            found.extend(parent.method_declarations(subject.name))
    return found


def _scope(subject: Subject) -> MuranoType | None:
    if isinstance(subject, MuranoPackage):
        return None
    if isinstance(subject, MuranoType):
        return subject
    if isinstance(subject, Argument):
        return subject.method.declaring_type
    return subject.declaring_type


def _describe(subject: Subject) -> str:
    if isinstance(subject, (MuranoPackage, MuranoType)):
        return subject.name
    if isinstance(subject, Argument):
        return f"{subject.method.declaring_type.name}::{subject.method.name}({subject.name})"
    return f"{subject.declaring_type.name}.{subject.name}"


def meta_objects(run: Run, subject: Subject) -> tuple[MuranoObject, ...]:
    """The meta objects of a subject: made on first use, kept for the session."""
    known = run.session.meta_objects.get(subject)
    if known is None:
        known = tuple([_instance(run, item) for item in items_of(subject)])
        run.session.meta_objects[subject] = known
    return known


def _instance(run: Run, item: MetaItem) -> MuranoObject:
    values = _values(run, item)
    transaction = Transaction(run, keep_ids=False, scope=item.scope)
    made = item.type.python_class(run, run.new_id(), None)
    transaction.fill(made, values)
    transaction.finish(publish=False)
    return made


def _values(run: Run, item: MetaItem) -> dict[str, Value]:
    node = item.declaration.values
    if node is None:
        return {}
    if is_constant(node):
        return dict(constant_value(node))
    if item.scope is None:
        raise MuranoError("the metadata of a package cannot contain expressions")
    return dict(item.scope.own_code().evaluate(node, item.scope, run))


# -- items that the engine itself reads, without making objects ----------------------------------


def constant_values(subject: Subject, meta_name: str) -> dict[str, Value] | None:
    """The written values of the nearest item of a meta-class, by its name; None: not attached.

    Only constants are read; a missing key has the meta-class's default.
    """
    if not has_metas(subject):
        return None
    method = subject.method if isinstance(subject, Argument) else subject
    if isinstance(method, Method) and not _is_readable(subject):
        return None  # a class with faulty methods is still described: calls report the errors
    for item in items_of(subject):
        if item.type.name == meta_name:
            node = item.declaration.values
            if node is None or not is_constant(node):
                return {}
            return dict(constant_value(node))
    return None


def has_metas(subject: Subject, seen: set[int] | None = None) -> bool:
    """True when the subject or an ancestor has metadata (cheap); subjects in `seen` have none."""
    if isinstance(subject, MuranoPackage):
        return True
    if isinstance(subject, MuranoType):
        return any(item.declaration.meta for item in subject.ancestors)
    if isinstance(subject, Argument):
        return bool(subject.metas)
    if subject.metas:
        return True
    if seen is None:
        seen = set()
    for item in _inherits_from(subject):
        if id(item) not in seen:
            if has_metas(item, seen):
                return True
            seen.add(id(item))
    return False


def check_metas(type_: MuranoType) -> list[Finding]:
    """All errors in the metadata of a class and its members."""
    findings: list[Finding] = []
    subjects: list[Subject] = [type_, *type_.properties.values(), *type_.methods.values()]
    for method in type_.methods.values():
        subjects.extend(method.arguments or [])
    for subject in subjects:
        try:
            own_items(subject)
        except MuranoError as error:
            findings.append(Finding.of(error, type_.declaration.position))
    return findings
