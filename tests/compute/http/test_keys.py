"""Who calls: nodes and services by keys, users by what the identity service says of their tokens."""

import pytest
from tests.compute.conftest import NODE

from vetro.compute.http.keys import NodeAware
from vetro.compute.wire import node_key
from vetro.http import Principal


class Directory:
    """An identity service in which somebody gave a user the role ``node``."""

    async def authenticate(self, token: str) -> Principal | None:
        """The user, for one token."""
        if token != "ann":
            return None
        return Principal("u", "ann", "p", roles=frozenset({"member", "node"}))


@pytest.mark.parametrize("shared", [True, False])
async def test_keys_make_nodes_and_roles_do_not(shared: bool) -> None:
    """A node has its own key, or the secret where that is shared; a role called node makes none."""
    callers = NodeAware(Directory(), node_key="secret", service_key="ours", shared_key=shared)
    node = await callers.authenticate(node_key("secret", NODE))
    assert node is not None
    assert (node.user_id, node.roles) == (f"node/{NODE}", {"node"})
    assert (await callers.authenticate("secret") is not None) is shared
    service = await callers.authenticate("ours")
    assert service is not None
    assert service.is_admin
    user = await callers.authenticate("ann")
    assert user is not None
    assert user.roles == {"member"}
    assert await callers.authenticate("") is None
    assert await callers.authenticate("nobody") is None
