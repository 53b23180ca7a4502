"""Storage pools: where images and the root file systems of containers lie.

A pool is made of *trees*: directories that can be cloned, limited and dropped (``Trees``: plain
directories, btrfs subvolumes, ZFS datasets, LVM thin volumes). On them stand containers' *roots*
(``Pool``): an overlay over the image where trees are plain directories, a clone of the image elsewhere.
``open_pool`` looks which of them the data directory is on.
"""

from vetro.node.storage.detect import open_pool
from vetro.node.storage.pool import Pool, PoolStats, Trees

__all__ = ["Pool", "PoolStats", "Trees", "open_pool"]
