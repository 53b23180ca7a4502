"""Identity by a real Keystone: other faces' tokens are validated there (catalog-api.md §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.identity.settings import IdentitySection

if TYPE_CHECKING:
    from vetro.identity.keystone.tokens import KeystoneTokens
    from vetro.openstack import Session


def service_session(settings: IdentitySection) -> Session:
    """Vetro's own session at the Keystone of the settings."""
    from vetro.openstack import ApplicationCredential, PasswordCredential, Session

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
    return Session(
        settings.url,
        credential,
        region=settings.region,
        interface=settings.interface,
        timeout_seconds=settings.answer_seconds,
    )


def keystone_of(settings: IdentitySection) -> KeystoneTokens | None:
    """What validates tokens at the Keystone of the settings; ``None`` for the built-in service."""
    if not settings.url:
        return None
    # Loaded when it is used: an installation without OpenStack has no need of it.
    from vetro.identity.keystone.tokens import KeystoneTokens

    return KeystoneTokens(service_session(settings), cache_seconds=settings.cache_seconds)
