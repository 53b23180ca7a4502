"""Storage pools for images and the root file systems of containers.

A pool consists of *trees*: directories that can be cloned, limited and removed (``Trees``: plain
directories, btrfs subvolumes, ZFS datasets, LVM thin volumes). Containers' *roots* are built on
them (``Pool``): an overlay over the image where trees are plain directories, a clone of the image
elsewhere. ``open_pool`` detects the pool of the data directory.
"""

from vetro.node.storage.detect import open_pool
from vetro.node.storage.pool import Pool
