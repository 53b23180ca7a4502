"""The message transport that an engine needs, whatever carries the messages.

`Mailboxes` (HTTP long poll, tables in the service's database) is the built-in one;
an AMQP broker can be used through the same protocol (guest-agent.md §2, §2a).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypedDict, Unpack


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A plan that a guest has not answered."""

    message_id: str
    name: str
    """The plan's name; its message id when it has none."""
    sent_at: datetime
    awaited: bool
    """Whether its sender still waits for the result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sent plan has come."""

    place: Literal["mailbox", "broker", "guest"]
    """Where it is: not fetched yet, taken by a broker, or received by the guest."""
    before: tuple[Unfinished, ...] = ()
    """The plans that the guest has to finish first, oldest first: it runs one plan at a time."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a guest knows of where to come."""

    digest: str | None
    """Of the settings that it was made with or was told last; None: not known."""
    door: str | None
    """Where it comes: ``HOST:PORT`` of the service, or ``amqp:HOST:PORT`` of a broker; None: not known."""
    heard: bool
    """Whether it was ever heard."""


class Sending(TypedDict, total=False):
    """How a plan is sent."""

    signature: bytes | None
    name: str
    """The plan's name for people."""
    lifetime: float | None
    """After so many seconds the sender stops waiting, and a plan that was not fetched is not handed
    out any more (None: it waits without end)."""
    order: bool
    """The plan is for the agent itself, which does not answer it."""
    stamp: int | None
    """The plan's stamp, which `last_stamp` includes from now on."""


class MessageTransport(Protocol):
    """Durable queues between an engine and its guests. Usable from any process."""

    async def declare(self, queue: str) -> None:
        """Make the input queue of a guest if it does not exist. Idempotent."""
        ...

    async def issue_credential(self, queue: str) -> str:
        """The guest's secret for `queue`, which is declared if needed.

        Idempotent: the same queue yields the same token until `rotate_credential` or
        `revoke`, so that a redeployed instance has unchanged user data.
        """
        ...

    def broker_user(self, queue: str) -> str:
        """The guest's own user at a broker, whose password is its credential; "" without one."""
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

    async def queues_of(self, prefix: str) -> list[str]:
        """The guests' queues whose names begin with a text, sorted."""
        ...

    async def send(self, queue: str, message_id: str, body: bytes, **how: Unpack[Sending]) -> None:
        """Append one plan to the guest's queue.

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
        """Stop waiting for this message: withdraw a plan that was not fetched, drop the result.

        True when it was withdrawn in time: the guest has not received it and will not. A later
        result is kept as a dead letter with the reason "late".
        """
        ...

    async def progress(self, message_id: str) -> Progress:
        """How far a sent plan has come, and which plans its guest has to finish before it."""
        ...

    async def unfinished(self, queue: str) -> list[Unfinished]:
        """The plans that a guest has not answered, oldest first."""
        ...

    async def last_stamp(self, queue: str) -> int:
        """The highest stamp that the guest was sent; 0 if none.

        A guest silently drops plans that are not above it, so an engine needs it when its clock was
        set back or is behind the previous engine's clock.
        """
        ...

    async def told(self, queue: str) -> Told:
        """What the guest knows of where to come."""
        ...

    async def note_told(self, queue: str, digest: str, door: str) -> None:
        """Record which settings the guest has; ``door``: where they lead, kept until it is heard elsewhere.

        Raises `UnknownMailbox`.
        """
        ...

    async def last_contact(self, queue: str) -> datetime | None:
        """The guest's last contact; None if there is none."""
        ...
