"""Mailboxes between the engine and the guests (guest-agent.md §2, §2a).

`MessageTransport` is the protocol the engine codes against; `Mailboxes` is the built-in
transport: durable queues in the service's database with an HTTP long-poll door for guests
at `/agents/v1`. `Signals` are reports of guests to a signed address there. `BrokerDoor` hands the
same mailboxes' messages to an AMQP broker.

Names are loaded when they are used: a program that runs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.messaging.amqp import BrokerDoor, BrokerDoors
    from vetro.messaging.credentials import Guest
    from vetro.messaging.errors import (
        BrokerUnreachable,
        DuplicateMessage,
        MessageTooLarge,
        MessagingError,
        UnknownMailbox,
    )
    from vetro.messaging.mailboxes import Mailboxes, MailboxSettings
    from vetro.messaging.notifications import Notifications
    from vetro.messaging.settings import (
        BrokerSettings,
        MailboxSection,
        NotificationsSection,
        RabbitmqSection,
    )
    from vetro.messaging.signals import forget_of_project
    from vetro.messaging.tables import MIGRATIONS
    from vetro.messaging.transport import MessageTransport, Progress, Sending, Told, Unfinished

__getattr__ = import_when_used(__name__)
