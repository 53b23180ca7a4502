"""Package versions and version specs (muranopl.md section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache, total_ordering

from vetro.digits import is_number

_VERSION = re.compile(
    r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?\Z"
)
_CONDITION = re.compile(r"(>=|<=|==|!=|>|<|=)?(.+)\Z")


# Not frozen: many are made, and a frozen one takes four times as long.
@total_ordering
@dataclass(unsafe_hash=True)
class Version:
    """A semantic version. Ordering ignores build metadata."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Version:
        """`1`, `1.2`, `1.2.3-rc.1+5`; missing parts are 0. Raises ValueError."""
        match = _VERSION.match(str(text).strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version; write it like 1.2.3")
        major, minor, patch, prerelease, build = match.groups()
        return cls(
            int(major),
            int(minor or 0),
            int(patch or 0),
            tuple(prerelease.split(".")) if prerelease else (),
            tuple(build.split(".")) if build else (),
        )

    @property
    def core(self) -> tuple[int, int, int]:
        """Major, minor, patch."""
        return (self.major, self.minor, self.patch)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        if not self.prerelease:
            return (self.core, 1, ())
        parts = tuple(
            (0, int(part), "") if is_number(part) else (1, 0, part) for part in self.prerelease
        )
        return (self.core, 0, parts)

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(self.prerelease)
        if self.build:
            text += "+" + ".".join(self.build)
        return text


@dataclass(frozen=True, slots=True)
class _Range:
    """`low` ≤ version < `high`; pre-releases of `high` are outside. None: no bound."""

    low: Version | None
    high: Version | None
    low_open: bool = False
    high_closed: bool = False
    inverted: bool = False

    def __contains__(self, version: Version) -> bool:
        inside = True
        if self.low is not None:
            inside = version > self.low if self.low_open else version >= self.low
        if inside and self.high is not None:
            if self.high_closed:
                inside = version <= self.high
            else:
                inside = version < self.high and not (
                    version.prerelease and version.core == self.high.core
                )
        return inside is not self.inverted


class VersionSpec:
    """A set of versions: `1`, `>=0.1,<0.5`, `*`; empty means any of major 0."""

    __slots__ = ("_ranges", "text")

    def __init__(self, text: str | int | float | None) -> None:
        self.text = re.sub(r"\s+", "", "" if text is None else str(text)) or "0"
        self._ranges = tuple(_condition(part, str(text)) for part in self.text.split(","))

    def __contains__(self, version: Version) -> bool:
        return all(version in item for item in self._ranges)

    def __repr__(self) -> str:
        return f"VersionSpec({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VersionSpec) and self._ranges == other._ranges

    def __hash__(self) -> int:
        return hash(self._ranges)


def _condition(text: str, whole: str) -> _Range:
    if text == "*":
        return _Range(None, None)
    match = _CONDITION.match(text)
    if match is None:
        raise ValueError(f"{whole!r} is not a version spec; write it like 1.2 or >=0.1,<0.5")
    operator, rest = match.group(1) or "==", match.group(2)
    try:
        version = Version.parse(rest)
    except ValueError:
        raise ValueError(
            f"{whole!r} is not a version spec; write it like 1.2 or >=0.1,<0.5"
        ) from None
    parts = len(rest.split("-")[0].split("+")[0].split("."))
    exact = parts == 3
    after = _after(version, parts)
    match operator:
        case "==" | "=" | "!=":
            inverted = operator == "!="
            if exact:
                return _Range(version, version, high_closed=True, inverted=inverted)
            return _Range(version, after, inverted=inverted)
        case ">":
            if exact or (parts == 1 and version.major == 0):
                return _Range(version, None, low_open=True)
            return _Range(after, None)
        case ">=":
            return _Range(version, None)
        case "<":
            return _Range(None, version)
        case _:
            if exact:
                return _Range(None, version, high_closed=True)
            return _Range(None, after)


def _after(version: Version, parts: int) -> Version:
    if parts == 1:
        return Version(version.major + 1, 0, 0)
    return Version(version.major, version.minor + 1, 0)


def version_spec(text: str | int | float | None) -> VersionSpec:
    """The spec of a text; short ones are kept. Raises ValueError."""
    if isinstance(text, str) and len(text) > 100:
        return VersionSpec(text)
    return _short_spec(text)


@lru_cache(maxsize=1024)
def _short_spec(text: str | int | float | None) -> VersionSpec:
    return VersionSpec(text)
