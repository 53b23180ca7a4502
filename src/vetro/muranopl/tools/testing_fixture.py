"""`io.murano.test.TestFixture`: what test classes derive from (muranopl.md section 26)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, cast

from vetro.muranopl.classes.native import CallContext
from vetro.muranopl.classes.objects import MuranoObject, unwrap
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.model.loading import Transaction
from vetro.muranopl.model.reloading import reload, restored_on_failure
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.values.containers import Value, preview
from vetro.muranopl.values.errors import (
    ContractViolationException,
    MuranoError,
    NoPropertyFound,
    NoWriteAccessError,
    ObjectDestroyedError,
)

FIXTURE = "io.murano.test.TestFixture"
_EDITABLE = ("In", "InOut")


class AssertionFailed(MuranoError):
    """An assertion of a test does not hold; `extra` has `expected` and `observed` as text."""

    own_names = ("AssertionError",)


def shown(value: object) -> str:
    """A value as people read it in a report: JSON, objects by class and id."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, default=repr)


def _plain(value: object) -> object:
    if isinstance(value, MuranoObject):
        return f"<{value.type.name} {value.id}>"
    if isinstance(value, MuranoType):
        return f"<type {value.name}>"
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key if isinstance(key, str) else repr(key): _plain(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item) for item in cast("set[object]", value)), key=repr)
    return value


def _difference(expected: str, observed: str) -> str:
    """A line by line comparison, when there is more than one line."""
    if "\n" not in expected and "\n" not in observed:
        return f"expected {expected}, observed {observed}"
    lines = difflib.unified_diff(
        expected.splitlines(), observed.splitlines(), "expected", "observed", lineterm="", n=2
    )
    return "expected and observed differ\n" + "\n".join(lines)


def _fail(what: str, message: str | None, **extra: str) -> None:
    raise AssertionFailed(f"{message}: {what}" if message else what, extra=extra)


class Fixture:
    """Set-up, tear-down, models and assertions."""

    def set_up(self) -> None:
        """Runs before each test."""

    def tear_down(self) -> None:
        """Runs after each test, also after one that failed."""

    def load(self, ctx: CallContext, model: object) -> MuranoObject | None:
        """Load a model: `{Objects: …}` (it becomes the session's), or one object. Ids are kept."""
        if not isinstance(model, Mapping):
            raise MuranoError("load() takes a model that is a map", names=("ValueError",))
        table = cast("Mapping[object, object]", model)
        if "Objects" in table and "?" not in table:
            return ctx.session.load(dict(table))
        transaction = Transaction(ctx.session.run, keep_ids=True, scope=ctx.caller_type)
        made = transaction.make(table, None, None)
        transaction.finish()
        return made

    def edit(self, ctx: CallContext, object_: object, values: object) -> None:
        """Change properties of an object as its user does between two deployments; contracts are checked.

        As the next deployment loads the model, every `.init` of the object's tree runs again, and `Runtime`
        properties have their defaults; references to the objects stay valid. Errors: NoPropertyFound,
        NoWriteAccessError for what users do not edit (`Out`, `Const` ...), ContractViolationException; then
        every object is as it was.
        """
        one = unwrap(object_)
        if not isinstance(one, MuranoObject):
            raise ContractViolationException(
                f"edit() takes an object first, not {preview(object_)}"
            )
        if not isinstance(values, Mapping):
            raise ContractViolationException(
                f"edit() takes a map of properties and values second, not {preview(values)}",
                hint="write edit($object, {port => 8080})",
            )
        table = cast("Mapping[object, object]", values)
        names = [_editable(one, name) for name in table]
        run = ctx.session.run
        with restored_on_failure(run):
            for name, value in zip(names, table.values(), strict=True):
                one.set(name, value)
            root = one
            while root.owner is not None and not root.owner.is_a(FIXTURE):
                root = root.owner
            tests = [item for item in run.objects.values() if item.is_a(FIXTURE)]
            loaded = reload(run, root, tests)
            if one not in loaded:
                # Nothing holds it: a deployment would drop it, but a test may deploy it alone.
                reload(run, one, [*tests, *loaded])

    def start_env(self, ctx: CallContext) -> None:
        """Run the session's start hooks, as at the beginning of a deployment."""
        ctx.wait(ctx.session.start_hooks_async())

    def finish_env(self, ctx: CallContext) -> None:
        """Run the session's finish hooks, as at the end of a deployment."""
        ctx.wait(ctx.session.finish_hooks_async())

    def assert_equal(self, expected: object, observed: object, message: str | None = None) -> None:
        """Fails unless both are equal; objects are equal to themselves only."""
        if expected != observed:
            left, right = shown(expected), shown(observed)
            if left == right:
                left, right = f"{left} ({_kind(expected)})", f"{right} ({_kind(observed)})"
            _fail(_difference(left, right), message, expected=left, observed=right)

    def assert_true(self, expr: object, message: str | None = None) -> None:
        """Fails unless the value is truthy."""
        if not expr:
            text = shown(expr)
            _fail(f"{text} is not true", message, expected="true", observed=text)

    def assert_false(self, expr: object, message: str | None = None) -> None:
        """Fails when the value is truthy."""
        if expr:
            text = shown(expr)
            _fail(f"{text} is not false", message, expected="false", observed=text)

    def assert_in(self, needle: Value, haystack: Value, message: str | None = None) -> None:
        """Fails unless a list, map (its keys), set or string contains the value."""
        if needle not in haystack:
            left, right = shown(needle), shown(haystack)
            _fail(f"{left} is not in {right}", message, expected=left, observed=right)

    def assert_not_in(self, needle: Value, haystack: Value, message: str | None = None) -> None:
        """Fails when a list, map (its keys), set or string contains the value."""
        if needle in haystack:
            left, right = shown(needle), shown(haystack)
            _fail(f"{left} is in {right}", message, expected=f"not {left}", observed=right)


def _editable(one: MuranoObject, name: object) -> str:
    """The name of a property that users edit. Raises: NoPropertyFound, NoWriteAccessError."""
    if one.destroyed:
        raise ObjectDestroyedError(f"Object {one.id} is already destroyed")
    if not isinstance(name, str) or one.type.find_property(name) is None:
        raise NoPropertyFound(
            f"class {one.type.name} has no property {name!r}",
            hint=did_you_mean(str(name), one.type.property_names()),
        )
    usages = [item.usage for item in one.type.property_declarations(name)]
    other = next((usage for usage in usages if usage not in _EDITABLE), None)
    if other is not None:
        raise NoWriteAccessError(
            f"{one.type.name}.{name} has Usage {other}: users edit In and InOut only"
        )
    return name


def _kind(value: object) -> str:
    names: dict[type[object], str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "list",
    }
    kind = cast("type[Any]", type(value))
    return names.get(kind, kind.__name__)
