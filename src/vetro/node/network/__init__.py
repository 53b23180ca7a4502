"""The node's networks: bridges, addresses, one nft table, floating addresses.

``NetworkApplier.apply(state)`` brings this machine from any state to the wanted one
(docs/architecture.md, "Networks on nodes").
"""

from vetro.node.network.apply import NetworkApplier
