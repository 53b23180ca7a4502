"""A running OpenStack, as tests reach it."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from vetro.identity import IdentitySection
from vetro.openstack import PasswordCredential, Session


@dataclass(frozen=True)
class Cloud:
    """A running OpenStack: its directory has ``openrc`` (admin) and ``openrc-demo`` (a member)."""

    directory: Path

    def openrc(self, who: str = "admin") -> dict[str, str]:
        """The variables of an openrc file."""
        name = "openrc" if who == "admin" else f"openrc-{who}"
        text = (self.directory / name).read_text(encoding="utf-8")
        words = [word for word in shlex.split(text) if word != "export"]
        return dict(word.split("=", 1) for word in words)

    @property
    def url(self) -> str:
        """Keystone's address."""
        return self.openrc()["OS_AUTH_URL"]

    def session(self, who: str = "admin", project: str = "") -> Session:
        """A session of ``admin``, of the member ``demo``, or of the user ``service``."""
        given = PasswordCredential(who, self.openrc()["OS_PASSWORD"], project or who)
        return Session(self.url, given, region="RegionOne")

    def identity(self, **more: object) -> IdentitySection:
        """Settings of a Vetro whose users are this cloud's."""
        return IdentitySection(
            url=self.url,
            service_user="service",
            service_password=self.openrc()["OS_PASSWORD"],
            **more,  # pyright: ignore[reportArgumentType]
        )
