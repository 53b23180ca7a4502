"""An image of a stopped container: a tar of its root, or of what differs from its own image."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vetro.node.files import remove_tree
from vetro.node.guest.root import GuestRoot
from vetro.node.images.archive import give_away, pack, prepare_layer


async def write_image(root: GuestRoot, target: Path, *, compression: str) -> dict[str, object]:
    """Export the whole root; returns additions to its manifest."""
    await pack(root.path, target, compression=compression, id_base=root.shift)
    return {"type": "lxc-rootfs", "os": "linux"}


async def write_layer(
    directory: Path, root: GuestRoot, origin: str, target: Path, *, compression: str
) -> dict[str, object]:
    """Export what a container in ``directory`` wrote over ``origin``, which the manifest names."""
    layer = directory / "layer"
    await asyncio.to_thread(remove_tree, layer)
    try:
        await asyncio.to_thread(prepare_layer, directory / "upper", layer)
        await asyncio.to_thread(give_away, layer, root.shift)
        await pack(layer, target, compression=compression, id_base=root.shift)
    finally:
        await asyncio.to_thread(remove_tree, layer)
    return {"type": "lxc-rootfs", "os": "linux", "origin": origin}
