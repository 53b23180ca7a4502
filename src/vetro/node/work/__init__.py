"""The tasks of a node: how they arrive, wait, run and are recorded.

`api` accepts them over HTTP, `pull` fetches them where the node cannot be called; `queues` runs
them (a queue for each kind, a lock for each VM), `fences` refuses holders whose turn is over,
`history` records how they ended. The tasks themselves are in `vetro.node.tasks`.
"""
