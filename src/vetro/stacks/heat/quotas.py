"""What a real OpenStack lets a project have, asked as its user (docs/quotas.md).

There the cloud's own services refuse what is too much, so theirs are the numbers that count. A service
that the catalog does not have limits nothing; one that fails is a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from vetro.http import Principal
from vetro.openstack import (
    KeystonePlace,
    NotInCatalog,
    OpenStackError,
    OpenstackSection,
    Session,
    TokenCredential,
)
from vetro.stacks.heat.offers import COMPUTE, VOLUMES

Pairs = dict[str, tuple[int, int]]
"""What is used and may be, by the names of our resources; -1: any amount."""


@dataclass(frozen=True)
class CloudQuota:
    """What a project has of a resource, and may have (-1: any amount)."""

    used: int
    limit: int


class QuotasByRegion:
    """The quotas of the OpenStack in whose regions stacks are Heat's."""

    def __init__(self, section: OpenstackSection, place: KeystonePlace) -> None:
        self._section = section
        self._place = place

    async def usage(
        self, principal: Principal, region: str | None
    ) -> tuple[Mapping[str, CloudQuota], Sequence[str]]:
        """Of the caller's project in a region, by resource, and warnings; nothing where stacks are native.

        Instances, addresses and volumes are counted, memory is in MiB, disk (of volumes) in GiB.
        """
        if self._section.back_end(region) != "heat":
            return {}, ()
        given = TokenCredential(principal.token, principal.project_id)
        async with self._place.session(given, region or "") as session:
            answers = await asyncio.gather(
                *(_asked(session, name, source) for name, source in _SOURCES.items())
            )
        found: dict[str, CloudQuota] = {}
        warnings: list[str] = []
        for pairs, warning in answers:
            found |= {name: CloudQuota(*pair) for name, pair in pairs.items()}
            warnings += [warning] if warning else []
        return found, warnings


async def _asked(
    session: Session, name: str, source: Callable[[Session], Awaitable[Pairs]]
) -> tuple[Pairs, str]:
    try:
        return await source(session), ""
    except NotInCatalog:
        return {}, ""
    except (OpenStackError, KeyError, TypeError, ValueError) as error:
        # Whatever the cloud answers, the page of a project's own quotas is shown.
        said = str(error) if isinstance(error, OpenStackError) else f"an odd answer ({error!r})"
        return {}, f"The quotas of {name} could not be read: {said}"


async def _absolute(session: Session, service: tuple[str, ...] | str) -> dict[str, Any]:
    answer = await session.request(service, "GET", "/limits")
    assert answer is not None
    return cast("dict[str, object]", answer.json()["limits"]["absolute"])


async def _instances(session: Session) -> Pairs:
    said = await _absolute(session, COMPUTE)
    return {
        "instances": (int(said["totalInstancesUsed"]), int(said["maxTotalInstances"])),
        "cores": (int(said["totalCoresUsed"]), int(said["maxTotalCores"])),
        "memory": (int(said["totalRAMUsed"]), int(said["maxTotalRAMSize"])),
    }


async def _volumes(session: Session) -> Pairs:
    said = await _absolute(session, VOLUMES)
    return {
        "volumes": (int(said["totalVolumesUsed"]), int(said["maxTotalVolumes"])),
        "disk": (int(said["totalGigabytesUsed"]), int(said["maxTotalVolumeGigabytes"])),
    }


async def _addresses(session: Session) -> Pairs:
    version = "" if (await session.endpoint("network")).endswith("/v2.0") else "/v2.0"
    path = f"{version}/quotas/{await session.project_id()}/details.json"
    answer = await session.request("network", "GET", path)
    assert answer is not None
    said: dict[str, Any] = answer.json()["quota"]["floatingip"]
    return {"addresses": (int(said["used"]), int(said["limit"]))}


_SOURCES: dict[str, Callable[[Session], Awaitable[Pairs]]] = {
    "instances": _instances,
    "volumes": _volumes,
    "floating addresses": _addresses,
}
