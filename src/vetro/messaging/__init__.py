"""Mailboxes between the engine and the guests (guest-agent.md §2, §2a).

`MessageTransport` is the protocol the engine codes against; `Mailboxes` is the built-in
transport: durable queues in the service's database with an HTTP long-poll door for guests
at `/agents/v1`. `BrokerDoor` hands the same mailboxes' messages to an AMQP broker.

Names are loaded when they are used: whoever runs programs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vetro.messaging.amqp import BrokerDoor, BrokerDoors
    from vetro.messaging.broker import BrokerSettings
    from vetro.messaging.credentials import Guest
    from vetro.messaging.errors import (
        BrokerUnreachable,
        DuplicateMessage,
        MessageTooLarge,
        MessagingError,
        UnknownMailbox,
    )
    from vetro.messaging.mailboxes import DeadLetter, Mailboxes, MailboxSettings, PlanMessage
    from vetro.messaging.transport import MessageTransport, Progress, Unfinished
    from vetro.storage import MigrationSet

    MIGRATIONS: MigrationSet

_WHERE = {
    "amqp": "BrokerDoor BrokerDoors",
    "broker": "BrokerSettings",
    "credentials": "Guest",
    "errors": "BrokerUnreachable DuplicateMessage MessageTooLarge MessagingError UnknownMailbox",
    "mailboxes": "DeadLetter Mailboxes MailboxSettings PlanMessage",
    "transport": "MessageTransport Progress Unfinished",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "MIGRATIONS":
        from pathlib import Path

        from vetro.messaging.tables import metadata
        from vetro.storage import MigrationSet

        made = MigrationSet("messaging", Path(__file__).parent / "migrations", metadata)
        globals()[name] = made
        return made
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


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
    "Progress",
    "Unfinished",
    "UnknownMailbox",
]
