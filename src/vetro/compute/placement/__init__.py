"""Placement: the allocator on the service's database.

`index` follows servers, VMs and tickets in memory; `choosing` asks the allocator, `reserving` holds
the room in one transaction; `placement` is what the rest of the service calls; `metadata` are the
settings that an operator changes while it runs.
"""
