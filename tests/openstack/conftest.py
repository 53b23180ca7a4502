"""The real OpenStack that ``make openstack`` starts, and stubs for what it cannot be made to do."""

import os
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from vetro.identity import IdentitySection
from vetro.openstack import PasswordCredential, Session

from .stub import Stub, serving


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

    def session(self, who: str = "admin", **options: str) -> Session:
        """A session of ``admin``, of the member ``demo``, or of the user ``service``."""
        given = self.openrc()["OS_PASSWORD"]
        return Session(
            self.url, PasswordCredential(who, given, options.pop("project", who)), **options
        )

    def identity(self, **more: object) -> IdentitySection:
        """Settings of a Vetro whose users are this cloud's."""
        return IdentitySection(
            url=self.url,
            service_user="service",
            service_password=self.openrc()["OS_PASSWORD"],
            **more,  # pyright: ignore[reportArgumentType]
        )


@pytest.fixture(scope="session")
def cloud() -> Cloud:
    """The cloud of ``VETRO_TEST_OPENSTACK``."""
    given = os.environ.get("VETRO_TEST_OPENSTACK")
    if not given:
        pytest.skip("VETRO_TEST_OPENSTACK is not set; tools/with-openstack.sh sets it")
    return Cloud(Path(given))


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """A server that answers as the test says."""
    async with serving() as one:
        yield one
