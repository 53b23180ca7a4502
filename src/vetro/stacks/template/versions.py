"""Versions of HOT: which functions a template of a version has, beyond those that all have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json
from vetro.stacks.template.functions import function_of
from vetro.stacks.template.later_functions import PREFIX

#: What each version added, in order. A version has everything of the earlier ones.
ADDED: Mapping[str, tuple[str, ...]] = {
    "2013-05-23": (),
    "2014-10-16": (),
    "2015-04-30": ("repeat", "digest"),
    "2015-10-15": (),
    "2016-04-08": ("map_merge",),
    "2016-10-14": ("yaql", "map_replace", "if", "equals", "not", "and", "or"),
    "2017-02-24": ("filter", "str_replace_strict"),
    "2017-09-01": (
        "make_url", "list_concat", "list_concat_unique", "str_replace_vstrict", "contains",
    ),
    "2018-03-02": (),
    "2018-08-31": (),
    "2021-04-16": (),
}  # fmt: skip
NAMES = {
    "newton": "2016-10-14",
    "ocata": "2017-02-24",
    "pike": "2017-09-01",
    "queens": "2018-03-02",
    "rocky": "2018-08-31",
    "wallaby": "2021-04-16",
}
_CFN = {"Fn::If": "if", "Fn::Equals": "equals", "Fn::Not": "not", "Fn::And": "and", "Fn::Or": "or"}
_CONDITIONS = ("equals", "not", "and", "or")


def functions_of(version: str | None) -> frozenset[str]:
    """The functions that a version adds to those of the first. Raises `TemplateError`."""
    wanted = NAMES.get(str(version), str(version)) if version is not None else "2013-05-23"
    if wanted not in ADDED:
        raise TemplateError(
            f"There is no heat_template_version {str(version)[:64]!r}; the newest is"
            f" {max(ADDED)} (wallaby)"
        )
    return frozenset(name for one in ADDED if one <= wanted for name in ADDED[one])


def mark(value: Json, known: frozenset[str]) -> Json:
    """A copy in which later functions have names of their own.

    A map `{filter: …}` is a call in a template of 2017 and data in one of 2013: after this, what is a
    call is the same in all.
    """
    if isinstance(value, Mapping):
        entries: dict[str, Json] = {**value}
        if len(entries) == 1:
            ((name, argument),) = entries.items()
            later = _CFN.get(name, name if name in known else None)
            if later is not None:
                return {PREFIX + later: mark(argument, known)}
            if name == "get_input":
                return entries
        return {name: mark(one, known) for name, one in entries.items()}
    if isinstance(value, list):
        items: list[Json] = [*value]
        return [mark(one, known) for one in items]
    return value


class Conditions:
    """The conditions of a template: known as soon as its parameters are."""

    def __init__(self, section: Mapping[str, Json], resolve: Any) -> None:
        self._section = section
        self._resolve = resolve
        self._known: dict[str, bool] = {}
        self._asked: list[str] = []

    def __contains__(self, name: object) -> bool:
        return name in self._section

    def check(self) -> None:
        """Evaluate all. Raises `TemplateError` naming the one that cannot be."""
        for name in self._section:
            self.named(name)

    def named(self, name: str) -> bool:
        """The value of a condition. Raises `TemplateError`."""
        if name in self._known:
            return self._known[name]
        if name not in self._section:
            known = ", ".join(sorted(self._section)) or "none"
            raise TemplateError(f"There is no condition {name!r}; there are: {known}")
        if name in self._asked:
            circle = " → ".join([*self._asked[self._asked.index(name) :], name])
            raise TemplateError(f"Conditions refer to each other in a circle: {circle}")
        self._asked.append(name)
        try:
            self._known[name] = self.holds(self._section[name])
        except TemplateError as error:
            if self._asked[0] == name:
                raise TemplateError(f"Condition {name!r}: {error}") from error
            raise
        finally:
            self._asked.pop()
        return self._known[name]

    def holds(self, condition: Json) -> bool:
        """Whether a condition holds: a name, a boolean, or a function. Raises `TemplateError`."""
        if isinstance(condition, bool):
            return condition
        if isinstance(condition, str):
            return self.named(condition)
        call = function_of(condition)
        if call is None and isinstance(condition, Mapping):
            entries: dict[str, Json] = {**condition}
            if list(entries) == ["Condition"]:
                return self.named(str(entries["Condition"]))
        name, argument = call if call is not None else ("", None)
        short = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and short in ("not", "and", "or"):
            return self._combined(short, argument)
        if call is not None:
            value = self._resolve(condition)
            if isinstance(value, bool):
                return value
        raise TemplateError(f"this is not a condition: {repr(_any(condition))[:80]}")

    def _combined(self, name: str, argument: Json) -> bool:
        if name == "not":
            given: list[Json] = [*argument] if isinstance(argument, list) else [argument]
            if len(given) != 1:
                raise TemplateError("not takes one condition")
            return not self.holds(given[0])
        if not isinstance(argument, list):
            raise TemplateError(f"{name} takes a list of at least two conditions")
        parts: list[Json] = [*argument]
        if len(parts) < 2:
            raise TemplateError(f"{name} takes a list of at least two conditions")
        values = [self.holds(one) for one in parts]
        return all(values) if name == "and" else any(values)

    def chosen(self, value: Json, gone: frozenset[str]) -> Json:
        """`value` with every `if` replaced by what it chooses, and what refers to resources that are
        `gone` replaced by null. Raises `TemplateError`."""
        call = function_of(value)
        if call is not None:
            name, argument = call
            if name == PREFIX + "if":
                return self.chosen(self._choice(argument), gone)
            is_name = isinstance(argument, str)
            if is_name and name in ("get_resource", "Ref") and argument in gone:
                return None
            if name in ("get_attr", "Fn::GetAtt"):
                steps: list[Json] = (
                    [*argument] if isinstance(argument, list) else str(argument).split(".", 1)
                )
                if steps and isinstance(steps[0], str) and steps[0] in gone:
                    return None
        if isinstance(value, Mapping):
            entries: dict[str, Json] = {**value}
            return {key: self.chosen(one, gone) for key, one in entries.items()}
        if isinstance(value, list):
            items: list[Json] = [*value]
            return [self.chosen(one, gone) for one in items]
        return value

    def _choice(self, argument: Json) -> Json:
        parts: list[Json] = [*argument] if isinstance(argument, list) else []
        if len(parts) not in (2, 3):
            raise TemplateError("if takes [condition, value if it holds, value if it does not]")
        if self.holds(parts[0]):
            return parts[1]
        return parts[2] if len(parts) == 3 else None


def _any(value: Any) -> Any:
    return value
