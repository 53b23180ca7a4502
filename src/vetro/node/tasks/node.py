"""All tasks of one node, registered with its runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from vetro.node.drivers import Driver
from vetro.node.drivers.volumes import VolumeWork
from vetro.node.images.store import Describe, Fetch, ImageStore
from vetro.node.migration import Migrations
from vetro.node.network import NetworkApplier
from vetro.node.network.nic_tags import NicTags
from vetro.node.storage import Pool
from vetro.node.streams.servers import Streams
from vetro.node.tasks.agents import AgentTasks
from vetro.node.tasks.builds import Builder
from vetro.node.tasks.datasets import DatasetTasks
from vetro.node.tasks.docker import DockerTasks
from vetro.node.tasks.host import Host
from vetro.node.tasks.images import ImageTasks
from vetro.node.tasks.life_cycle import MachineTasks
from vetro.node.tasks.media import MediaTasks, Publish
from vetro.node.tasks.migration import MigrationTasks
from vetro.node.tasks.pool_datasets import Datasets
from vetro.node.tasks.server import ServerTasks
from vetro.node.tasks.volumes import Fetch as FetchBackup
from vetro.node.tasks.volumes import Publish as PublishBackup
from vetro.node.tasks.volumes import VolumeTasks
from vetro.node.work.queues import TaskRunner


@dataclass(frozen=True)
class NodeParts:
    """The parts of a node on which its tasks operate."""

    driver: Driver
    images: ImageStore
    network: NetworkApplier | None
    pool: Pool
    pool_name: str
    tags: NicTags
    streams: Streams
    migrations: Migrations
    sysinfo: Callable[[], Awaitable[dict[str, object]]]
    changed: Callable[[], None]
    refresh_agents: Callable[[], Awaitable[None]]
    describe: Describe
    fetch: Fetch
    publish: Publish
    data_dir: Path
    server_uuid: str
    host: Host
    volumes: VolumeWork
    fetch_backup: FetchBackup
    publish_backup: PublishBackup


def register_all(runner: TaskRunner, parts: NodeParts) -> ImageTasks:
    """Register every task; returns the image tasks, with which the agent collects unused images."""
    scratch = parts.data_dir / "scratch"
    images = ImageTasks(parts.driver, parts.images, parts.network)
    groups = (
        MachineTasks(parts.driver),
        MediaTasks(parts.driver, parts.publish, scratch),
        DockerTasks(
            parts.driver,
            parts.streams,
            parts.data_dir / "vms",
            Builder(scratch, parts.publish) if parts.host.real else None,
        ),
        MigrationTasks(parts.driver, parts.migrations),
        VolumeTasks(parts.volumes, parts.fetch_backup, parts.publish_backup, scratch),
        images,
        ServerTasks(
            parts.driver,
            parts.images,
            runner,
            parts.pool,
            parts.tags,
            sysinfo=parts.sysinfo,
            changed=parts.changed,
            data_dir=parts.data_dir,
            server_uuid=parts.server_uuid,
            host=parts.host,
        ),
        AgentTasks(
            parts.data_dir / "agents", parts.describe, parts.fetch, parts.refresh_agents, parts.host
        ),
        DatasetTasks(
            Datasets(
                parts.pool_name, parts.data_dir / "datasets", parts.pool, parts.driver, parts.images
            )
        ),
    )
    for group in groups:
        for kind in group.kinds():
            runner.register(kind)
    return images
