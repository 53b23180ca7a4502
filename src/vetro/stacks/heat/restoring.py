"""An update of a stack at Heat that also puts back what somebody has taken by hand (decision 0798)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from vetro.openstack import OpenStackError
from vetro.stacks.errors import TemplateError
from vetro.stacks.heat.by_hand import ByHand, look, put_back
from vetro.stacks.heat.client import HeatClient, StackItem
from vetro.stacks.heat.requests import kept, place_of_stack
from vetro.stacks.heat.written_out import Definition, Wanted, written_out
from vetro.stacks.losses import Loss
from vetro.stacks.model import Stack, StackStatus

REMOVED = "Somebody has removed it by hand"
log = structlog.get_logger(__name__)


@dataclass
class Restoring:
    """What is missing of one stack as it was found, and what becomes of that."""

    client: HeatClient
    found: Stack
    by_hand: ByHand = field(default_factory=ByHand)
    again: list[StackItem] = field(default_factory=list[StackItem])
    """What Heat makes again."""
    unseen: list[str] = field(default_factory=list[str])
    """Why nobody could look."""
    warnings: list[str] = field(default_factory=list[str])
    definitions: Mapping[str, Definition] = field(default_factory=dict[str, Definition])

    async def look(self, wanted: Wanted | None = None) -> None:
        """See what is missing. ``wanted``: the template, when it is not the one that was found any more.

        A network service that cannot be asked is `unseen`.
        """
        self.by_hand, self.unseen, self.definitions = ByHand(), [], {}
        # Of a template that only Heat can read nothing is compared, but what is gone is seen.
        with suppress(TemplateError):
            self.definitions = written_out(wanted or kept(self.found)).resources
        try:
            self.by_hand = await look(
                self.client, place_of_stack(self.found), self.found.id, self.definitions
            )
        except OpenStackError as error:
            self.unseen = [
                f"Whether somebody has taken something from the stack {self.found.name} by hand could not"
                f" be seen, so nothing is put back: {error}. Mend that and deploy again"
            ]

    def judged(self, item: StackItem, losses: Sequence[Loss]) -> None:
        """What was removed is made again, unless something would be lost with it that nobody has let go."""
        if not losses:
            self.again.append(item)
            return
        lost = "; ".join(one.text for one in losses)
        self.warnings.append(
            f"{item.type} {item.path} of the stack {self.found.name} was removed by hand. It is not made"
            f" again, because this {lost}. Deploy again and say that this may be lost"
        )

    async def whole(self, done: Stack, wanted: Wanted | None = None) -> Stack:
        """The stack after an update that ended so; what its resources lack is put back.

        ``wanted``: the template of the update, if Heat has worked on it.
        """
        if done.status is not StackStatus.UPDATE_COMPLETE:
            return replace(done, warnings=[*self.unseen, *self.warnings])
        if wanted is not None:
            await self.look(wanted)
        warned = replace(done, warnings=[*self.unseen, *self.warnings])
        if not self.by_hand.lacks:
            return warned
        log.info("stack_put_back", stack=done.name, resources=self.by_hand.resources)
        failed = await put_back(self.client.session, self.by_hand.lacks)
        if failed is None:
            return warned
        return replace(
            warned,
            status=StackStatus.UPDATE_FAILED,
            reason=f"Resource {failed.resource!r} failed: {failed.text}",
            failure=failed,
        )
