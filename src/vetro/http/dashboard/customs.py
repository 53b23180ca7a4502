"""What an installation's dashboard is called and offers, and what its policy lets people do there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vetro.http.principal import Principal

#: Names of the policy's rules that a caller passes.
Allowed = Callable[[Principal], Sequence[str]]


def no_rules(_caller: Principal) -> Sequence[str]:
    """Of a service without a policy."""
    return ()


@dataclass(frozen=True)
class DashboardSection:
    """What the web dashboard is called and what its pages offer ([dashboard.md](dashboard.md))."""

    title: str = "Vetro"
    """What the dashboard is called: in its header and in the titles of windows."""
    use_fixed_network: bool = False
    """New environments join the network that `fixed_network` leads to; nobody is asked."""
    fixed_network: str = "murano_network"
    """The property of Keystone's projects that has the name of their network; the name of the network
    itself for a project without that property.
    """
    image_project: str = ""
    """The list of images has those of the project with this id and one's own; empty: all that one may
    see.
    """


@dataclass(frozen=True)
class Customs:
    """The settings of pages, the size of an archive that uploads may have, and the policy.

    Without a policy its rules let nobody through, and pages offer only what has no rule.
    """

    settings: DashboardSection = field(default_factory=DashboardSection)
    package_mib: float = 5.0
    allowed: Allowed = no_rules
