"""Looking at the twin of a compute service after a test."""

from vetro.stacks.memory import MemoryCompute


def is_empty(compute: MemoryCompute) -> bool:
    """Whether no project has anything there."""
    return not (
        len(compute.network_list) > 1
        or compute.subnet_list
        or compute.router_list
        or compute.group_list
        or compute.port_list
        or compute.floating_list
        or compute.keypair_list
        or compute.server_list
        or compute.volume_list
        or compute.tickets
    )
