"""The parts of a node on which its tasks operate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from vetro.node.drivers import Driver
from vetro.node.images.store import Describe, Fetch, ImageStore
from vetro.node.migration import Migrations
from vetro.node.network import NetworkApplier
from vetro.node.network.nic_tags import NicTags
from vetro.node.storage import Pool
from vetro.node.streams.servers import Streams
from vetro.node.tasks.host import Host
from vetro.node.tasks.media import Publish
from vetro.node.tasks.volumes import Fetch as FetchBackup
from vetro.node.tasks.volumes import Publish as PublishBackup


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
    fetch_backup: FetchBackup
    publish_backup: PublishBackup
