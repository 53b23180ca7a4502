"""The steps of an allocation, rendered on demand.

A step stores the remaining servers as a mask and the reasons for the others as a function over
immutable columns; five thousand reasons cost nothing until they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from vetro.compute.allocation.columns import Floats, Indices, Mask
from vetro.compute.allocation.rendering import Names, score_lines, steps_as_bytes
from vetro.compute.allocation.wording import fixed2

Uuids = NDArray[np.object_]
#: Numbers with two decimals as text, up to usual scores.
_CENTS = [f"{cents // 100}.{cents % 100:02d}" for cents in range(2000)]


def cents_of(values: Floats) -> Indices | None:
    """``fixed2`` of every value as cents; ``None`` when one is negative or beyond usual scores.

    Values halfway between two cents are rounded exactly.
    """
    if len(values) and not (values.min() >= 0 and values.max() * 100 < len(_CENTS) - 1):
        return None
    scaled = values * 100
    down = np.floor(scaled)
    rest = scaled - down
    cents = np.where(rest >= 0.5, down + 1, down).astype(np.int64)
    for at in np.flatnonzero(np.abs(rest - 0.5) < 1e-6).tolist():
        cents[at] = int(fixed2(float(values[at])).replace(".", ""))
    return cents


def fixed2_all(values: Floats) -> list[str]:
    """``fixed2`` of every value."""
    cents = cents_of(values)
    if cents is None:
        return [fixed2(value) for value in values.tolist()]
    return [_CENTS[one] for one in cents.tolist()]


class Reasons(Protocol):
    """The reasons of a step."""

    def texts(self, uuids: Uuids) -> dict[str, str]:
        """Server uuid to text; ``*`` for all, ``skip`` for a step without effect."""
        ...


@dataclass(frozen=True)
class Texts:
    """A few reasons that are known at once."""

    known: Mapping[str, str]

    def texts(self, uuids: Uuids) -> dict[str, str]:
        """The given texts."""
        return dict(self.known)


def skip(text: str) -> Texts:
    """Why a step had no effect."""
    return Texts({"skip": text})


def for_all(text: str) -> Texts:
    """One reason for all servers."""
    return Texts({"*": text})


@dataclass(frozen=True)
class Dropped:
    """A reason for each server that a step dropped (``at``: their positions in list order)."""

    at: Callable[[], Indices]
    text_of: Callable[[int], str | None]

    def texts(self, uuids: Uuids) -> dict[str, str]:
        """Servers whose text is empty are left out."""
        found: dict[str, str] = {}
        for index in self.at().tolist():
            text = self.text_of(index)
            if text:
                found[str(uuids[index])] = text
        return found


@dataclass(frozen=True)
class Increases:
    """A scorer's increases: ``added[i]`` for the server at ``at[i]``, and the total after."""

    at: Indices
    added: Floats
    totals: Floats
    suffix_of: Callable[[int], str] | None = None

    def texts(self, uuids: Uuids) -> dict[str, str]:
        """One text for each server whose score was raised."""
        added, totals = fixed2_all(self.added), fixed2_all(self.totals[self.at])
        said = [
            f"increased score by {more} to {total}"
            for more, total in zip(added, totals, strict=True)
        ]
        suffix_of = self.suffix_of
        if suffix_of is not None:
            said = [text + suffix_of(at) for text, at in zip(said, self.at.tolist(), strict=True)]
        return dict(zip(uuids[self.at].tolist(), said, strict=True))

    def as_bytes(self, names: Names) -> bytes | None:
        """The same as JSON, if it can be made without the texts."""
        if self.suffix_of is not None:
            return None
        return score_lines(names, self.at, cents_of(self.added), cents_of(self.totals[self.at]))


@dataclass(frozen=True)
class Step:
    """One step: its title, the remaining servers, the reasons."""

    title: str
    alive: Mask
    order: Indices
    count: int
    names: Names
    reasons: Reasons | None = None
    plugin: str = ""

    def left(self) -> Indices:
        """The remaining positions, in list order."""
        return self.order[self.alive[self.order]]

    def remaining(self) -> list[str]:
        """The remaining uuids, in list order."""
        found: list[str] = self.names.uuids[self.left()].tolist()
        return found

    def texts(self) -> dict[str, str]:
        """The reasons; empty when there are none."""
        return {} if self.reasons is None else self.reasons.texts(self.names.uuids)

    def reasons_as_bytes(self) -> bytes:
        """``texts`` as JSON."""
        quick = self.reasons.as_bytes(self.names) if isinstance(self.reasons, Increases) else None
        return msgspec.json.encode(self.texts()) if quick is None else quick

    def as_json(self, remaining: list[str] | None = None) -> dict[str, object]:
        """The step as in the API and ``vetro allocate``; ``remaining`` when it is known."""
        value: dict[str, object] = {
            "step": self.title,
            "remaining": self.remaining() if remaining is None else remaining,
        }
        reasons = self.texts()
        if reasons:
            value["reasons"] = reasons
        return value


VOLUMES_PLUGIN = "hard-filter-volumes-from"


@dataclass
class Outcome:
    """The chosen server's uuid and the steps; ``code`` is the error's when none was chosen."""

    chosen: str | None
    steps: list[Step]
    #: The scores of the remaining servers: uuid to score, in list order.
    _scores: Callable[[], dict[str, float]] = field(default=dict[str, float])
    #: The properties that a capacity run computed for the chosen server.
    properties: Callable[[], dict[str, Any]] = field(default=dict[str, Any])

    def scores(self) -> dict[str, float]:
        """The scores of the remaining servers."""
        return self._scores()

    def steps_json(self) -> list[dict[str, object]]:
        """All steps rendered. Steps that changed nothing share the previous list."""
        rendered: list[dict[str, object]] = []
        last: Step | None = None
        remaining: list[str] = []
        for step in self.steps:
            if last is None or last.alive is not step.alive or last.order is not step.order:
                remaining = step.remaining()
            rendered.append(step.as_json(remaining))
            last = step
        return rendered

    def steps_as_bytes(self) -> list[bytes]:
        """``steps_json`` as JSON, made directly; in pieces, to be joined once."""
        return steps_as_bytes(self.steps)

    @property
    def code(self) -> str | None:
        """The API's error code; None when a server was chosen."""
        if self.chosen is not None:
            return None
        if self.steps[-1].plugin == VOLUMES_PLUGIN:
            return "VolumeServerNoResourcesError"
        return "NoAllocatableServersError"

    @property
    def error(self) -> str | None:
        """Why no server was chosen (§1.1); None when one was."""
        if self.chosen is not None:
            return None
        last = self.steps[-1]
        if last.plugin == VOLUMES_PLUGIN:
            return "No compute resources available on the host containing the mounted volume"
        reason = last.texts().get("*")
        if reason is None:
            reason = last.title[:1].lower() + last.title[1:]
            if reason.startswith("servers "):
                reason = f"no {reason}"
        return f"No compute resources available: {reason}"

    def explanation(self, limit: int = 20) -> str:
        """The error and the last reason of at most ``limit`` servers, as text."""
        if self.chosen is not None:
            return f"server {self.chosen} was chosen"
        reasons: dict[str, str] = {}
        for step in self.steps:
            for uuid, text in step.texts().items():
                if uuid not in ("*", "skip"):
                    reasons[uuid] = text
        parts = [f"{uuid}: {text}" for uuid, text in list(reasons.items())[:limit]]
        if len(reasons) > limit:
            parts.append(f"and {len(reasons) - limit} more")
        return f"{self.error} ({'; '.join(parts)})" if parts else str(self.error)
