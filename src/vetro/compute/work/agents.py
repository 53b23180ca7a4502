"""The way to a node's agent: its task API over HTTP (compute-node-agent.md §4)."""

from __future__ import annotations

import asyncio
import ssl
import uuid as uuids
from dataclasses import dataclass
from typing import Any

from vetro.compute.servers.store import Agent
from vetro.compute.values.records import Record, mapping
from vetro.compute.wire import IDEMPOTENCY_HEADER, REQUEST_ID_HEADER, SERVER_HEADER
from vetro.http.client import HttpClient, TransportError

#: A task may run for 3600 s; the agent answers before this.
AGENT_SECONDS = 3700.0
#: Between two attempts to reach an agent.
RETRY_SECONDS = 0.5


class NodeTaskError(Exception):
    """The agent refused, or could not be reached. ``details`` may contain a ``restCode``."""

    def __init__(self, message: str, details: object = None) -> None:
        super().__init__(message)
        self.details = details

    @property
    def rest_code(self) -> str:
        """The kind of failure that the node reports; '' if none."""
        return str(mapping(self.details).get("restCode") or "")


class AgentLost(NodeTaskError):
    """The agent cannot be reached, or ended before the task did: it may be restarting."""


class NoAgent(NodeTaskError):
    """The agent's address is not known: nothing could be sent."""


@dataclass(frozen=True)
class TaskCall:
    """A task as it is sent. The same ``key`` sent again gets the first run's result."""

    task: str
    params: Record
    key: str
    request_id: str = ""
    fence: Record | None = None
    timeout_seconds: float = AGENT_SECONDS


class AgentClient:
    """Requests to agents, with the key each of them takes."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._http = HttpClient(timeout_seconds=AGENT_SECONDS, tls=tls)
        self._scheme = "https" if tls is not None else "http"

    async def close(self) -> None:
        """Close the connections; the agents continue their tasks."""
        await self._http.close()

    def _url(self, agent: Agent) -> str:
        if not agent.url:
            raise NoAgent(f"the address of the agent of server {agent.server_uuid} is not known")
        return agent.url.replace("http:", f"{self._scheme}:", 1)

    def _headers(self, agent: Agent) -> dict[str, str]:
        headers = {SERVER_HEADER: agent.server_uuid}
        if agent.key:
            headers["Authorization"] = f"Bearer {agent.key}"
        return headers

    async def run(self, agent: Agent, call: TaskCall) -> Record:
        """Run a task to its end and return its result. Errors: ``NodeTaskError``, ``AgentLost``."""
        body: Record = {"task": call.task, "params": call.params}
        if call.fence:
            body["fence"] = call.fence
        headers = {
            **self._headers(agent),
            REQUEST_ID_HEADER: call.request_id or str(uuids.uuid4()),
            IDEMPOTENCY_HEADER: call.key,
        }
        url = f"{self._url(agent)}/tasks"
        last: TransportError | None = None
        for attempt in range(2):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)
            try:
                answer = await self._http.request(
                    "POST", url, json=body, headers=headers, timeout_seconds=call.timeout_seconds
                )
            except TransportError as error:
                last = error
                continue
            return _result(answer.status, answer.content, answer.text, answer.json)
        raise AgentLost(
            f"the agent of server {agent.server_uuid} closed the connection during {call.task}: {last}"
        ) from last

    async def call(
        self, agent: Agent, method: str, path: str, *, timeout_seconds: float = 30.0
    ) -> Any:
        """Another call of the agent's API (``/history``, ``/pause``). Errors: ``NodeTaskError``."""
        try:
            answer = await self._http.request(
                method,
                f"{self._url(agent)}{path}",
                headers=self._headers(agent),
                timeout_seconds=timeout_seconds,
            )
        except TransportError as error:
            raise NodeTaskError(
                f"the agent of server {agent.server_uuid} does not answer: {error}"
            ) from error
        if answer.status >= 300:
            _result(answer.status, answer.content, answer.text, answer.json)
        try:
            return answer.json()
        except ValueError as error:
            raise NodeTaskError(
                f"the agent answered {path} with something else than JSON"
            ) from error


def _result(status: int, content: bytes, text: str, json: Any) -> Record:
    try:
        value: Any = json() if content else {}
    except ValueError:
        value = {"error": text[:500]}
    return outcome_of(status, value)


def outcome_of(status: int, value: object) -> Record:
    """A task's result from its answer. Errors: ``NodeTaskError``."""
    if 200 <= status < 300:
        if isinstance(value, dict):
            return mapping(value)
        return {} if value is None else {"result": value}
    body = mapping(value)
    message = body.get("error") or body.get("message") or "no error given"
    details = mapping(body.get("details")) or {}
    if body.get("code") and "restCode" not in details:
        details = {**details, "restCode": body["code"]}
    if body.get("vm"):
        details = {**details, "vm": body["vm"]}
    raise NodeTaskError(str(message), details or None)
