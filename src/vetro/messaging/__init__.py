"""Mailboxes between the engine and the guests (guest-agent.md §2, §2a).

`MessageTransport` is the protocol the engine codes against; `Mailboxes` is the built-in
transport: durable queues in the service's database with an HTTP long-poll door for guests
at `/agents/v1`.
"""

from vetro.messaging.errors import (
    DuplicateMessage,
    MessageTooLarge,
    MessagingError,
    UnknownMailbox,
)
from vetro.messaging.transport import MessageTransport

__all__ = [
    "DuplicateMessage",
    "MessageTooLarge",
    "MessageTransport",
    "MessagingError",
    "UnknownMailbox",
]
