"""Identity by a real Keystone: other faces' tokens are validated there (catalog-api.md §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Every service declares the metrics, also one without a Keystone.
import vetro.identity.keystone.tokens
from vetro.identity.settings import IdentitySection
from vetro.openstack import KeystonePlace

if TYPE_CHECKING:
    from vetro.identity.keystone.delegation import KeystoneDelegations
    from vetro.identity.keystone.tokens import KeystoneTokens
    from vetro.openstack import Session


def service_session(settings: IdentitySection) -> Session:
    """Vetro's own session at the Keystone of the settings."""
    from vetro.openstack import ApplicationCredential, PasswordCredential

    if settings.service_credential:
        credential = ApplicationCredential(settings.service_credential, settings.service_secret)
    else:
        credential = PasswordCredential(
            settings.service_user,
            settings.service_password,
            settings.service_project,
            settings.service_domain,
            settings.service_domain,
        )
    return place_of(settings).session(credential)


def place_of(settings: IdentitySection) -> KeystonePlace:
    """Where the Keystone of the settings is."""
    return KeystonePlace(settings.url, settings.region, settings.interface, settings.answer_seconds)


def delegations_of(
    settings: IdentitySection, hours: float, *, tokens: bool = True
) -> KeystoneDelegations:
    """What lets tasks act as their users at the Keystone of the settings, for so many hours. ``tokens``:
    with their tokens, too."""
    from vetro.identity.keystone.delegation import KeystoneDelegations

    return KeystoneDelegations(service_session(settings), place_of(settings), hours, tokens=tokens)


def keystone_of(settings: IdentitySection) -> KeystoneTokens | None:
    """What validates tokens at the Keystone of the settings; ``None`` for the built-in service."""
    if not settings.url:
        return None
    # Loaded when it is used: an installation without OpenStack has no need of it.
    from vetro.identity.keystone.tokens import KeystoneTokens

    return KeystoneTokens(
        service_session(settings),
        cache_seconds=settings.cache_seconds,
        admin_role=settings.admin_role,
    )
