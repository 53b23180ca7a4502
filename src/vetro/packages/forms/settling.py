"""The values that a definition's expressions have so far; the conditions of fields and pages (B1, B3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import FAILURES, Scope, has_expressions
from vetro.packages.forms.readers import snake
from vetro.packages.forms.source import Marked, name_of, wording


def settled(node: object, scope: Scope) -> Any:
    """A value with its expressions evaluated; those that have no value are null."""
    if isinstance(node, Marked):
        return or_null(node, scope)
    if isinstance(node, dict):
        pairs = cast("dict[object, object]", node).items()
        return {_key(settled(key, scope)): settled(value, scope) for key, value in pairs}
    if isinstance(node, (list, tuple)):
        return [settled(one, scope) for one in cast("list[object]", node)]
    return node


def or_null(marked: Marked, scope: Scope, data: object = ...) -> Any:
    """The value of an expression; null when it depends on what is not there yet (B1)."""
    try:
        return scope.evaluate(marked, data)
    except FAILURES:
        return marked.text if marked.is_wording else None


def _key(value: object) -> Any:
    return str(cast("object", value)) if isinstance(value, (dict, list)) else value


@dataclass(frozen=True)
class Validator:
    """A condition: an expression (``$``: the value) or, where ``test`` is null, a ``pattern``.

    ``pattern`` and ``message`` may be expressions; in a `Field` they have values.
    """

    test: Marked | None
    pattern: Any
    message: Any

    def settle(self, scope: Scope) -> Validator:
        """The validator for the values so far."""
        if not has_expressions([self.pattern, self.message]):
            return self
        return replace(
            self, pattern=settled(self.pattern, scope), message=settled(self.message, scope)
        )

    def said(self, default: str) -> str:
        """The text for a value that fails."""
        return default if self.message in (None, "") else str(self.message)


def read_validators(given: object, where: str) -> tuple[Validator, ...]:
    """The validators of a field or a page. Errors: ``FormError``."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise FormError(f"{where}: validators are a list of maps with expr and message")
    return tuple(_validator(one, where) for one in cast("list[object]", given))


def _validator(given: object, where: str) -> Validator:
    if not isinstance(given, dict) or "expr" not in given:
        raise FormError(f"{where}: a validator is a map with expr, and may have a message")
    body = cast("dict[str, object]", given)
    test: object = body["expr"]
    message = wording(body.get("message"))
    if isinstance(test, dict):
        wanted = {snake(name_of(k)): v for k, v in cast("dict[object, object]", test).items()}
        pattern = wanted.get("regexp_validator")
        if not isinstance(pattern, (str, int, Marked)):
            raise FormError(f"{where}: expr is an expression or {{regexpValidator: pattern}}")
        return Validator(None, pattern, message)
    if not isinstance(test, Marked):
        # A bare word, true or a number: always the same, but an expression nevertheless.
        test = Marked(str(test).lower() if isinstance(test, bool) else str(test), 0, 0)
    return Validator(test, None, message)
