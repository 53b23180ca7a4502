"""What a service with a real OpenStack does for the faces: tasks act as their users, forms choose from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro import identity
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.environments import CloudQuotas, Delegations, NetworkDriver, Platform


def delegations_of(settings: Settings) -> Delegations | None:
    """What lets tasks act as their users at OpenStack; ``None`` where no stacks are Heat's."""
    if not settings.openstack.has_heat:
        return None
    openstack = settings.openstack
    return identity.delegations_of(
        settings.identity, openstack.delegation_hours, tokens=openstack.queue_tokens
    )


def platform_of(settings: Settings, native: Platform) -> Platform:
    """What forms choose from: the OpenStack of regions whose stacks are Heat's, else ``native``."""
    if not settings.openstack.has_heat:
        return native
    from vetro.stacks.heat import OffersByRegion

    return OffersByRegion(settings.openstack, identity.place_of(settings.identity), native)


def cloud_quotas_of(settings: Settings) -> CloudQuotas | None:
    """The quotas of the OpenStack that makes stacks; ``None`` where none does."""
    if not settings.openstack.has_heat:
        return None
    from vetro.stacks.heat import QuotasByRegion

    return QuotasByRegion(settings.openstack, identity.place_of(settings.identity))


def network_driver_of(settings: Settings) -> NetworkDriver | None:
    """Chooses the networks of new environments; ``None``: the driver of the settings."""
    if settings.network.driver or not settings.openstack.has_heat:
        return None
    from vetro.stacks.heat import NetworkDrivers

    return NetworkDrivers(settings.openstack, identity.place_of(settings.identity))
