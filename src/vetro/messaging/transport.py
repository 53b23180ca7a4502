"""What an engine needs of a message transport, whatever carries the messages.

`Mailboxes` (HTTP long poll, tables in the service's database) is the built-in one;
an AMQP broker can stand behind the same protocol (guest-agent.md §2, §2a).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A plan that a guest has not answered."""

    message_id: str
    name: str
    """The plan's name; its message id when it has none."""
    sent_at: datetime
    awaited: bool
    """Whether somebody still waits for its result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sent plan has come."""

    place: Literal["mailbox", "broker", "guest"]
    """Who has it: nobody has fetched it, a broker has taken it, the guest has it."""
    before: tuple[Unfinished, ...] = ()
    """What the guest has to finish first, oldest first: it runs one plan at a time."""


class MessageTransport(Protocol):
    """Durable queues between an engine and its guests. Usable from any process."""

    async def declare(self, queue: str) -> None:
        """Make the input queue of a guest if it does not exist. Idempotent."""
        ...

    async def issue_credential(self, queue: str) -> str:
        """The guest's secret for `queue` (declared if need be).

        Idempotent: the same queue yields the same token until `rotate_credential` or
        `revoke`, so that a redeployed instance has unchanged user data.
        """
        ...

    async def rotate_credential(self, queue: str) -> str:
        """A new secret; the former one stops working at once."""
        ...

    async def revoke(self, queue: str) -> None:
        """Invalidate every credential of `queue`. Idempotent."""
        ...

    async def delete(self, queue: str) -> None:
        """Remove the mailbox with its messages and credentials. Idempotent."""
        ...

    async def send(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        signature: bytes | None = None,
        *,
        name: str = "",
        lifetime: float | None = None,
        order: bool = False,
    ) -> None:
        """Append one plan to the guest's queue.

        `name` is the plan's, for people. `lifetime`: after so many seconds nobody waits any
        more, and a plan that was not fetched until then is not handed out (None: it waits
        without end). `order`: it is for the agent itself, which does not answer it.

        Sending the same message id with the same body again does nothing, so a replayed
        effect is safe. Raises `DuplicateMessage`, `MessageTooLarge`, `UnknownMailbox`.
        """
        ...

    async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
        """The result body of a sent plan; None when it did not come within `timeout` seconds.

        May be called again (the result stays until `discard`).
        """
        ...

    async def discard(self, message_id: str) -> bool:
        """Nobody waits for this message any more: withdraw an unsent plan, forget the result.

        True when it was withdrawn in time: no guest has seen it, nor will. A result that comes
        later is kept as a dead letter with the reason "late".
        """
        ...

    async def progress(self, message_id: str) -> Progress:
        """How far a sent plan has come, and what its guest has to finish before it."""
        ...

    async def unfinished(self, queue: str) -> list[Unfinished]:
        """What a guest has not answered, oldest first."""
        ...

    async def last_contact(self, queue: str) -> datetime | None:
        """When the guest was last heard of; None if never."""
        ...
