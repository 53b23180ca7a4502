"""Transports receive plans and send results. A transport never blocks for long:

- `prepare()` connects and asks for the next plan, without waiting for the answer;
- `waits_on()` are the sockets on which the answer will arrive, `wakes_at()` the latest time
(`time.monotonic`) at which `prepare` has to be called again;
- `has_message()` is true when a message arrived together with another answer: `receive` returns it;
- `receive()` reads the answer once a socket is readable;
- `acknowledge` and `send_result` are short requests.

All of them raise `CommunicationError` when the other side cannot be reached.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Settings
    from ..spool import Message


class Transport:
    """The transport protocol, described in the module."""

    confirms_acknowledgements = True
    """True if `acknowledge` returns only after the other side has confirmed it."""
    hurry = False
    """True while the other side should report an empty mailbox at once, if it can."""

    def prepare(self) -> None:
        raise NotImplementedError

    def waits_on(self) -> "list[Any]":
        raise NotImplementedError

    def wakes_at(self) -> "float | None":
        raise NotImplementedError

    def has_message(self) -> bool:
        return False

    def receive(self) -> "Message | None":
        raise NotImplementedError

    def acknowledge(self, message: "Message") -> None:
        raise NotImplementedError

    def send_result(self, message_id: str, body: bytes, reply_to: "str | None") -> None:
        """Deliver a result. Raises `ResultRefused` when it will never be accepted."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close every connection at once, without a farewell (also in a forked child)."""
        raise NotImplementedError


def make(settings: "Settings") -> Transport:
    """The configured transport: HTTP if a mailbox URL is set, else AMQP."""
    if settings.mailbox_url:
        from .mailbox import MailboxTransport

        return MailboxTransport(settings)
    from .amqp import AmqpTransport

    return AmqpTransport(settings)
