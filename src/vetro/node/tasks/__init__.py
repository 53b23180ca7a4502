"""The tasks of a node (compute-node-agent.md §5), grouped by subject.

``life_cycle``, ``media`` (snapshots, images of VMs, screens), ``docker`` (streams to and
from containers), ``migration``, ``images``, ``server`` (the node itself), ``agents``, ``datasets``
(``zfs_*``). Each module has a class whose ``kinds()`` are registered with the runner.
"""

from vetro.node.tasks.node import register_all
from vetro.node.tasks.parts import NodeParts
