"""Sending calls of the compute service from an event loop: typed errors, waits."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from vetro.compute.client.calls import Call
from vetro.compute.client.vm_calls import wait_task
from vetro.compute.wire import ACTING_HEADER, Task
from vetro.http.client import HttpClient, TransportError

__all__ = ["ComputeClient", "ComputeError", "TransportError"]

Answer = TypeVar("Answer")


class ComputeError(Exception):
    """The service refused: its status, code and message; ``body`` may hold more (allocation steps)."""

    def __init__(self, status: int, code: str, message: str, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.body = body

    def body_as(self, type_: type[Answer]) -> Answer:
        """The body as a struct whose fields have defaults: for a body of another form, the defaults."""
        try:
            return msgspec.convert(self.body, type_)
        except msgspec.ValidationError:
            return type_()


class ComputeClient:
    """Calls with a token. One client holds one pool of connections; use it as a context manager."""

    def __init__(self, base_url: str, token: str, *, project_id: str = "") -> None:
        """``project_id``: limits an operator's token to this project's and shared objects."""
        self.base_url = base_url.rstrip("/")
        headers = {"X-Auth-Token": token, "Content-Type": "application/json"}
        if project_id:
            headers[ACTING_HEADER] = project_id
        self._http = HttpClient(timeout_seconds=60.0, headers=headers)

    async def __aenter__(self) -> ComputeClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def send(self, call: Call[Answer]) -> Answer:
        """The answer of a call. Errors: ``ComputeError``, ``TransportError``."""
        response = await self._http.request(
            call.method,
            self.base_url + call.path,
            content=call.content,
            params=call.params or None,
            timeout_seconds=call.seconds,
        )
        if response.status >= 400:
            raise refusal(response.status, response.content)
        try:
            return call.read(response.content)
        except msgspec.MsgspecError as error:
            message = f"The answer to {call.method} {call.path} has an unexpected form: {error}"
            raise ComputeError(response.status, "UnexpectedAnswer", message, {}) from error

    async def ended(self, task: str) -> Task:
        """A node's task when it has ended. Errors: ``ComputeError`` with the node's message."""
        while True:
            found = await self.send(wait_task(task))
            if found.status == "failure":
                message = found.error or "the node gave no reason"
                raise ComputeError(500, "TaskFailed", message, {})
            if found.status != "active":
                return found


class _Refusal(msgspec.Struct):
    code: str = ""
    message: str = ""


def refusal(status: int, content: bytes) -> ComputeError:
    """The error that a response's body describes."""
    try:
        body = msgspec.json.decode(content, type=dict[str, Any])
        said = msgspec.convert(body, _Refusal, strict=False)
    except msgspec.MsgspecError:
        text = content[:300].decode("utf-8", "replace")
        return ComputeError(status, "", text or f"status {status}", {})
    return ComputeError(status, said.code, said.message or f"status {status}", body)
