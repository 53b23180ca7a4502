"""The AMQP transport (guest-agent.md §2)."""

from ..errors import ConfigurationError
from . import Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Settings


class AmqpTransport(Transport):
    """Speaks AMQP 0-9-1 to a broker."""

    def __init__(self, settings: "Settings") -> None:
        raise ConfigurationError(
            "AMQP is not supported yet; give the mailbox's address in [mailbox] url"
        )
