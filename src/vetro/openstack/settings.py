"""The settings of working on an OpenStack; where its Keystone is stands in ``[identity]``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vetro.openstack.credentials import Credential
    from vetro.openstack.session import Session


@dataclass(frozen=True)
class KeystonePlace:
    """Where a Keystone is, and which endpoints of its catalog are used."""

    url: str = ""
    region: str = ""
    interface: str = "public"
    answer_seconds: float = 10.0

    def session(self, given: Credential, region: str = "") -> Session:
        """A session with a credential, in a region."""
        from vetro.openstack.session import Session

        return Session(
            self.url,
            given,
            region=region or self.region,
            interface=self.interface,
            timeout_seconds=self.answer_seconds,
        )


@dataclass(frozen=True)
class OpenstackSection:
    """Stacks on the OpenStack whose Keystone is `identity.url` ([openstack.md](openstack.md))."""

    stacks: str = "native"
    """What makes the stacks of regions that are not listed: `native`, Vetro's own compute service, or
    `heat`.
    """
    regions: dict[str, object] = field(default_factory=dict[str, object])
    """`native` or `heat` by region, as `{RegionOne = "heat"}`; the names are those of the service catalog."""
    delegation_hours: float = 24.0
    """Hours that a deployment may act as its user: the life of the application credential made for it."""
    queue_tokens: bool = True
    """Whether a task keeps its user's token, sealed, to its end: Heat's stacks are created with it. `false`:
    no token is ever stored, and stacks are created with the credential; Keystone must let it make trusts
    """
    away_seconds: float = 120.0
    """Seconds that Heat may give no usable answer (silence, 500) before an operation fails."""

    def back_end(self, region: str | None) -> str:
        """``native`` or ``heat``."""
        return str(self.regions.get(region or "", self.stacks))

    @property
    def has_heat(self) -> bool:
        """Whether any region's stacks are Heat's."""
        return "heat" in (self.stacks, *self.regions.values())
