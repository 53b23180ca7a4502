"""The exception tree of the agent, with the result codes of guest-agent.md §5.5.

::

    AgentError (code 1)
    ├── InvalidPlan (2)
    ├── UnsupportedFormat (9)
    ├── ExecutorError (100)
    ├── CommunicationError      the mailbox or broker cannot be reached; try again later
    │   └── Unauthorized        the credential is unknown or revoked
    ├── ResultRefused           this result will never be accepted as it is
    └── ConfigurationError      the configuration file cannot be used
        └── StorageInUse        another agent works on the storage
"""


class AgentError(Exception):
    """An error that is reported to the engine."""

    code = 1

    def __init__(self, message: str, additional: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.additional = additional


class InvalidPlan(AgentError):
    """The plan breaks a rule of guest-agent.md §7.3."""

    code = 2


class UnsupportedFormat(AgentError):
    """The plan has a newer format than this agent supports."""

    code = 9


class ExecutorError(AgentError):
    """An executor failed."""

    code = 100


class CommunicationError(AgentError):
    """The mailbox or the broker cannot be reached now."""

    def __init__(self, message: str, retry_after: "float | None" = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unauthorized(CommunicationError):
    """The credential is unknown or was revoked."""


class ResultRefused(AgentError):
    """The receiver will never accept this result as it is (for example: too large)."""

    def __init__(self, message: str, limit: "int | None" = None) -> None:
        super().__init__(message)
        self.limit = limit
        """The receiver's limit in bytes, if the result is too large and the receiver names it."""


class ConfigurationError(AgentError):
    """The configuration file is missing or invalid."""


class StorageInUse(ConfigurationError):
    """Another agent process works on the same storage."""
