"""Authentication: operators and users by tokens, nodes and Vetro's own services by keys.

An installation has one secret. Each node has a key derived from it for the node's uuid
(`wire.node_key`): with it the node posts events for itself only, and the service sends the same key
to its agent. The secret itself is accepted as the key of any node (``vetro up`` and its local
agent; small installations) unless ``shared_key`` is off.
"""

from __future__ import annotations

import hmac
from dataclasses import KW_ONLY, dataclass

import msgspec

from vetro.compute.wire import node_key, server_of_key
from vetro.http import Authenticator, Principal

_REMEMBERED = 50_000


@dataclass(eq=False, repr=False)
class NodeAware:
    """An authenticator that also accepts the keys of nodes and of Vetro's own services."""

    inner: Authenticator
    _: KW_ONLY
    node_key: str
    service_key: str
    shared_key: bool = True

    def __post_init__(self) -> None:
        self._genuine: dict[str, str] = {}

    async def authenticate(self, token: str) -> Principal | None:
        """A node, one of Vetro's own services, or the principal from the identity service."""
        uuid = self.node_of(token)
        if uuid is not None:
            return Principal(
                f"node/{uuid}" if uuid else "node", "node", "", roles=frozenset({"node"})
            )
        if token and _same(token, self.service_key):
            return Principal("service", "service", "", roles=frozenset({"admin"}))
        principal = await self.inner.authenticate(token)
        if principal is not None and "node" in principal.roles:
            # Only a node's key makes a node; a role of that name at the identity service is a user's.
            return msgspec.structs.replace(principal, roles=principal.roles - {"node"})
        return principal

    def node_of(self, token: str) -> str | None:
        """The server of a node's key, '' for the shared key, ``None`` for any other token."""
        if not token or not self.node_key:
            return None
        known = self._genuine.get(token)
        if known is not None:
            return known
        uuid = server_of_key(token)
        if uuid is None:
            return "" if self.shared_key and _same(token, self.node_key) else None
        if not _same(token, node_key(self.node_key, uuid)):
            return None
        if len(self._genuine) < _REMEMBERED:
            self._genuine[token] = uuid
        return uuid


def _same(given: str, key: str) -> bool:
    return bool(key) and hmac.compare_digest(given.encode(), key.encode())
