"""Moving a container's files from one node to another.

``tree`` compares and transfers two trees. ``transfer`` is a helper process that does it (``python3
-m vetro.node.migration.transfer``), one on each node, so that a transfer does not block the agent
and can be ended by its pid. ``control`` starts and finds helpers for the agent.
"""

from vetro.node.migration.control import Migrations
