"""Commands on the compute service: VMs, networks, images, volumes, servers, tickets.

A module for each kind of object, with its command group; `lookup` and `vm_lookup` find objects by
the names that people know them by. Bodies and answers are those of `compute.wire`. `allocate` runs
the allocator on a case in a file, without a service.
"""
