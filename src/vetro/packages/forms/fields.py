"""Fields: their attributes, how a value is read from what was entered, and what is wrong with it (B3, B4).

A `FieldSource` is a field as it is written; ``settle`` evaluates its attributes for the values so far
and gives a `Field`, which reads and checks one value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import Scope, has_expressions, matches, split_pattern
from vetro.packages.forms.offers import Choice, Offers, network_choices, network_pair, selected
from vetro.packages.forms.readers import (
    MAX_ROWS,
    NOTHING,
    READERS,
    Refused,
    as_text,
    is_same_text,
    is_true,
    read_rows,
    snake,
    table_columns,
)
from vetro.packages.forms.settling import Validator, or_null, read_validators, settled
from vetro.packages.forms.source import Marked, name_of, wording
from vetro.packages.forms.vocabulary import (
    ATTRIBUTES,
    BOOLEANS,
    FIRST,
    LACKABLE,
    LINE_TYPES,
    OBJECT_TYPES,
    PASSWORD_RULES,
    RESOURCES,
    TRANSLATED,
    TYPES,
    WORDS,
)

ANSWERS = ("required", "hidden", "enabled", "enabled_if", "confirm_input", "multiple")
"""Attributes that are yes or no."""
REQUIRED = "This field is required"


def clone_of(name: str) -> str:
    """The key of a password's confirmation."""
    return f"{name}-clone"


class FieldSource:
    """A field as it is written. ``warnings``: attributes that are not known."""

    def __init__(
        self, page: str, given: Mapping[object, object], place: Any = (None, None)
    ) -> None:
        self.page = page
        self.line, self.column = place
        attributes: dict[str, object] = {}
        self.warnings: list[str] = []
        for key, value in given.items():
            name, dot, language = snake(name_of(key)).partition(".")
            if name not in ATTRIBUTES or (dot and name not in TRANSLATED):
                self.warnings.append(f"the attribute {key} is not known and has no effect")
                continue
            shown = wording(value) if name in TRANSLATED else value
            attributes[f"{name}.{language}" if dot else name] = shown
        for wanted in ("name", "type"):
            if attributes.get(wanted) in (None, "", []):
                raise FormError(f"A field of page {page} has no {wanted}", *place)
        self.name = name_of(attributes.pop("name"))
        self.type = attributes.pop("type")
        try:
            self.validators = read_validators(attributes.pop("validators", None), self.path)
        except FormError as error:
            raise FormError(error.message, *place) from error
        choices = attributes.get("choices")
        if isinstance(choices, list) and not all(
            _is_pair(one) for one in cast("list[object]", choices)
        ):
            raise FormError(f"{self.path}: choices are pairs [key, text], or a map", *place)
        self.attributes = attributes

    @property
    def path(self) -> str:
        """``page.field``."""
        return f"{self.page}.{self.name}"

    @cached_property
    def _dynamic(self) -> bool:
        known = [self.attributes, self.type, *([v.pattern, v.message] for v in self.validators)]
        return has_expressions(known)

    @cached_property
    def _static(self) -> Field:
        return Field(self, self.type, self.attributes, self.validators)

    def settle(self, scope: Scope) -> Field:
        """The field for the values so far; an attribute that has no value yet is null (B1)."""
        if not self._dynamic:
            return self._static
        values = {
            # What an expression says no to by null is not the same as nothing being said.
            name: value is not None and is_true(value) if name in ANSWERS else value
            for name, given in self.attributes.items()
            for value in (settled(given, scope),)
            if not (name in ANSWERS and given is None)
        }
        validators = tuple(one.settle(scope) for one in self.validators)
        return Field(self, settled(self.type, scope), values, validators)


@dataclass(frozen=True)
class Field:
    """A field whose attributes have values."""

    source: FieldSource
    type: Any
    attributes: Mapping[str, object] = field(default_factory=dict[str, Any])
    validators: tuple[Validator, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default when it is absent or null."""
        value = self.attributes.get(name)
        return default if value is None else value

    def text(self, name: str, language: str = "") -> str | None:
        """A text for people, translated if it can be."""
        for key in (f"{name}.{language}", name) if language else (name,):
            if self.attributes.get(key) is not None:
                return str(self.attributes[key])
        return None

    @property
    def name(self) -> str:
        """Its key in the page's data."""
        return self.source.name

    @cached_property
    def kind(self) -> str:
        """Its type: one of `TYPES`, or ``object``."""
        return self.type if isinstance(self.type, str) and self.type in _PLAIN else "object"

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes of an object field."""
        given = cast("list[object]", self.type if isinstance(self.type, list) else [self.type])
        return tuple(name for one in given for name in OBJECT_TYPES.get(str(one), (str(one),)))

    @cached_property
    def is_multiple(self) -> bool:
        """Whether it takes several components, in an order (ours; decision 0650)."""
        return self.kind == "object" and is_true(self.get("multiple", False))

    def label(self, language: str = "") -> str:
        """Its label; default: the name, capitalised."""
        return self.text("label", language) or self.name.capitalize()

    @cached_property
    def is_enabled(self) -> bool:
        """Whether it can be filled in, and is checked."""
        given = self.attributes.get("enabled", self.attributes.get("enabled_if"))
        return (given is None or is_true(given)) and self.is_visible

    @cached_property
    def is_visible(self) -> bool:
        """Whether it is there at all (ours): an expression that has no value yet hides nothing."""
        return is_true(self.get("visible", True))

    @cached_property
    def is_hidden(self) -> bool:
        """Whether it is submitted without being shown."""
        return is_true(self.get("hidden", False))

    @cached_property
    def is_required(self) -> bool:
        """Whether an empty value is refused, as the definition says."""
        if self.kind in BOOLEANS:
            return False
        return is_true(self.get("required", self.type != "domain"))

    def needs_value(self, offers: Offers) -> bool:
        """Whether an empty value is refused here.

        Of what a platform may have no notion of, only where it offers some; the security group of the
        application is as good as any other, unless the definition says that one is required.
        """
        if self.kind not in LACKABLE or not self.is_enabled:
            return self.is_required and self.is_enabled
        is_said = self.get("required") is not None
        if self.kind == "securitygroup" and not is_said:
            return False
        found = offers.choices(RESOURCES[self.kind])
        return self.is_required and (is_said if found is None else bool(found))

    @cached_property
    def is_confirmed(self) -> bool:
        """Whether a password is entered twice."""
        return (
            self.kind == "password"
            and is_true(self.get("confirm_input", True))
            and self.is_required
            and self.is_enabled
        )

    # -- choices

    def choices(self, offers: Offers) -> list[Choice] | None:
        """What can be chosen; ``None`` when it is not a field for that, or the source is not known."""
        kind = self.kind
        if kind == "choice":
            return self.own_choices
        if kind == "object":
            return offers.of_classes(self.classes)
        if kind == "network":
            return network_choices(offers, self.attributes)
        if kind not in RESOURCES:
            return None
        found = offers.choices(RESOURCES[kind])
        if found is None:
            return None
        found = selected(kind, self.attributes, found)
        return [Choice("", FIRST[kind]), *found] if kind in FIRST else found

    @cached_property
    def own_choices(self) -> list[Choice]:
        """Those that the definition lists."""
        given = self.get("choices", [])
        if isinstance(given, dict):
            pairs = list(cast("dict[object, object]", given).items())
        elif isinstance(given, (list, tuple)):
            pairs = [_pair(one) for one in cast("list[object]", given)]
        else:
            return []
        return [Choice(key, str(text)) for key, text in pairs]

    def preselected(self, offers: Offers) -> object:
        """The value that it has before anything is entered."""
        for key in (self.source.path, self.name, self.kind, RESOURCES.get(self.kind, "")):
            if key in offers.preselected:
                return offers.preselected[key]
        initial = self.attributes.get("initial")
        if initial is not None:
            return initial
        if self.kind in BOOLEANS:
            return False
        if self.kind == "choice" and self.is_required:
            own = self.own_choices
            return own[0].value if own else None
        if self.kind not in RESOURCES and self.kind != "object":
            return None
        found = [one for one in self.choices(offers) or [] if one.enabled and one.value != ""]
        if self.is_multiple:
            return [found[0].value] if len(found) == 1 and self.is_required else []
        if self.kind == "flavor" and found:
            medium = [one for one in found if "medium" in str(one.value)]
            return (medium or found)[0].value
        if self.kind in ("network", "azone") and found:
            return found[0].value
        return found[0].value if len(found) == 1 and self.kind != "volume" else None

    # -- values

    def read(self, raw: object, offers: Offers) -> Any:
        """The value of what was entered. Errors: ``Refused``."""
        reader = READERS.get(self.kind)
        if reader is not None:
            return reader(raw)
        if self.kind == "network":
            return self._network(raw, offers)
        if self.kind == "table":
            return read_rows(raw, self.columns())
        if self.is_multiple:
            return self._several(raw, offers)
        return self._chosen(raw, offers)

    def _network(self, raw: object, offers: Offers) -> object:
        if raw in NOTHING:
            if self.is_required and self.is_enabled:
                raise Refused(REQUIRED, "required")
            return [None, None]  # expressions say $.page.field[0]
        found = self.choices(offers)
        pair = network_pair(raw)
        if pair is None:
            raise Refused("Choose a network")
        if found is not None and all(one.value != pair for one in found):
            raise Refused(f"The network {pair[0] or 'Auto'} is not offered here")
        return pair

    def _several(self, raw: object, offers: Offers) -> list[object]:
        """Components as they were given: a list, or a text with commas between them; each once."""
        given = cast("list[object]", raw) if isinstance(raw, list) else [raw]
        if isinstance(raw, str) and "," in raw and not self._is_offered(raw, offers):
            given = [one.strip() for one in raw.split(",")]
        if len(given) > MAX_ROWS:
            raise Refused(f"Choose at most {MAX_ROWS} components")
        found = [self._chosen(one, offers) for one in given if one not in NOTHING]
        return [one for place, one in enumerate(found) if one not in found[:place]]

    def _is_offered(self, raw: str, offers: Offers) -> bool:
        """Whether a text with a comma is the name of one component."""
        return any(raw in (one.value, one.label) for one in self.choices(offers) or [])

    def _chosen(self, raw: object, offers: Offers) -> object:
        if raw in NOTHING:
            own = self.own_choices if self.kind == "choice" and raw is None else []
            is_null = self.kind == "object" or any(one.value is None for one in own)
            return None if is_null else ""
        found = self.choices(offers)
        if found is None and self.kind == "image" and isinstance(raw, dict):
            return cast("object", raw)  # version 1: name, title and type
        for one in found or []:
            if one.value == raw or is_same_text(one.value, raw):
                if not one.enabled:
                    raise Refused(f"{one.label} cannot be chosen now")
                return one.value
        if isinstance(raw, (dict, list)):
            raise Refused("Choose one of the values")
        if found is None:
            return str(raw)
        # People know what the platform has by its name.
        named = [one for one in found if one.label == raw or one.details.get("name") == raw]
        if self.kind != "choice" and raw != "" and named and named[0].enabled:
            return named[0].value
        raise Refused(self._no_choice(str(raw), found), "invalid_choice")

    def _no_choice(self, raw: str, found: list[Choice]) -> str:
        if self.kind == "choice":
            names = [as_text(one.value) for one in found if one.value not in NOTHING]
        else:
            names = [one.label for one in found if one.value != ""]
        near = difflib.get_close_matches(raw, names, 1)
        if near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = f"there are: {', '.join(names[:20])}" if names else "there are none yet"
        if self.kind not in RESOURCES:
            return f"{raw:.80} is not one of the values to choose; {hint}"
        return f"There is no {WORDS.get(self.kind, self.kind)} {raw:.80}; {hint}"

    def columns(self) -> list[tuple[str, str]]:
        """Name and type of each column of a table (B9)."""
        return [(name, kind) for name, kind, _ in table_columns(self.get("columns", []))]

    def _wrong_rows(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        yield from self._outside(len(rows), "value", "Enter {} {} rows")
        sync = self.number("max_sync")
        for name, kind in self.columns():
            chosen = sum(1 for row in rows if row.get(name) is True)
            if kind == "checkbox" and sync is not None and chosen > sync:
                yield f"Choose at most {sync} rows as {name}"
            if kind == "radio" and rows and chosen != 1:
                yield f"Choose one row as {name}"

    def errors(
        self, value: Any, scope: Scope, page: Mapping[str, object], offers: Offers
    ) -> list[str]:
        """Everything that is wrong with a value that could be read (B5). ``page``: the entered values."""
        is_blank = self.kind == "string" and self.is_required and not value.strip()
        if value in NOTHING or is_blank:
            missing = self.needs_value(offers)
            return [self.said("required", REQUIRED)] if missing else []
        found = [*self._bounds(value), *self._invalid(value, scope)]
        if self.is_confirmed and page.get(clone_of(self.name)) != value:
            found.append(f"{self.label()}s don't match")
        return found

    def said(self, key: str, default: str) -> str:
        """A message of ``errorMessages``, or the default."""
        messages = self.attributes.get("error_messages")
        if isinstance(messages, dict):
            for given, text in cast("dict[object, object]", messages).items():
                if snake(str(given)) == key and text is not None:
                    return str(text)
        return default

    def number(self, name: str) -> int | float | None:
        """A limit, if it is a number."""
        value = self.attributes.get(name)
        if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,18}", value):
            return int(value)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def _bounds(self, value: Any) -> Iterator[str]:
        if self.kind == "table":
            yield from self._wrong_rows(value)
        if self.is_multiple:
            yield from self._outside(len(value), "value", "Choose {} {} components")
        if self.kind in ("integer", "instance"):
            yield from self._outside(value, "value", "Enter a number of {} {}")
        if self.kind in LINE_TYPES:
            yield from self._outside(len(value), "length", "Enter {} {} characters")

    def _outside(self, number: float, what: str, text: str) -> Iterator[str]:
        """What is wrong with a number by the limits of ``what``, "value" or "length"."""
        least, most = self.number(f"min_{what}"), self.number(f"max_{what}")
        if least is not None and number < least:
            yield self.said(f"min_{what}", text.format("at least", least))
        if most is not None and number > most:
            yield self.said(f"max_{what}", text.format("at most", most))

    @property
    def pattern(self) -> str | None:
        """Its ``regexpValidator``."""
        given = self.attributes.get("regexp_validator")
        return None if given is None else str(given)

    @property
    def has_password_rules(self) -> bool:
        """Whether a password has the built-in rules: any validator replaces them."""
        return self.kind == "password" and self.pattern is None and not self.validators

    def _invalid(self, value: Any, scope: Scope) -> Iterator[str]:
        if self.pattern is not None and not matches(self.pattern, str(value)):
            yield self.said("invalid", f"Enter a value that matches {self.pattern}")
        for one in self.validators:
            if one.test is None:
                if one.pattern is not None and not matches(str(one.pattern), str(value)):
                    default = f"Enter a value that matches {one.pattern}"
                    yield one.said(self.said("invalid", default))
            elif not or_null(one.test, scope, value):
                yield one.said(self.said("invalid", f"The value does not satisfy {one.test.text}"))
        if self.has_password_rules:
            failing = [text for pattern, text in PASSWORD_RULES if not matches(pattern, value)]
            yield from dict.fromkeys(self.said("invalid", text) for text in failing)

    def patterns(self) -> list[dict[str, object]]:
        """The patterns that a front end can check by itself: ``pattern``, ``flags``, ``message``."""
        invalid = self.said("invalid", "")
        given = [(self.pattern, invalid)] if self.pattern is not None else []
        given += [
            (str(one.pattern), one.said(invalid))
            for one in self.validators
            if one.test is None and one.pattern is not None
        ]
        if self.has_password_rules:
            given += list(PASSWORD_RULES)
        shown: list[dict[str, object]] = []
        for pattern, message in given:
            inner, flags = split_pattern(pattern)
            shown.append({"pattern": inner, "flags": flags, "message": message})
        return shown


_PLAIN = TYPES - frozenset(OBJECT_TYPES)


def _is_pair(item: object) -> bool:
    return isinstance(item, Marked) or (
        isinstance(item, list) and len(cast("list[object]", item)) in (1, 2)
    )


def _pair(item: object) -> tuple[object, object]:
    if isinstance(item, (list, tuple)):
        pair = cast("Sequence[object]", item)
        if len(pair) >= 2:
            return pair[0], pair[1]
        return (pair[0], pair[0]) if pair else ("", "")
    return item, item
