"""Exceptions that programs may catch by the names packages know (core-library.md §1.1), and failures of
the engine itself."""

from __future__ import annotations

import errno
from typing import Any


class EngineError(Exception):
    """Base of the errors that the system classes raise on purpose."""

    murano_names: tuple[str, ...] = ()


class AgentTimeout(EngineError):
    """A guest did not answer in time."""

    murano_names = ("murano.common.exceptions.TimeoutException", "TimeoutException")

    def __init__(self, seconds: float, extra: dict[str, Any] | None = None) -> None:
        self.extra = extra or {}
        super().__init__(f"The murano-agent did not respond within {seconds:g} seconds")


class PolicyViolation(EngineError):
    """Guest agents are switched off."""

    murano_names = ("murano.common.exceptions.PolicyViolationException", "PolicyViolationException")

    def __init__(self) -> None:
        super().__init__("Use of murano-agent is disallowed by the server configuration")


class ForeignGuest(EngineError):
    """An object says that it is in another environment: its guest is not this program's."""

    murano_names = PolicyViolation.murano_names

    def __init__(self, host: str, environment: str) -> None:
        super().__init__(
            f"The agent of {host} is in the environment {environment}, which is not the one that is"
            " deployed: a program reaches the guests of its own environment only"
        )


class AgentException(EngineError):
    """A plan failed in the guest; ``extra`` is the error map (§4.2)."""

    murano_names = ("murano.engine.system.agent.AgentException", "AgentException")

    def __init__(self, info: dict[str, Any]) -> None:
        self.extra = info
        super().__init__(describe(info))


class HeatStackError(EngineError):
    """A template cannot be used."""

    murano_names = ("murano.engine.system.heat_stack.HeatStackError", "HeatStackError")


class StackFailed(EngineError, OSError):
    """A stack ended in another state than the expected one.

    ``extra`` holds the name of the failed resource (``resource``) and the kind of its error
    (``kind``, such as ``AddressRangeTaken``), if they are known.
    """

    murano_names = ("OSError", "EnvironmentError")

    def __init__(self, message: str, extra: dict[str, Any] | None = None) -> None:
        self.extra = extra or {}
        super().__init__(message)


class MistralError(EngineError):
    """A workflow of the workflow service failed, or there is no such service."""

    murano_names = ("murano.engine.system.workflowclient.MistralError", "MistralError")


class NoWorkflowService(MistralError, ImportError):
    """There is no workflow service."""

    murano_names = ("ImportError",)

    def __init__(self) -> None:
        super().__init__(
            "Workflows cannot be run: they need an engine that uses an OpenStack with Mistral"
        )


class NoBlockStorage(EngineError):
    """A volume was requested where there is no block storage."""

    def __init__(self) -> None:
        super().__init__(
            "This back end has no block storage: volumes, snapshots and backups need an OpenStack"
            " with Cinder; give the instance an image instead"
        )


class RouterInfoError(EngineError):
    """The router has no external gateway."""

    murano_names = ("murano.common.exceptions.RouterInfoException", "RouterInfoException")


def describe(info: dict[str, object]) -> str:
    """An agent's error map as text: the message, then exit code and output of the script."""
    parts = [str(info.get("message") or "The execution plan failed")]
    details = info.get("details")
    if isinstance(details, dict):
        values: dict[str, object] = {str(k): v for k, v in details.items()}  # pyright: ignore
        if values.get("exitCode") is not None:
            parts.append(f"exit code {values['exitCode']}")
        for stream in ("stderr", "stdout"):
            if values.get(stream):
                parts.append(f"{stream}: {str(values[stream])[-2000:]}")
    elif details:
        parts.append(str(details)[-2000:])
    return "; ".join(parts)


class WorkerDied(Exception):
    """The worker process ended without a result."""


class EngineFailure(Exception):
    """An error inside a worker; ``details`` are for the log."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


class OverLimit(Exception):
    """A program exceeded a limit; the message is for its user and names the setting."""


def is_full(error: BaseException) -> bool:
    """Whether an error, or one of its causes, says that a disk is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def disk_is_full(error: BaseException) -> str:
    """The message about such an error for the user."""
    return f"The service's disk is full ({error}): free space there, then deploy again"
