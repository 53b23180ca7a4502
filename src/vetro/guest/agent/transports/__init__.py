"""How plans come in and results go out. A transport never blocks for long:

- `prepare()` connects and asks for the next plan, without waiting for the answer;
- `waits_on()` are the sockets on which the answer will come, `wakes_at()` the time
  (`time.monotonic`) at which `prepare` has to be called again at the latest;
- `has_message()` is true when a message came beside something else: `receive` then returns it;
- `receive()` takes the answer once a socket is readable;
- `acknowledge` and `send_result` are short requests.

All of them raise `CommunicationError` when the other side cannot be reached.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Settings
    from ..spool import Message


class Transport:
    """The protocol; see the module."""

    confirms_acknowledgements = True
    """True if `acknowledge` returns only when the other side has taken note."""
    hurry = False
    """True while the other side should say at once that there is nothing, if it can."""

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
        """Drop every connection, at once and without ceremony (also in a forked child)."""
        raise NotImplementedError


def make(settings: "Settings") -> Transport:
    """The transport the configuration asks for: a mailbox URL means HTTP, none means AMQP."""
    if settings.mailbox_url:
        from .mailbox import MailboxTransport

        return MailboxTransport(settings)
    from .amqp import AmqpTransport

    return AmqpTransport(settings)
