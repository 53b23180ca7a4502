"""A real OpenStack: signing in at its Keystone, its service catalog, requests to its services.

`Session` is one credential at one Keystone; `Endpoint` a place of its catalog. What the services mean
is the business of the rooms that ask: `identity` validates tokens, `stacks` works with Heat.

Names are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.openstack.credentials import (
        ApplicationCredential,
        Credential,
        PasswordCredential,
        TokenCredential,
    )
    from vetro.openstack.errors import (
        LoginRefused,
        NotInCatalog,
        OpenStackError,
        RequestRefused,
        ServiceAway,
    )
    from vetro.openstack.session import Session, keystone_url
    from vetro.openstack.settings import KeystonePlace, OpenstackSection

__getattr__ = import_when_used(__name__)
