"""A client of the compute service for other processes: requests, typed errors, waits."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, cast

from vetro.compute.wire import ACTING_HEADER
from vetro.http.client import HttpClient, TransportError

__all__ = ["ComputeClient", "ComputeError", "TransportError"]


class ComputeError(Exception):
    """The service refused: its status, code and message; ``body`` may hold more (allocation steps)."""

    def __init__(self, status: int, code: str, message: str, body: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.body = body


class ComputeClient:
    """Calls with a token. One client holds one pool of connections; use it as a context manager."""

    def __init__(
        self, base_url: str, token: str, *, project_id: str = "", timeout_seconds: float = 60.0
    ) -> None:
        """``project_id``: limits an operator's token to this project's and shared objects."""
        self.base_url = base_url.rstrip("/")
        headers = {"X-Auth-Token": token}
        if project_id:
            headers[ACTING_HEADER] = project_id
        self._http = HttpClient(timeout_seconds=timeout_seconds, headers=headers)

    async def __aenter__(self) -> ComputeClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        """The JSON of an answer. Errors: ``ComputeError``, ``TransportError``."""
        response = await self._http.request(
            method,
            self.base_url + path,
            json=body,
            params=params,
            timeout_seconds=timeout_seconds,
        )
        try:
            value: Any = response.json()
        except ValueError:
            value = {"message": response.text[:300]}
        if response.status >= 400:
            given = cast("dict[str, Any]", value if isinstance(value, dict) else {})
            raise ComputeError(
                response.status,
                str(given.get("code") or ""),
                str(given.get("message") or f"status {response.status}"),
                given,
            )
        return value

    async def find(self, path: str, *, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a GET, or ``None`` for 404."""
        try:
            return await self.call("GET", path, params=params)
        except ComputeError as error:
            if error.status == 404:
                return None
            raise

    async def remove(self, path: str, *, params: Mapping[str, Any] | None = None) -> None:
        """DELETE; a missing object is not an error."""
        try:
            await self.call("DELETE", path, params=params, timeout_seconds=600.0)
        except ComputeError as error:
            if error.status != 404:
                raise

    async def wait_task(self, task_id: str) -> dict[str, Any]:
        """Wait until a node task ends. Errors: ``ComputeError`` with the node's message."""
        while True:
            task = cast(
                "dict[str, Any]",
                await self.call(
                    "GET",
                    f"/tasks/{task_id}/wait",
                    params={"timeout": 50},
                    timeout_seconds=90.0,
                ),
            )
            if task["status"] == "active":
                continue
            if task["status"] == "failure":
                result = cast("dict[str, Any]", task.get("result") or {})
                message = str(result.get("error") or "the node gave no reason")
                raise ComputeError(500, "TaskFailed", message, result)
            return task
