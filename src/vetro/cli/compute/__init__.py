"""Commands on the compute service: VMs, networks, images, servers, tickets."""
