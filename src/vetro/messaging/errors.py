"""The exception tree of `vetro.messaging`.

::

    MessagingError
    ├── UnknownMailbox        the queue was never declared, or was deleted
    ├── MessageTooLarge       a plan or result is over the configured limit
    ├── DuplicateMessage      a message id was used before for another body
    ├── MalformedSignal       a signal is no JSON map, or has an unknown status
    ├── TooManySignals        a handle has as many signals as it keeps
    └── BrokerUnreachable     the AMQP broker does not answer, or refuses
"""

from __future__ import annotations


class MessagingError(Exception):
    """Base of the errors that this room raises on purpose."""


class UnknownMailbox(MessagingError):
    """No mailbox has this name: it was never declared or has been deleted."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"There is no mailbox {queue!r}; declare it before using it")
        self.queue = queue


class MessageTooLarge(MessagingError):
    """A plan or a result exceeds the limit."""

    def __init__(self, subject: str, size: int, limit: int, advice: str) -> None:
        super().__init__(f"{subject} is {size} bytes, more than the limit of {limit}: {advice}")
        self.size = size
        self.limit = limit


class DuplicateMessage(MessagingError):
    """A message id names another message already."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"The message id {message_id!r} was used before with a different body; "
            "choose a new message id"
        )
        self.message_id = message_id


class BrokerUnreachable(MessagingError):
    """A broker could not be used within the waiting time."""

    def __init__(self, broker: str, problem: str) -> None:
        super().__init__(
            f"The broker {broker} cannot be used: {problem}; check the [rabbitmq] settings and the"
            " region's agentRabbitMq"
        )
        self.broker = broker


class MalformedSignal(MessagingError):
    """A signal that is no JSON map, or has a status that does not exist."""


class TooManySignals(MessagingError):
    """A handle has as many signals as it keeps."""
