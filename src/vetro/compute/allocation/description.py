"""The pipeline description language (allocation.md §2).

A description is a nested list: a command, then plugin names or further lists. ``pipe`` passes each
element's output to the next and stops when no server is left; ``or`` gives every element the same
input and takes the first output that is not empty.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Literal, cast

from vetro.compute.allocation.errors import DescriptionError
from vetro.compute.allocation.wording import value_text

Command = Literal["pipe", "or"]
LEAST: dict[str, int] = {"pipe": 1, "or": 2}
DEPTH_LIMIT = 50


@dataclass(frozen=True)
class Expression:
    """A command with its elements: plugin names and further expressions."""

    command: Command
    elements: tuple[str | Expression, ...]

    def plugins(self) -> list[str]:
        """Every plugin name in the expression, in order."""
        names: list[str] = []
        for element in self.elements:
            names += [element] if isinstance(element, str) else element.plugins()
        return names


def parse_description(value: Any, known: Container[str], depth: int = 1) -> Expression:
    """The expression of a JSON description; ``known`` are the existing plugins.

    Errors: ``DescriptionError``: unknown command or plugin, too few elements, an element that is
    neither text nor list.
    """
    if depth > DEPTH_LIMIT:
        raise DescriptionError(f"the description nests deeper than {DEPTH_LIMIT}")
    if not isinstance(value, list) or not value:
        raise DescriptionError("sexp too short for given command: undefined")
    command, *given = cast("list[object]", value)
    if not isinstance(command, str) or command not in LEAST:
        raise DescriptionError(f"Bad expression given: Invalid command: {value_text(command)}")
    if len(given) < LEAST[command]:
        raise DescriptionError(f"sexp too short for given command: {command}")
    elements: list[str | Expression] = []
    for element in given:
        if isinstance(element, str):
            if element not in known:
                raise DescriptionError(f"Unrecognized algorithm: {element}")
            elements.append(element)
        elif isinstance(element, list):
            elements.append(parse_description(element, known, depth + 1))
        else:
            raise DescriptionError(f"Invalid element: {value_text(element)}")
    return Expression(cast("Command", command), tuple(elements))


def default_description(*, min_disk: bool) -> list[object]:
    """The production pipeline; ``min_disk`` is the switch ALLOC_FILTER_MIN_DISK."""
    return [
        "pipe",
        "hard-filter-setup",
        "hard-filter-running",
        "hard-filter-os",
        "hard-filter-invalid-servers",
        "hard-filter-force-failure",
        "hard-filter-virtual-servers",
        "hard-filter-zpool-encryption",
        "hard-filter-volumes-from",
        "hard-filter-reserved",
        "hard-filter-min-free-disk",
        "hard-filter-vlans",
        "hard-filter-platform-versions",
        "hard-filter-feature-min-platform",
        "hard-filter-traits",
        "hard-filter-headnode",
        "override-overprovisioning",
        "hard-filter-overprovision-ratios",
        "load-server-vms",
        "calculate-ticketed-vms",
        "hard-filter-capness",
        "hard-filter-vm-count",
        "hard-filter-hvm",
        "calculate-server-unreserved",
        "hard-filter-min-ram",
        "hard-filter-min-cpu",
        *(["hard-filter-min-disk"] if min_disk else []),
        "calculate-affinity",
        "hard-filter-locality-hints",
        "hard-filter-owners-servers",
        ["or", "hard-filter-reservoir", "identity"],
        ["or", "hard-filter-large-servers", "identity"],
        "soft-filter-locality-hints",
        "score-unreserved-ram",
        "score-unreserved-disk",
        "score-num-owner-zones",
        "score-current-platform",
        "score-next-reboot",
        "score-uniform-random",
    ]


def growth_description(*, memory: bool, min_disk: bool) -> list[object]:
    """What a server is asked about a VM that grows on it: room alone, for what grows."""
    return [
        "pipe",
        "override-overprovisioning",
        "load-server-vms",
        "calculate-ticketed-vms",
        "calculate-server-unreserved",
        *(["hard-filter-min-ram"] if memory else []),
        "hard-filter-min-cpu",
        *(["hard-filter-min-disk"] if min_disk else []),
    ]


#: The fixed pipeline of POST /capacity and of the extras of server listings (§1.2).
CAPACITY_DESCRIPTION: list[object] = [
    "pipe",
    "hard-filter-setup",
    "hard-filter-running",
    "hard-filter-invalid-servers",
    "load-server-vms",
    "override-overprovisioning",
    "calculate-server-unreserved",
]
