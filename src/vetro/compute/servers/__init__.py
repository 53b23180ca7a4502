"""Compute nodes in the service: their records (`store`), heartbeats and samples (`heartbeats`,
`samples`), how they start (`boot`), their network cards (`nics`), their encrypted pools
(`recovery`), and what their drivers can do (`offers`).
"""
