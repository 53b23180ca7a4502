"""Who may make which call: rules by name, in the form of oslo.policy (catalog-api.md §10).

A rule is a check: ``role:admin``, ``is_admin:True``, ``rule:other``, ``project_id:%(target)s`` (an
attribute of the caller against one of the call's target, or a literal), ``@`` (always; so is an
empty one), ``!`` (never), combined with ``and``, ``or``, ``not`` and parentheses. A rule that is
not there falls back to ``default``. The file overrides the built-in rules, and is read again when
it changes; when it cannot be read then, the rules that it had stay in force.

What cannot be decided lets nobody through, and ``not`` does not turn it around: the call's target has no such
attribute, the caller has none, or a rule that is not there falls back to one that refuses. What can be seen
beforehand is refused with the file: a check of another kind, a reference to no rule, rules in a circle.

Whatever changes something has ``member_api`` beside its own rule, on every face: who has the role ``reader``
and no other that this rule names only reads (decision 0809).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import structlog

from vetro.documents import DocumentError, read_yaml
from vetro.http.declaration import Endpoint
from vetro.http.faults import Forbidden
from vetro.http.principal import Principal

log = structlog.get_logger("vetro.http")
Target = Mapping[str, str]
Verdict = bool | None
"""``None``: cannot be decided."""
Check = Callable[["Policy", Principal, Target, int], Verdict]
_WORD = re.compile(r"\s*(\(|\)|'[^']*':[^\s()]+(?:\(\w+\)s)?|[^\s()]+(?:\(\w+\)s)?)")
_PART = re.compile(r"%\((\w+)\)s")
#: References of rules to rules that are followed.
DEPTH = 32
#: What a check compares of a caller.
ATTRIBUTES: dict[str, Callable[[Principal], str | None]] = {
    **dict.fromkeys(("project_id", "tenant_id", "tenant"), lambda caller: caller.project_id),
    **dict.fromkeys(("user_id", "user"), lambda caller: caller.user_id),
    **dict.fromkeys(("domain_id", "user_domain_id"), lambda caller: caller.domain_id),
    # Files of an OpenStack compare these; no caller here has them, so such a check is never decided.
    **dict.fromkeys(
        ("system_scope", "is_admin_project", "project_domain_id"), lambda _caller: None
    ),
}
_KINDS = ("role", "rule", "is_admin", *ATTRIBUTES)
#: The rule of who may change anything at all.
MEMBER_API = "member_api"
DEFAULTS = {
    "context_is_admin": "role:admin",
    "admin_api": "is_admin:True",
    MEMBER_API: "role:member or is_admin:True or not role:reader",
    "default": "",
}


class PolicyError(Exception):
    """A policy cannot be used: names the file, the rule and what is wrong."""


@dataclass(frozen=True)
class Rule:
    """A check, and the rules that it refers to."""

    check: Check
    uses: frozenset[str]


class _Parser:
    """Recursive descent: ``or`` binds weakest, then ``and``, then ``not``."""

    def __init__(self, text: str, uses: set[str]) -> None:
        self.words = [match[1] for match in _WORD.finditer(text)]
        if "".join(self.words) != "".join(text.split()):
            raise PolicyError("it has characters that are not part of a check")
        self.at = 0
        self.uses = uses

    def parse(self) -> Check:
        if not self.words:
            return _always
        found = self._any()
        if self.at < len(self.words):
            raise PolicyError(
                f"{self.words[self.at]!r} follows after its end: join checks by 'and' or 'or'"
            )
        return found

    def _takes(self, word: str) -> bool:
        if self.at < len(self.words) and self.words[self.at].lower() == word:
            self.at += 1
            return True
        return False

    def _any(self) -> Check:
        checks = [self._all()]
        while self._takes("or"):
            checks.append(self._all())
        return _any_of(checks)

    def _all(self) -> Check:
        checks = [self._not()]
        while self._takes("and"):
            checks.append(self._not())
        return _all_of(checks)

    def _not(self) -> Check:
        if self._takes("not"):
            return _not(self._not())
        if self._takes("("):
            inner = self._any()
            if not self._takes(")"):
                raise PolicyError("a parenthesis is not closed")
            return inner
        if self.at >= len(self.words) or self.words[self.at].lower() in ("and", "or", ")"):
            raise PolicyError("a check is missing")
        self.at += 1
        return _check(self.words[self.at - 1], self.uses)


def _always(*_given: object) -> bool:
    return True


def _never(*_given: object) -> bool:
    return False


def _not(check: Check) -> Check:
    def negated(policy: Policy, caller: Principal, target: Target, depth: int) -> Verdict:
        found = check(policy, caller, target, depth)
        return None if found is None else not found

    return negated


def _any_of(checks: list[Check]) -> Check:
    return _joined(checks, decisive=True)


def _all_of(checks: list[Check]) -> Check:
    return _joined(checks, decisive=False)


def _joined(checks: list[Check], *, decisive: bool) -> Check:
    """The first check that is ``decisive`` decides; without one, all have to be decided."""
    if len(checks) == 1:
        return checks[0]

    def joined(policy: Policy, caller: Principal, target: Target, depth: int) -> Verdict:
        is_open = False
        for check in checks:
            found = check(policy, caller, target, depth)
            if found is decisive:
                return decisive
            is_open |= found is None
        return None if is_open else not decisive

    return joined


def _check(word: str, uses: set[str]) -> Check:
    if word in ("@", "!"):
        return _always if word == "@" else _never
    kind, colon, match = word.partition(":")
    if not colon or not kind or not match:
        raise PolicyError(f"{word!r} is not a check: write KIND:VALUE, @ or !")
    if kind in ("http", "https"):
        raise PolicyError(f"{word!r}: checks over HTTP are not supported")
    if "%(" in _PART.sub("", match):
        raise PolicyError(f"{word!r}: an attribute of the call is written %(NAME)s")
    if kind == "rule":
        uses.add(match)
        return lambda policy, caller, target, depth: policy.follow(match, caller, target, depth + 1)
    if kind == "is_admin":
        if match not in ("True", "False"):
            raise PolicyError(f"{word!r}: is_admin is True or False")
        uses.add("context_is_admin")
        is_admin: Check = lambda policy, caller, target, depth: policy.follow(  # noqa: E731
            "context_is_admin", caller, target, depth + 1
        )
        return is_admin if match == "True" else _not(is_admin)
    literal = kind[1:-1] if kind.startswith("'") else None
    if literal is None and kind not in _KINDS:
        raise PolicyError(
            f"{word!r}: there is no check of the kind {kind}{_near(kind, _KINDS, 0.6)}"
        )

    def compare(_policy: Policy, caller: Principal, target: Target, _depth: int) -> Verdict:
        wanted = _filled(match, target)
        if wanted is None:
            return None
        if kind == "role":
            return _has_role(caller, wanted)
        mine = literal if literal is not None else ATTRIBUTES[kind](caller)
        return mine == wanted if mine else None

    return compare


def _near(name: str, known: Iterable[str], cutoff: float) -> str:
    """The end of a message about a name that is not known."""
    found = difflib.get_close_matches(name, sorted(known), 1, cutoff)
    return f"; did you mean {found[0]}?" if found else ""


def _has_role(caller: Principal, role: str) -> bool:
    return role in caller.roles or role.lower() in {one.lower() for one in caller.roles}


def _filled(text: str, target: Target) -> str | None:
    """The text with the target's attributes; ``None`` when it does not have one of them."""
    if not all(target.get(name) for name in _PART.findall(text)):
        return None
    return _PART.sub(lambda found: target[found[1]], text)


def parse_rule(value: object) -> Rule:
    """A rule in its text form, or in the old one of lists (any of lists, all of each).

    Errors: ``PolicyError``.
    """
    uses: set[str] = set()
    if isinstance(value, str):
        check = _Parser(value, uses).parse()
    elif isinstance(value, list):
        check = _listed(cast("list[object]", value), uses)
    else:
        raise PolicyError("it must be text")
    return Rule(check, frozenset(uses))


def _listed(value: list[object], uses: set[str]) -> Check:
    alternatives: list[Check] = []
    for one in value:
        words = cast("list[Any]", one if isinstance(one, list) else [one])
        if not all(isinstance(word, str) for word in words):
            raise PolicyError("a list of checks must have texts")
        if words:
            alternatives.append(_all_of([_check(word, uses) for word in words]))
    if alternatives:
        return _any_of(alternatives)
    # As oslo.policy has it: a list of nothing allows, one of empty lists does not.
    return _never if value else _always


class Policy:
    """The rules in force. ``built_in``: rules beside ``DEFAULTS``; ``file``: overrides them.

    ``names``: every rule that calls of this face have, those too that no check is built in for. With them,
    references to no rule are refused, and names in the file that are nearly one of these.
    """

    def __init__(
        self,
        built_in: Mapping[str, str] | None = None,
        file: Path | None = None,
        names: Collection[str] = (),
    ) -> None:
        given = {**DEFAULTS, **(built_in or {})}
        self._built_in = {name: parse_rule(text) for name, text in given.items()}
        self._names = {*names, *given} if names else set[str]()
        self._rules = self._built_in
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        if file is not None:
            self._rules = self._read(file)
            self._seen = self._stamp(file)

    def _stamp(self, file: Path) -> tuple[int, int, int] | None:
        try:
            found = file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self, file: Path) -> dict[str, Rule]:
        """The rules with those of a file. Errors: ``PolicyError``."""
        try:
            content = file.read_bytes()
            value = read_yaml(content)
        except (OSError, DocumentError) as error:
            raise PolicyError(f"{file}: {error}") from error
        if value is None and not content.strip():
            # As a file is that was cut off: the built-in rules may allow what it forbids.
            raise PolicyError(f"{file}: it is empty: write {{}} for the built-in rules")
        if not isinstance(value, dict | None):
            raise PolicyError(f"{file}: it must have rules by name")
        given: dict[str, Rule] = {}
        for name, text in cast("dict[Any, Any]", value or {}).items():
            try:
                given[str(name)] = parse_rule(text)
            except PolicyError as error:
                raise PolicyError(f"{file}: rule {name}: {error}") from error
        rules = {**self._built_in, **given}
        wrong = next(self._wrong(given, rules), None)
        if wrong is not None:
            raise PolicyError(f"{file}: {wrong}")
        return rules

    def _wrong(self, given: Mapping[str, Rule], rules: Mapping[str, Rule]) -> Iterator[str]:
        """What is wrong between the rules that a file gives and all others."""
        used = {name for rule in rules.values() for name in rule.uses}
        for name, rule in given.items():
            for one in sorted(rule.uses - rules.keys() - self._names if self._names else ()):
                near = _near(one, {*self._names, *rules}, 0.6)
                yield f"rule {name}: rule:{one} refers to no rule{near}"
            # Files of Murano have names that no call here asks for. What nearly is one is a mistake.
            if name not in self._names | used and (near := _near(name, self._names, 0.9)):
                yield f"rule {name}: no call has this rule{near}"
        for name in given:
            if circle := _circle(name, rules):
                yield f"rule {name}: it refers to itself: {' > '.join(circle)}"

    def _refresh(self) -> None:
        if self._file is None or (stamp := self._stamp(self._file)) == self._seen:
            return
        self._seen = stamp
        try:
            self._rules = self._read(self._file)
        except PolicyError as error:
            log.error("policy_file_not_used", reason=str(error))
        else:
            log.info("policy_read", file=str(self._file))

    def revision(self) -> Hashable:
        """A value that changes with the rules."""
        self._refresh()
        return self._seen

    def allows(self, caller: Principal, rule: str, target: Target | None = None) -> bool:
        """Whether the rule lets this caller through."""
        self._refresh()
        return self.follow(rule, caller, target or {}, 0) is True

    def require(self, caller: Principal, rule: str, target: Target | None = None) -> None:
        """Refuse the caller unless the rule lets it through. Errors: 403 that names the rule."""
        if not self.allows(caller, rule, target):
            raise denied(rule)

    def only_reads(self, caller: Principal) -> bool:
        """Whether the caller may change nothing, whatever other rules say, and sees no secrets."""
        return not self.allows(caller, MEMBER_API)

    def require_reading(self, caller: Principal, endpoint: Endpoint[Any], method: str) -> None:
        """Refuse a call that is more than reading to a caller who only reads. Errors: 403."""
        if endpoint.reads(method) or not self.only_reads(caller):
            return
        roles = ", ".join(sorted(caller.roles)) or "none"
        raise Forbidden(
            f"Your roles in this project ({roles}) only let you read (rule {MEMBER_API}):"
            " an administrator can give you the role member",
            type_="PolicyNotAuthorized",
        )

    def follow(self, rule: str, caller: Principal, target: Target, depth: int) -> Verdict:
        """The outcome of a rule, for the checks of others."""
        if depth > DEPTH:
            return None
        found = self._rules.get(rule)
        if found is not None:
            return found.check(self, caller, target, depth)
        # ``not`` of a rule that is not there must not allow what nobody has written down.
        return self._rules["default"].check(self, caller, target, depth) or None


def _circle(first: str, rules: Mapping[str, Rule]) -> list[str]:
    """The way from a rule back to itself; empty: there is none."""
    ways, seen = [[first]], set[str]()
    while ways:
        way = ways.pop()
        last = way[-1]
        for name in sorted(rules[last].uses) if last in rules else ["default"]:
            if name == first:
                return [*way, name]
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def denied(rule: str) -> Forbidden:
    """The fault for a caller whom a rule does not let through."""
    return Forbidden(
        f"The policy does not allow this call: its rule is {rule}", type_="PolicyNotAuthorized"
    )
