"""Identity: tokens, projects, roles; a Keystone v3 that the stock OpenStack clients can use.

``Identity`` is the whole service: its face, the authenticator the other faces use, and the first
administrator. Names are loaded when they are used: a node's settings need no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.identity.keystone import delegations_of, place_of
    from vetro.identity.keystone.delegation import end_delegation
    from vetro.identity.keystone.forwarding import forwarding_face
    from vetro.identity.leaving import Names, ProjectHoldings, ProjectRemoval
    from vetro.identity.login import CatalogEndpoint
    from vetro.identity.service import Identity
    from vetro.identity.settings import IdentitySection
    from vetro.identity.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
