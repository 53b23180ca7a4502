"""Mailboxes between the engine and the guests (guest-agent.md §2, §2a).

`MessageTransport` is the protocol the engine codes against; `Mailboxes` is the built-in
transport: durable queues in the service's database with an HTTP long-poll door for guests
at `/agents/v1`. `BrokerDoor` hands the same mailboxes' messages to an AMQP broker.
"""

from pathlib import Path

from vetro.messaging.amqp import BrokerDoor, BrokerDoors, BrokerSettings
from vetro.messaging.credentials import Guest
from vetro.messaging.errors import (
    BrokerUnreachable,
    DuplicateMessage,
    MessageTooLarge,
    MessagingError,
    UnknownMailbox,
)
from vetro.messaging.mailboxes import DeadLetter, Mailboxes, MailboxSettings, PlanMessage
from vetro.messaging.transport import MessageTransport
from vetro.storage import MigrationSet

MIGRATIONS = MigrationSet("messaging", Path(__file__).parent / "migrations")

__all__ = [
    "MIGRATIONS",
    "BrokerDoor",
    "BrokerDoors",
    "BrokerSettings",
    "BrokerUnreachable",
    "DeadLetter",
    "DuplicateMessage",
    "Guest",
    "MailboxSettings",
    "Mailboxes",
    "MessageTooLarge",
    "MessageTransport",
    "MessagingError",
    "PlanMessage",
    "UnknownMailbox",
]
