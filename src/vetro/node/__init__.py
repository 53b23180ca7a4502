"""The compute node agent: one for each machine (spec ``compute-node-agent.md``).

``NodeAgent(settings).run()`` registers the node, reports its state, serves the task API and drives
containers (``lxc``), plain processes (``process``) or pretended VMs (``simulated``).
``build_image`` and ``build_vm_image`` make root file systems and disks; ``accelerator_of`` says whether
KVM works here.
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used
from vetro.node.errors import ConfigurationError, ImageBuildError, NodeError
from vetro.node.settings import NodeSection, NodeSettings

if TYPE_CHECKING:
    from vetro.node.agent import NodeAgent
    from vetro.node.driver_record import refuse_other_driver
    from vetro.node.drivers.qemu.accel import Accelerator, accelerator_of
    from vetro.node.images.bootstrap import build_image, keep_once
    from vetro.node.images.build_scratch import remove_leftovers
    from vetro.node.images.vm_images import build_vm_image

__getattr__ = import_when_used(__name__)
