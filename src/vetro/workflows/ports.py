"""The door to the outside: what a task asks for, and what it is given (§9 to §13).

A task calls these methods one at a time, from the thread it runs in; their implementation decides how they
wait, what is recorded and what is repeated. Nothing else in this room touches the outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from vetro.workflows.values import NODES, Json


class PortError(Exception):
    """An effect failed. ``strerror``: code or reason of the back end; ``details``: more, or ``None``."""

    def __init__(self, message: str, strerror: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.strerror = strerror


@dataclass(frozen=True)
class Fragment:
    """A queued template: its name and the values that were put into it."""

    template: str
    mappings: dict[str, Json]


@dataclass(frozen=True)
class NetworkRequest:
    """``command``: ``get-cidr``, ``get-default-router-id`` or ``get-default-network-id``."""

    command: str
    arguments: dict[str, Json]


@dataclass(frozen=True)
class AgentRequest:
    """A plan for one unit. ``timeout``: seconds, ``None``: the default of the installation.

    ``queue``: the unit's mailbox (§10.1). ``plan_id``: 32 hex digits, the message id.
    """

    template: str
    service: str
    unit: str
    mappings: dict[str, Json]
    plan: dict[str, Json]
    plan_id: str
    queue: str
    timeout: int | None = None


@dataclass(frozen=True)
class AgentAnswer:
    """What came back for a plan: the result as received, or seconds after which nothing had come.

    ``failure``: the plan could not be delivered; says why.
    """

    result: Json = None
    timed_out: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Report:
    """A status report (§13.2). ``entity`` and ``id`` are ``None`` for the task itself."""

    entity: str | None
    id: str | None
    level: str
    text: str
    details: str | None = None


class Port(Protocol):
    """The effects of one task. Every method may raise ``PortError`` where it says so."""

    def report(self, report: Report) -> None:
        """Send a status report."""
        ...

    def network(self, requests: list[NetworkRequest]) -> list[Json | PortError]:
        """Answer network commands: ``{"routerId","floatingId"}``, ``{"networkId"}``, ``{"cidr"}``."""
        ...

    def update_stack(
        self, fragments: list[Fragment], template: dict[str, Json], arguments: dict[str, Json]
    ) -> dict[str, Json]:
        """Apply a template; its outputs. Raises: PortError."""
        ...

    def machines(self) -> dict[str, tuple[str | None, str]]:
        """The machines of the stack after its last update, by resource name.

        Each has two values, of before that update (``None``: it was not there) and of now. They differ when
        the machine was made anew. A back end that does not know leaves it out.
        """
        ...

    def delete_stack(self) -> None:
        """Delete the stack; one that is absent is success. Raises: PortError."""
        ...

    def run_plans(self, requests: list[AgentRequest]) -> list[AgentAnswer]:
        """Send all plans in this order, then wait for all answers."""
        ...

    def guest_marks(self, queue: str) -> dict[str, str]:
        """Further ``%NAME%`` of agent configurations, for the guest with this mailbox. Raises: PortError."""
        ...

    def new_id(self) -> str:
        """32 hexadecimal digits, new each time."""
        ...

    def now(self) -> datetime:
        """The time, with its zone."""
        ...

    def checkpoint(self, progress: dict[str, Json], round_number: int) -> None:
        """A round is over: keep ``progress``, with which another ``Task`` continues from there.

        It is JSON and, for its model, as secret as the model is. From here on ``new_id`` may give the
        ids again that it gave when the next round was begun before.
        """
        ...


@dataclass(frozen=True)
class Broker:
    """What guests get to know about the message broker (§10.5)."""

    host: str = "localhost"
    port: int = 5672
    login: str = "guest"
    password: str = "guest"  # noqa: S105 - the default of the broker
    virtual_host: str = "/"
    ssl: bool = False
    ca_root_cert: bytes = b""


@dataclass(frozen=True)
class WorkflowSettings:
    """The settings a task sees (§13.5)."""

    network_topology: str = "routed"
    max_environments: int = 20
    max_hosts: int = 250
    env_ip_template: str = "10.0.0.0"
    file_server: str | None = None
    load_balancers_refused: Callable[[], str | None] = field(default=lambda: None)
    """Why the stack's back end cannot have load balancers; ``None`` when it can. Asked when a rule asks."""
    broker: Broker = field(default_factory=Broker)

    def readable(self, name: str) -> Json:
        """A setting that workflows may read by ``##section.option``; ``None`` for all others (§3)."""
        section, _, option = name.rpartition(".")
        if section in ("", "DEFAULT") and option == "load_balancers_refused":
            return self.load_balancers_refused()
        if section in ("", "DEFAULT") and option in _READABLE:
            return getattr(self, option)
        if section == "rabbitmq" and option in _READABLE_OF_BROKER:
            return getattr(self.broker, option)
        return None


_READABLE = {
    "network_topology", "max_environments", "max_hosts", "env_ip_template", "file_server",
}  # fmt: skip
_READABLE_OF_BROKER = {"host", "port", "virtual_host", "ssl"}


@dataclass(frozen=True)
class Limits:
    """When a task is said not to converge (§1), and how large its model may become."""

    rounds: int = 500
    passes: int = 1000
    nodes: int = NODES
