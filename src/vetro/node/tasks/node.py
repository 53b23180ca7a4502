"""All tasks of one node, registered with its runner."""

from __future__ import annotations

from vetro.node.tasks.agents import AgentTasks
from vetro.node.tasks.builds import Builder
from vetro.node.tasks.datasets import DatasetTasks
from vetro.node.tasks.docker import DockerTasks
from vetro.node.tasks.images import ImageTasks
from vetro.node.tasks.life_cycle import MachineTasks
from vetro.node.tasks.media import MediaTasks
from vetro.node.tasks.migration import MigrationTasks
from vetro.node.tasks.parts import NodeParts
from vetro.node.tasks.pool_datasets import Datasets
from vetro.node.tasks.server import ServerTasks
from vetro.node.tasks.volumes import VolumeTasks
from vetro.node.work.queues import TaskRunner


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
        VolumeTasks(parts.driver.volumes, parts.fetch_backup, parts.publish_backup, scratch),
        images,
        ServerTasks(parts, runner),
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
