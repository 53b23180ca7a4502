"""Who may make which call: rules by name, in the form of oslo.policy (catalog-api.md §10).

A rule is a check: ``role:admin``, ``is_admin:True``, ``rule:other``, ``project_id:%(target)s`` (an
attribute of the caller against one of the call's target, or a literal), ``@`` (always; so is an
empty one), ``!`` (never), combined with ``and``, ``or``, ``not`` and parentheses. A rule that is
not there falls back to ``default``. The file overrides the built-in rules, and is read again when
it changes; when it cannot be read then, the rules that it had stay in force.

Whatever changes something has ``member_api`` beside its own rule, on every face: who has the role ``reader``
and no other that this rule names only reads (decision 0809).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, cast

import structlog

from vetro.documents import DocumentError, read_yaml
from vetro.http.declaration import Endpoint
from vetro.http.faults import Forbidden
from vetro.http.principal import Principal

log = structlog.get_logger("vetro.http")
Target = Mapping[str, str]
Check = Callable[["Policy", Principal, Target, int], bool]
_WORD = re.compile(r"\s*(\(|\)|'[^']*':[^\s()]+(?:\(\w+\)s)?|[^\s()]+(?:\(\w+\)s)?)")
#: References of rules to rules; beyond that they are taken to go in a circle.
DEPTH = 32
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


class _Parser:
    """Recursive descent: ``or`` binds weakest, then ``and``, then ``not``."""

    def __init__(self, text: str) -> None:
        self.words = [match[1] for match in _WORD.finditer(text)]
        if "".join(self.words) != "".join(text.split()):
            raise PolicyError("it has characters that are not part of a check")
        self.at = 0

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
        return _check(self.words[self.at - 1])


def _always(*_given: object) -> bool:
    return True


def _not(check: Check) -> Check:
    def negated(policy: Policy, caller: Principal, target: Target, depth: int) -> bool:
        return not check(policy, caller, target, depth)

    return negated


def _any_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def one_of(policy: Policy, caller: Principal, target: Target, depth: int) -> bool:
        return any(check(policy, caller, target, depth) for check in checks)

    return one_of


def _all_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def each(policy: Policy, caller: Principal, target: Target, depth: int) -> bool:
        return all(check(policy, caller, target, depth) for check in checks)

    return each


def _check(word: str) -> Check:
    if word in ("@", "!"):
        return _always if word == "@" else _not(_always)
    kind, colon, match = word.partition(":")
    if not colon or not kind or not match:
        raise PolicyError(f"{word!r} is not a check: write KIND:VALUE, @ or !")
    if kind in ("http", "https"):
        raise PolicyError(f"{word!r}: checks over HTTP are not supported")
    if kind == "rule":
        return lambda policy, caller, target, depth: policy.follow(match, caller, target, depth + 1)
    if kind == "role":
        return lambda _p, caller, target, _d: _has_role(caller, _filled(match, target))
    literal = kind[1:-1] if kind.startswith("'") else None

    def compare(policy: Policy, caller: Principal, target: Target, depth: int) -> bool:
        mine = literal if literal is not None else policy.attribute(kind, caller, target, depth)
        return mine is not None and mine == _filled(match, target)

    return compare


def _has_role(caller: Principal, role: str) -> bool:
    return role in caller.roles or role.lower() in {one.lower() for one in caller.roles}


def _filled(text: str, target: Target) -> str:
    if text.startswith("%(") and text.endswith(")s"):
        # What the target does not have is equal to nothing.
        return target.get(text[2:-2], "\0")
    return text


def parse_check(value: object) -> Check:
    """A check in its text form, or in the old one of lists (any of lists, all of each).

    Errors: ``PolicyError``.
    """
    if isinstance(value, str):
        return _Parser(value).parse()
    if not isinstance(value, list):
        raise PolicyError("it must be text")
    alternatives: list[Check] = []
    for one in cast("list[object]", value):
        words = cast("list[Any]", one if isinstance(one, list) else [one])
        if not all(isinstance(word, str) for word in words):
            raise PolicyError("a list of checks must have texts")
        alternatives.append(_all_of([_check(word) for word in words] or [_always]))
    return _any_of(alternatives) if alternatives else _always


class Policy:
    """The rules in force. ``built_in``: rules beside ``DEFAULTS``; ``file``: overrides them."""

    def __init__(self, built_in: Mapping[str, str] | None = None, file: Path | None = None) -> None:
        given = {**DEFAULTS, **(built_in or {})}
        self._built_in = {name: parse_check(text) for name, text in given.items()}
        self._rules = dict(self._built_in)
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        if file is not None:
            self._rules |= self._read(file)
            self._seen = self._stamp(file)

    def _stamp(self, file: Path) -> tuple[int, int, int] | None:
        try:
            found = file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self, file: Path) -> dict[str, Check]:
        """The rules of a file. Errors: ``PolicyError``."""
        try:
            content = file.read_bytes()
            value = read_yaml(content)
        except (OSError, DocumentError) as error:
            raise PolicyError(f"{file}: {error}") from error
        if value is None and not content.strip():
            # As a file is that was cut off: the built-in rules may allow what it forbids.
            raise PolicyError(f"{file}: it is empty: write {{}} for the built-in rules")
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise PolicyError(f"{file}: it must have rules by name")
        found: dict[str, Check] = {}
        for name, text in cast("dict[Any, Any]", value).items():
            try:
                found[str(name)] = parse_check(text)
            except PolicyError as error:
                raise PolicyError(f"{file}: rule {name}: {error}") from error
        return found

    def _refresh(self) -> None:
        if self._file is None or (stamp := self._stamp(self._file)) == self._seen:
            return
        self._seen = stamp
        try:
            self._rules = {**self._built_in, **self._read(self._file)}
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
        return self.follow(rule, caller, target or {}, 0)

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

    def follow(self, rule: str, caller: Principal, target: Target, depth: int) -> bool:
        """The outcome of a rule, for the checks of others."""
        check = self._rules.get(rule) or self._rules.get("default")
        if check is None or depth > DEPTH:
            return False
        return check(self, caller, target, depth)

    def attribute(self, name: str, caller: Principal, target: Target, depth: int) -> str | None:
        """What a check compares of a caller; ``None``: there is no such thing."""
        if name == "is_admin":
            return str(self.follow("context_is_admin", caller, target, depth + 1))
        if name in ("project_id", "tenant_id", "tenant"):
            return caller.project_id
        if name in ("user_id", "user"):
            return caller.user_id
        return caller.domain_id if name in ("domain_id", "user_domain_id") else None


def denied(rule: str) -> Forbidden:
    """The fault for a caller whom a rule does not let through."""
    return Forbidden(
        f"The policy does not allow this call: its rule is {rule}", type_="PolicyNotAuthorized"
    )
