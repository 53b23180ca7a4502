"""Extension methods: static methods that code of a class sees as methods of values (section 16.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import Method, MuranoType
from vetro.muranopl.contracts.arguments import accepts_receiver
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import MuranoError
from vetro.yaql.values import FINAL_TYPES, finalize

if TYPE_CHECKING:
    from vetro.muranopl.contracts.tree import Contract

    from .run import Run


@dataclass(slots=True)
class Extension:
    """An extension method that a class's code can see."""

    method: Method
    contract: Contract | None
    """The contract of the first argument. None for native methods, which declare what they extend,
    and when the first argument cannot be read; a call then reports the error."""

    def accepts(self, run: Run, receiver: object) -> bool:
        """True when it extends the receiver."""
        method = self.method
        if self.contract is not None:
            return accepts_receiver(self.contract, receiver, method.declaring_type, run)
        native = method.native
        return native is None or _native_accepts(native.extends or "any", receiver)

    def call(
        self, run: Run, receiver: object, positional: Sequence[object], named: dict[str, Value]
    ) -> Value:
        owner = self.method.declaring_type
        function = getattr(owner.python_class, "m_" + self.method.name)
        if type(receiver) not in FINAL_TYPES:
            receiver = finalize(receiver, run)
        return function(run, receiver, *positional, **named)


_NATIVE_KINDS: dict[str, tuple[type[object], ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (tuple, list),
    "map": (dict,),
    "any": (object,),
}


def _native_accepts(kind: str, receiver: object) -> bool:
    classes = _NATIVE_KINDS.get(kind)
    if classes is None:
        return isinstance(receiver, (MuranoObject, CastView)) and any(
            item.name == kind for item in receiver.type.ancestors
        )
    if isinstance(receiver, bool):
        return kind in ("boolean", "any")
    return isinstance(receiver, classes)


def extensions_of(scope: MuranoType, name: str) -> list[Extension]:
    """Extension methods of a name that a class's code sees, in the order of section 8.1."""
    known = scope.extensions.get(name)
    if known is None:
        found: list[Method] = []
        for holder in (scope, *scope.imports):
            for item in holder.method_declarations(name):
                if item.usage == "Extension" and item not in found:
                    found.append(item)
        known = scope.extensions[name] = [Extension(item, _first_contract(item)) for item in found]
    return cast("list[Extension]", known)


def has_extension(scope: MuranoType, name: str) -> bool:
    """True when a class's code sees an extension method of the name."""
    return any(
        item.usage == "Extension"
        for holder in (scope, *scope.imports)
        for item in holder.method_declarations(name)
    )


def _first_contract(method: Method) -> Contract | None:
    if not method.arguments:
        return None
    from vetro.muranopl.contracts.plan import build_contract  # loaded when a class is compiled

    scope = method.declaring_type.own_code().scope.detached()
    try:
        contract = build_contract(method.arguments[0].contract, scope)
    except MuranoError:
        if method.error is None:
            raise
        return None
    scope.execute()
    return contract
