"""Guests of a real OpenStack: its servers exist only on paper, so a test boots what they were given.

Nova keeps the user data that Heat made. Its script runs here in a mount and process namespace of its own,
fetches the guest agent and starts it, as in a machine whose image has none.
"""

import asyncio
import base64
import email
import hashlib
import re
import subprocess
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import ROOT, Installation
from tests.waiting import eventually

from vetro.guest import archive_bytes
from vetro.openstack import Session

from .cloud import Cloud
from .conftest import listed, on_openstack
from .user import User

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]
#: A machine that boots: what the script writes is gone with it, and no init system of this machine is asked.
BOOT = """
set -e
mount --make-rprivate /
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
rm -rf /etc/murano
for place in /opt /usr/local/bin /var /run; do mount -t tmpfs tmpfs "$place"; done
[ ! -e /usr/bin/systemctl ] || mount --bind /dev/null /usr/bin/systemctl
mkdir -p /var/tmp /var/log /opt/seen
sh "$1/boot.sh"
echo booted
# It runs until its standard input ends.
cat
"""
SCRIPT = (
    "#!/bin/sh\ntest -d /opt/seen\necho told by the guest agent of $(basename /opt/vetro/*.pyz)\n"
)


@contextmanager
def booted(directory: Path, script: str) -> Generator[None]:
    """A machine that ran a script at its start."""
    (directory / "boot.sh").write_text(script)
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (directory / "console").open("wb") as console:
        machine = subprocess.Popen(
            [*command, "sh", "-c", BOOT, "sh", str(directory)],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "HOME": "/root"},
        )
        try:
            yield
        finally:
            machine.communicate()


async def user_data(cloud: Cloud, name: str, user: User, environment: str) -> dict[str, str]:
    """The parts of a server's user data, by their kind, once its deployment has made the server."""
    found: list[Any] = []
    async with cloud.session() as admin:

        async def known() -> bool:
            assert not user.newest(environment)["finished"], user.ended(environment)
            rows = await listed(admin, "compute", "/servers/detail", all_tenants="1", name=name)
            found[:] = rows["servers"]
            return bool(found)

        await eventually(known, "Nova has the server")
        newer = {"X-OpenStack-Nova-API-Version": "2.3"}
        path = f"/servers/{found[0]['id']}"
        answer = await admin.request("compute", "GET", path, headers=newer)
    assert answer is not None
    data = base64.b64decode(answer.json()["server"]["OS-EXT-SRV-ATTR:user_data"])
    parts = [part for part in email.message_from_bytes(data).walk() if not part.is_multipart()]
    texts = [bytes(part.get_payload(decode=True)).decode() for part in parts]  # pyright: ignore
    return {"script" if text.startswith("#!") else "config": text for text in texts}


def broker_of(cloud: Cloud) -> dict[str, str]:
    """The settings for guests at the RabbitMQ of the cloud's own services."""
    text = (cloud.directory / "etc/nova.conf").read_text()
    found = re.search(r"rabbit://(\w+):(\w+)@([\d.]+):(\d+)/", text)
    assert found is not None
    names = ("LOGIN", "PASSWORD", "HOST", "PORT")
    return {f"VETRO_RABBITMQ_{name}": one for name, one in zip(names, found.groups(), strict=True)}


@pytest.fixture(params=["mailboxes", "broker"])
def told(request: pytest.FixtureRequest, cloud: Cloud, tmp_path: Path) -> Iterator[Installation]:
    """A Vetro whose guests fetch their agent from it, and are told what to do over HTTP or RabbitMQ."""
    directory = tmp_path / "vetro"
    directory.mkdir()
    installation = Installation(directory, driver="simulated", **on_openstack(cloud))
    digest = hashlib.sha256(archive_bytes()).hexdigest()
    installation.environ |= {
        "VETRO_MAILBOX_URL": installation.url,
        "VETRO_ENGINE_AGENT_SOURCE": f"{installation.url}/agents/v1/agent.pyz#sha256={digest}",
        **(broker_of(cloud) if request.param == "broker" else {}),
    }
    installation.start()
    try:
        yield installation
    finally:
        installation.end()


async def test_a_server_of_nova_installs_the_agent_and_runs_a_plan(
    told: Installation, cloud: Cloud, tmp_path: Path
) -> None:
    """The script of its user data is all that a stock image needs; the deployment reports what it printed."""
    vetro = told
    name = f"guest-{uuid.uuid4().hex[:8]}"
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    async with cloud.session("demo") as session:
        user = User(vetro, (await session.login()).token)
        id_ = user.environment(
            name,
            {
                "?": {"type": "org.vetro.samples.HelloScript/1.0.0", "id": "a" * 32},
                "name": "hello",
                "script": SCRIPT,
                "instance": {
                    "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "b" * 32},
                    "name": name,
                    "image": "linux",
                    "flavor": "m1.small",
                },
            },
        )
        parts = await user_data(cloud, name, user, id_)
        assert parts["config"].startswith("#cloud-config")
        with booted(tmp_path, parts["script"]):
            reports = await asyncio.to_thread(user.ended, id_)
        console = (tmp_path / "console").read_text()
        assert reports.startswith("success"), f"{reports}\n{console}\n{vetro.log()}"
        assert "told by the guest agent of vetro-guest.pyz" in reports
        await asyncio.to_thread(user.destroy, id_)
        assert await servers(session, name) == []


async def servers(session: Session, name: str) -> list[Any]:
    """The servers of the session's project that have a name."""
    return list((await listed(session, "compute", "/servers", name=name))["servers"])
