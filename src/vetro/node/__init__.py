"""The compute node agent: one for each machine (spec ``compute-node-agent.md``).

``NodeAgent(settings).run()`` registers the node, reports its state, serves the task API and drives
containers (``lxc``), plain processes (``process``) or pretended VMs (``simulated``).
``vetro.node.images.build_image`` builds root file systems.
"""

from typing import TYPE_CHECKING, Any

from vetro.node.errors import (
    CommandFailed,
    ConfigurationError,
    DriverError,
    ImageBuildError,
    ImageError,
    NetworkError,
    NodeError,
    TaskFailure,
)
from vetro.node.settings import NodeSettings

if TYPE_CHECKING:
    from vetro.node.agent import NodeAgent
    from vetro.node.images import ImageFile, build_image

_WHERE = {
    "NodeAgent": "vetro.node.agent",
    "ImageFile": "vetro.node.images",
    "build_image": "vetro.node.images",
}


def __getattr__(name: str) -> Any:
    """Import the agent when it is first used: building an image needs no server."""
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'vetro.node' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


__all__ = [
    "CommandFailed",
    "ConfigurationError",
    "DriverError",
    "ImageBuildError",
    "ImageError",
    "ImageFile",
    "NetworkError",
    "NodeAgent",
    "NodeError",
    "NodeSettings",
    "TaskFailure",
    "build_image",
]
