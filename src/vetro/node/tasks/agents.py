"""Other agents on the node: installed from images, removed, reported.

An agent is a directory below ``<data>/agents`` with ``image.json`` (its manifest). Its archive may hold
``postinstall`` and ``preuninstall``, run with the directory as the working directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from vetro.node.errors import NodeError, TaskFailure
from vetro.node.files import read_json, remove_tree, write_json
from vetro.node.images.store import Describe, Fetch, sha256_of
from vetro.node.tasks.host import Host
from vetro.node.tasks.parameters import array, flag
from vetro.node.unpacking import unpack_tar
from vetro.node.vm_objects import check_uuid
from vetro.node.work.queues import TaskContext, TaskKind

SELF = "cn-agent"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(eq=False, repr=False)
class AgentTasks:
    """Handlers of one node. ``report`` sends the list of agents to the service."""

    directory: Path
    describe: Describe
    fetch: Fetch
    report: Callable[[], Awaitable[None]]
    host: Host

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        queue = "agents_tasks"
        return [
            TaskKind("agent_install", queue, self.install),
            TaskKind("agents_uninstall", queue, self.uninstall),
            TaskKind("refresh_agents", queue, self.refresh),
            TaskKind("shutdown_cn_agent_update", queue, self.shutdown_update),
        ]

    async def refresh(self, _context: TaskContext) -> None:
        """Report the node's agents again; ``{}``."""
        await self.report()

    async def shutdown_update(self, _context: TaskContext) -> None:
        """There is no helper instance to end (docs/decisions/0041); ``{}``."""

    async def install(self, context: TaskContext) -> None:
        """Fetch an agent's image and put it in place of its old version; ``{}``.

        After a failure the old version is restored. Errors begin with ``AgentInstall error:``.
        """
        try:
            await self._install(context)
        except (NodeError, OSError, tarfile.TarError) as error:
            code = getattr(error, "rest_code", "") or "AgentInstallError"
            raise TaskFailure(f"AgentInstall error: {error}", code) from error
        await self.report()

    async def _install(self, context: TaskContext) -> None:
        uuid = check_uuid(context.params.get("image_uuid"), "image_uuid")
        manifest = await self.describe(uuid)
        if manifest is None:
            raise TaskFailure(f"image {uuid} does not exist", "ImageNotFound")
        name = str(context.params.get("package_name") or manifest.get("name") or "")
        if not _NAME.fullmatch(name):
            raise TaskFailure(f"'{name}' is not the name of an agent")
        if name == SELF:
            raise TaskFailure(
                "this agent is part of vetro and is updated with it: install the new version"
                " and start the agent again; VMs go on meanwhile",
                "NotImplemented",
            )
        self.directory.mkdir(mode=0o755, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.directory) as scratch:
            archive, tree = Path(scratch, "file"), Path(scratch, "tree")
            await self.fetch(uuid, archive)
            await asyncio.to_thread(_check, archive, manifest)
            context.progress("fetch", 40)
            await asyncio.to_thread(_extract, archive, tree)
            write_json(tree / "image.json", {**manifest, "uuid": uuid, "name": name})
            await self._replace(tree, self.directory / name)
        context.progress("install", 100)

    async def _replace(self, tree: Path, target: Path) -> None:
        backup = target.with_name(f".old-{target.name}")
        await asyncio.to_thread(remove_tree, backup)
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, backup)
        try:
            os.rename(tree, target)
            await self.host.hook(target, "postinstall")
        except BaseException:
            await asyncio.to_thread(remove_tree, target)
            with contextlib.suppress(FileNotFoundError):
                os.rename(backup, target)
            raise
        await asyncio.to_thread(remove_tree, backup)

    async def uninstall(self, context: TaskContext) -> None:
        """Remove agents; missing ones are not an error; ``{}``."""
        errors: list[str] = []
        for value in array(context.params, "agents"):
            name = str(value)
            if name == SELF and not flag(context.params, "force"):
                errors.append("cn-agent cannot remove itself (force: true insists)")
            elif name == SELF:
                errors.append("cn-agent is part of vetro: stop the service 'vetro node' instead")
            elif not _NAME.fullmatch(name):
                errors.append(f"'{name}' is not the name of an agent")
            else:
                try:
                    target = self.directory / name
                    if target.is_dir():
                        await self.host.hook(target, "preuninstall")
                        await asyncio.to_thread(remove_tree, target)
                except (NodeError, OSError) as error:
                    errors.append(f"{name}: {error}")
        await self.report()
        if errors:
            raise TaskFailure(f"AgentsUninstallTask error: {'; '.join(errors)}")


def installed(directory: Path) -> list[dict[str, object]]:
    """The entries that the service receives for the agents below ``directory``."""
    found: list[dict[str, object]] = []
    for entry in sorted(directory.iterdir()) if directory.is_dir() else []:
        manifest = read_json(entry / "image.json") if _NAME.fullmatch(entry.name) else None
        if manifest:
            found.append(
                {
                    "name": entry.name,
                    "version": str(manifest.get("version") or ""),
                    "image_uuid": manifest["uuid"],
                }
            )
    return found


def _check(archive: Path, manifest: Mapping[str, object]) -> None:
    files = cast("list[dict[str, Any]]", manifest.get("files") or [{}])
    wanted = {"sha256": sha256_of(manifest), "sha1": str(files[0].get("sha1") or "")}
    for algorithm, digest in wanted.items():
        if digest:
            with archive.open("rb") as file:
                found = hashlib.file_digest(file, algorithm).hexdigest()
            if found != digest:
                raise TaskFailure(
                    f"the file arrived damaged: its {algorithm} is {found}, not {digest}",
                    "ImageCorrupt",
                )


def _extract(archive: Path, tree: Path) -> None:
    tree.mkdir(mode=0o755)
    with tarfile.open(archive) as tar:
        unpack_tar(tar, tree)
