"""Stacks and networks of regions on a real OpenStack, as the user whom a task acts for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from vetro.engine.settings import EngineSettings
from vetro.openstack import ApplicationCredential, OpenStackError
from vetro.stacks.heat import CinderDirectory, HeatSettings, HeatStacks, NeutronDirectory, Patience

if TYPE_CHECKING:
    from vetro.stacks import NetworkDirectory, Stacks


class NotDelegated(OpenStackError):
    """A program reaches for a region of OpenStack, and nobody let it act for them there."""


class OpenStackRegions:
    """The regions whose stacks are Heat's; a session for each, opened when it is used."""

    def __init__(
        self, settings: EngineSettings, delegation: Mapping[str, str], project_id: str
    ) -> None:
        self._settings = settings
        self._project_id = project_id
        self._delegation = delegation
        self._open: dict[str, tuple[Stacks, NetworkDirectory]] = {}
        self._volumes: dict[str, CinderDirectory] = {}
        self._sessions = AsyncExitStack()

    def __call__(self, region: str) -> tuple[Stacks, NetworkDirectory] | None:
        """Stacks and networks of a region; ``None`` when they are Vetro's own. Errors: `NotDelegated`."""
        if self._settings.openstack.back_end(region) != "heat":
            return None
        if region not in self._open:
            if not self._delegation:
                raise NotDelegated(
                    f"The region {region or '(home)'} is on OpenStack, where a program acts as a user: this"
                    " one was not begun by a deployment or an action of a signed-in user"
                )
            if self._delegation["project_id"] != self._project_id:
                raise NotDelegated(
                    f"The environment is of the project {self._project_id}, and its region"
                    f" {region or '(home)'} is on OpenStack, where a program acts in the project of the token"
                    f" that began it, {self._delegation['project_id']}. Sign in for the environment's project"
                )
            given = ApplicationCredential(self._delegation["id"], self._delegation["secret"])
            session = self._settings.keystone.session(given, region)
            self._sessions.push_async_callback(session.close)
            patience = Patience(self._settings.openstack.away_seconds)
            settings = HeatSettings(
                patience=patience, former_tags=tuple(self._settings.heat.stack_tags)
            )
            heat = HeatStacks(session, settings, self._delegation.get("token", ""))
            self._open[region] = (heat, NeutronDirectory(session, patience=patience))
            self._volumes[region] = CinderDirectory(session, patience=patience)
        return self._open[region]

    def volumes(self, region: str) -> CinderDirectory | None:
        """Copies of volumes in a region; ``None`` when they are Vetro's own. Errors: `NotDelegated`."""
        return None if self(region) is None else self._volumes[region]

    async def close(self) -> None:
        """Close the sessions."""
        await self._sessions.aclose()
