"""Optional parts of a compute service; `ComputePort.offered` lists those that it has.

Templates that need a missing part are refused before anything is changed.
"""

from __future__ import annotations

BLOCK_STORAGE = "block storage"
LOAD_BALANCERS = "load balancers"
PARTS = {"volumes": BLOCK_STORAGE, "load balancers": LOAD_BALANCERS}
"""What the service calls them."""
