"""Which plans are run, and for how long: signature, replay, cancellation, lifetime, limits."""

from . import log, plan
from .errors import AgentError, ConfigurationError
from .spool import Message, Spool, seconds_since

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .config import Settings
    from .plan_v1 import PowerShellPlan
    from .signature import PublicKey

DEFAULT_RESULT_LIMIT = 1 << 20


class Admission:
    """Reads the stored plans and decides which of them are begun."""

    def __init__(self, settings: "Settings", spool: Spool) -> None:
        self._settings = settings
        self._spool = spool
        self._key: "PublicKey | None" = None
        if settings.engine_key:
            from .signature import load_public_key  # needs hashes, which cost start-up time

            self._key = load_public_key(settings.engine_key)
            if not settings.input_queue:
                raise ConfigurationError(
                    "engine_key is set but input_queue is not: signatures cover the queue's name"
                )

    def authentic(self, message: Message) -> bool:
        """Whether the engine signed a message; without a key, every message counts as signed."""
        if self._key is None:
            return True
        if message.signature is None:
            return False
        signed = self._settings.input_queue.encode("utf-8") + message.body
        return self._key.verify(signed, message.signature)

    def read(self, name: str) -> "Message | None":
        """The stored message of a plan; None if it cannot be read."""
        try:
            return self._spool.read_plan(name)
        except (OSError, ValueError) as error:
            log.error("Dropping the plan %s: it cannot be read: %s" % (name, error))
            return None

    def admit(self, message: "Message | None") -> "dict[str, Any] | None":
        """The document of a plan from the engine; None if it has to be dropped silently."""
        if message is None:
            return None
        if not self.authentic(message):
            log.warning(
                "Dropping the plan %s: its signature is %s"
                % (message.message_id, "wrong" if message.signature else "missing")
            )
            return None
        try:
            return plan.parse(message.body, message.message_id, message.reply_to)
        except ValueError as error:
            log.warning("Dropping the plan %s: %s" % (message.message_id, error))
            return None

    def is_replay(self, plan_id: "str | None", stamp: int) -> bool:
        """Whether a plan with this stamp, or a later one, was begun before."""
        stored = self._spool.stamp()
        if stamp <= stored:
            log.warning(
                "Dropping the plan %s: its stamp %d is not above %d (a replay)"
                % (plan_id, stamp, stored)
            )
            return True
        return False

    def must_be_awaited(self, name: str, document: "dict[str, object]", message: Message) -> None:
        """Raise `AgentError` for a plan that was cancelled or whose lifetime is over."""
        if self._spool.was_cancelled(name):
            raise AgentError("The plan was cancelled")
        lifetime = plan.seconds_of(document, "Lifetime")
        if lifetime is not None and seconds_since(message.received) >= lifetime:
            raise AgentError(
                "The plan is not begun: nobody waits for its result after %g seconds, and it came "
                "longer ago" % lifetime
            )

    def parse(self, name: str) -> "dict[str, Any] | None":
        """The document of a stored plan from any sender; None if it cannot be read."""
        try:
            message = self._spool.read_plan(name)
            return plan.parse(message.body, message.message_id, message.reply_to)
        except (OSError, ValueError):
            return None

    def seconds_for(
        self, checked: "plan.Plan | PowerShellPlan", message: Message
    ) -> "float | None":
        """How long the plan may run: its own time-out, limited by the rest of its lifetime."""
        seconds = checked.timeout or self._settings.plan_timeout or None
        if checked.lifetime is None:
            return seconds
        left = max(0.0, checked.lifetime - seconds_since(message.received))
        return left if seconds is None else min(seconds, left)

    def result_limit(self, message: "Message | None") -> int:
        """The largest result in bytes: the configured limit, else the queue's."""
        said = message.result_limit if message is not None else None
        if self._settings.result_limit:
            return self._settings.result_limit
        return said if isinstance(said, int) and said > 0 else DEFAULT_RESULT_LIMIT
