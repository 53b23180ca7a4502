"""Which stacks at Heat are Vetro's: the ones with its tag. Others of the same name are never touched.

Stacks of releases that gave no tag of their own are known by the tags of the settings (``heat.stack_tags``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from vetro.stacks.errors import StackError
from vetro.stacks.model import Json

MARK = "vetro"
"""The tag of a stack that Vetro has made. Callers do not see it."""


class StackOfSomebodyElse(StackError):
    """A stack of this name is at Heat, and Vetro did not make it. Nothing was changed."""

    def __init__(self, name: str, id_: str) -> None:
        super().__init__(
            f"Heat has a stack {name} ({id_}) that Vetro did not make, so it is not touched. Delete or rename"
            f" it at Heat; if it is of this environment, give it the tag {MARK!r} there: openstack stack"
            f" update --existing --tags {MARK} {id_}"
        )
        self.name = name


def tags_of(shown: Mapping[str, Json]) -> list[str]:
    """All tags of a stack as Heat shows it."""
    return [str(one) for one in cast("list[Json]", shown.get("tags") or [])]


def is_ours(shown: Mapping[str, Json], former: Collection[str]) -> bool:
    """Whether Vetro made a stack. ``former``: the tags that it gave before it had one of its own."""
    tags = tags_of(shown)
    return MARK in tags or (bool(former) and set(former) <= set(tags))
