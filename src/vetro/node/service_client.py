"""The compute service as a node sees it: messages, images, and in pull mode its tasks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog

from vetro.compute.wire import PulledResult, PulledTask
from vetro.http import Fault
from vetro.http.client import HttpClient, SyncResponse, TransportError
from vetro.json_values import JsonObject
from vetro.node.errors import DriverError, ImageError

log = structlog.get_logger(__name__)

_CHUNK = 1 << 20


class ServiceClient:
    """The compute service as a node sees it."""

    def __init__(
        self,
        base_url: str,
        server_uuid: str,
        node_key: str,
        version: str,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        headers = {"User-Agent": f"cn-agent/{version} (linux) server/{server_uuid}"}
        if node_key:
            headers["Authorization"] = f"Bearer {node_key}"
        self._base = base_url.rstrip("/")
        self._server = f"{self._base}/servers/{server_uuid}"
        # Each request has its own limit, so that an agent can send heartbeats during a long
        # download.
        self._http = HttpClient(timeout_seconds=5.0, headers=headers, tls=tls)
        # Other nodes and other image services must not receive this node's key.
        self._nodes = HttpClient(timeout_seconds=30.0, tls=tls)
        # Either all agents of one service use TLS, or none does.
        self._agents = "https:" if tls is not None else "http:"

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
        await self._nodes.close()

    async def post(self, path: str, body: Mapping[str, object]) -> int:
        """POST below ``/servers/<own uuid>``; the status. Errors: ``TransportError``."""
        response = await self._http.request("POST", f"{self._server}{path}", json=body)
        if response.status in (401, 403):
            log.error(
                "node_key_refused",
                remedy="give the node the key of the installation (the file node-key in the"
                " service's data directory) or the one an operator gets for this node, in"
                " VETRO_NODE_KEY or [node] key",
                service=self._base,
                key_of=f"GET {self._server}/key",
                status=response.status,
                answer=response.text[:300],
            )
        elif response.status >= 400:
            log.warning(
                "message_refused",
                path=path or "/",
                status=response.status,
                answer=response.text[:300],
            )
        return response.status

    async def image(self, uuid: str) -> JsonObject | None:
        """An image's manifest; ``None`` when the service has no such image."""
        try:
            response = await self._http.request(
                "GET", f"{self._base}/images/{uuid}", timeout_seconds=30
            )
        except TransportError as error:
            raise ImageError(f"Image {uuid}: the image service does not answer: {error}") from error
        if response.status == 404:
            return None
        if response.status != 200:
            raise ImageError(f"Image {uuid}: {response.status} {response.text[:300]}")
        return response.json()

    async def image_file(self, uuid: str, target: Path) -> None:
        """Download an image's file."""
        try:
            await self._http.download(f"{self._base}/images/{uuid}/file", target)
        except (TransportError, Fault) as error:
            raise ImageError(f"Image {uuid} could not be fetched: {error}") from error

    async def image_from_node(self, url: str, uuid: str, sha256: str, target: Path) -> None:
        """Download an image's file from another node's agent.

        Knowing the digest is sufficient: the service sent it to both nodes.
        """
        url = url.replace("http:", self._agents, 1)
        try:
            await self._nodes.download(
                f"{url.rstrip('/')}/images/{uuid}/file", target, headers={"x-image-sha256": sha256}
            )
        except (TransportError, Fault) as error:
            raise ImageError(f"Image {uuid} could not be fetched from {url}: {error}") from error

    async def publish_image(
        self, manifest: Mapping[str, object], file: Path, base_url: str
    ) -> None:
        """Upload a new image to the image service; ``base_url`` '' is the compute service itself.

        Any other URL comes from the request: this node's key is not sent to it.
        """
        base = (base_url or self._base).rstrip("/")
        client = self._http if _same_address(base, self._base) else self._nodes
        uuid = manifest["uuid"]
        try:
            response = await client.request(
                "POST", f"{base}/images", json=dict(manifest), timeout_seconds=60
            )
            if response.status < 300:
                url = f"{base}/images/{uuid}/file"
                response = await _send_file(client, url, file, str(manifest["sha256"]))
        except TransportError as error:
            raise ImageError(f"Image {uuid} could not be published: {error}") from error
        if response.status >= 300:
            raise ImageError(
                f"The service did not accept image {uuid}: {response.status} {response.text[:500]}",
                "ImageNotPublished",
            )

    async def backup_file(self, uuid: str, target: Path) -> None:
        """Download the file of a volume's backup."""
        try:
            await self._http.download(f"{self._base}/volume-backups/{uuid}/file", target)
        except (TransportError, Fault) as error:
            raise DriverError(f"Backup {uuid} could not be fetched: {error}") from error

    async def publish_backup(self, uuid: str, file: Path, described: Mapping[str, object]) -> None:
        """Upload the file of a volume's backup; ``described``: ``sha256``."""
        try:
            url = f"{self._base}/volume-backups/{uuid}/file"
            response = await _send_file(self._http, url, file, str(described["sha256"]))
        except TransportError as error:
            raise DriverError(f"Backup {uuid} could not be sent: {error}") from error
        if response.status >= 300:
            raise DriverError(
                f"The service did not accept backup {uuid}: {response.status} {response.text[:500]}"
            )

    async def next_task(self, wait_seconds: float, *, again: bool) -> PulledTask | None:
        """The next task for this node; ``None`` when there is none. Errors: ``TransportError``.

        ``again``: tasks that were given out and have not ended are given out again.
        """
        response = await self._http.request(
            "GET",
            f"{self._server}/agent/next-task",
            params={"timeout": f"{wait_seconds:g}", **({"restarted": "true"} if again else {})},
            timeout_seconds=wait_seconds + 15,
        )
        if response.status == 204:
            return None
        if response.status != 200:
            raise TransportError(
                f"the service gave no task: {response.status} {response.text[:300]}"
            )
        return msgspec.convert(response.json(), PulledTask)

    async def task_done(self, task_id: str, status: int, body: Any) -> bool:
        """Report a pulled task's end; whether the service took it. Errors: ``TransportError``."""
        response = await self._http.request(
            "POST",
            f"{self._server}/agent/tasks/{task_id}",
            json=msgspec.to_builtins(PulledResult(status, body)),
            timeout_seconds=30,
        )
        if response.status in (404, 410):
            log.info("task_unknown_to_service", task=task_id)
            return True
        return response.status < 300


async def _send_file(client: HttpClient, url: str, file: Path, sha256: str) -> SyncResponse:
    return await client.request(
        "PUT",
        url,
        content=_chunks(file),
        params={"sha256": sha256},
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Length": str(file.stat().st_size),
        },
        timeout_seconds=3600,
    )


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as stream:
        while data := await asyncio.to_thread(stream.read, _CHUNK):
            yield data


def _same_address(one: str, other: str) -> bool:
    """Whether two URLs have the same scheme, user, host, port and path."""

    def parts(url: str) -> tuple[object, ...]:
        found = urlsplit(url)
        port = found.port or {"http": 80, "https": 443}.get(found.scheme)
        return found.scheme, found.hostname, port, found.path.rstrip("/"), found.username

    try:
        return parts(one) == parts(other)
    except ValueError:
        return False
