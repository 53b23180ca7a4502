"""What an engine needs of a message transport, whatever carries the messages.

`Mailboxes` (HTTP long poll, tables in the service's database) is the built-in one;
an AMQP broker can stand behind the same protocol (guest-agent.md §2, §2a).
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


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
        self, queue: str, message_id: str, body: bytes, signature: bytes | None = None
    ) -> None:
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

    async def discard(self, message_id: str) -> None:
        """Nobody waits for this message any more: withdraw an unsent plan, forget the result.

        A result that comes later is kept as a dead letter with the reason "late".
        """
        ...

    async def last_contact(self, queue: str) -> datetime | None:
        """When the guest was last heard of; None if never."""
        ...
