"""Flavors: named sizes of servers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from vetro.stacks.errors import ResourceFailure


@dataclass(frozen=True, slots=True)
class Flavor:
    """A size of server."""

    memory: int
    """MiB."""
    disk: int
    """GiB."""
    vcpus: int = 1

    @property
    def cpu(self) -> int:
        """Percent of one core, as the compute service counts (`cpu_cap`)."""
        return self.vcpus * 100


DEFAULT_FLAVORS: Mapping[str, Flavor] = {
    "m1.nano": Flavor(128, 1, 1),
    "m1.micro": Flavor(256, 2, 1),
    "m1.tiny": Flavor(512, 5, 1),
    "m1.small": Flavor(1024, 10, 1),
    "m1.medium": Flavor(2048, 20, 2),
    "m1.large": Flavor(4096, 40, 4),
    "m1.xlarge": Flavor(8192, 80, 8),
}


def find_flavor(flavors: Mapping[str, Flavor], name: str) -> Flavor:
    """The flavor of this name. Raises `ResourceFailure` with the names there are."""
    try:
        return flavors[name]
    except KeyError:
        near = difflib.get_close_matches(name, flavors, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(sorted(flavors))
        raise ResourceFailure(f"There is no flavor {name!r}; {hint}") from None
