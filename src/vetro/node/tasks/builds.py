"""Building container images with buildah, from a context sent by a client."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import re
import secrets
import socket
import tarfile
import tempfile
import uuid as uuids
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, NodeError, TaskFailure
from vetro.node.images.archive import pack
from vetro.node.processes import session
from vetro.node.tasks.media import Publish
from vetro.node.unpacking import unpack_tar
from vetro.node.vm_objects import as_object

# Output bytes in one line to the client: lines of JSON stay well below readers' limits.
_PIECE = 16384
# Output bytes kept for the error of a failed build.
_KEPT = 2000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,127}(:[A-Za-z0-9._-]{1,128})?")


class Builder:
    """Builds below ``scratch``; ``publish`` gives the result to the image service."""

    def __init__(self, scratch: Path, publish: Publish) -> None:
        self._scratch = scratch
        self._publish = publish

    async def build(self, client: socket.socket, payload: Mapping[str, object]) -> None:
        """Read the context (a tar, until the client closes its side), build, publish.

        ``payload``: ``t`` (name and tag), ``dockerfile``, ``buildargs``, ``owner``. Lines of JSON to
        the client: ``{"stream": text}``, at last ``{"aux": {"ID": uuid}}`` or ``{"error": text}``.
        """
        loop = asyncio.get_running_loop()

        async def say(**fields: object) -> None:
            await loop.sock_sendall(client, msgspec.json.encode(fields) + b"\n")

        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix="build-", dir=self._scratch) as directory:
                work = Path(directory)
                context = work / "context"
                context.mkdir()
                await asyncio.to_thread(_receive, client, context)
                client.setblocking(False)
                image = await self._run(work, context, payload, say)
            await say(aux={"ID": image})
        except (NodeError, OSError, tarfile.TarError) as error:
            await say(error=str(error), errorDetail={"message": str(error)})

    async def _run(
        self, work: Path, context: Path, payload: Mapping[str, object], say: object
    ) -> str:
        wanted = str(payload.get("t") or "build")
        if not _NAME.fullmatch(wanted):
            raise TaskFailure(f"'{wanted}' is not the name of an image")
        name, _, tag = wanted.partition(":")
        file = str(payload.get("dockerfile") or "Dockerfile")
        if file.startswith("/") or ".." in file.split("/"):
            raise TaskFailure(f"dockerfile: '{file}' leads out of the context")
        arguments = as_object(payload.get("buildargs"), "buildargs")
        made = f"vetro-{secrets.token_hex(6)}"
        argv = ["buildah", "bud", "--tag", made, "--file", str(context / file)]
        for key, value in arguments.items():
            argv += ["--build-arg", f"{key}={value}"]
        await self._stream([*argv, str(context)], say)
        container = ""
        try:
            container = (await run("buildah", "from", made)).output.strip()
            mounted = (await run("buildah", "mount", container)).output.strip()
            target = work / "image"
            await pack(Path(mounted), target, compression="zstd", id_base=0)
        finally:
            if container:
                await run("buildah", "rm", container, check=False)
            await run("buildah", "rmi", made, check=False)
        with target.open("rb") as packed:
            digest = hashlib.file_digest(packed, "sha256").hexdigest()
        uuid = str(payload.get("uuid") or uuids.uuid4())
        manifest = {
            "uuid": uuid, "name": name, "version": tag or "latest", "type": "lxc-rootfs",
            "os": "linux", "sha256": digest, "size": target.stat().st_size,
            "owner": str(payload.get("owner") or "00000000-0000-0000-0000-000000000000"),
        }  # fmt: skip
        await self._publish(manifest, target, "")
        return uuid

    async def _stream(self, argv: list[str], say: Any) -> None:
        """Send the build's output as it arrives; a client that disconnects ends the build."""
        text = codecs.getincrementaldecoder("utf-8")("replace")
        said = ""
        async with session(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            while data := await process.stdout.read(_PIECE):
                part = text.decode(data)
                said = (said + part)[-_KEPT:]
                await say(stream=part)
            status = await process.wait()
        if status:
            raise CommandFailed(argv, status, said)


def _receive(client: socket.socket, context: Path) -> None:
    client.settimeout(600)
    with client.makefile("rb") as file, tarfile.open(fileobj=file, mode="r|*") as tar:
        unpack_tar(tar, context)
