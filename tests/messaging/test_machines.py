"""A mailbox and the machine that it belongs to (guest-agent.md §2a)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from vetro.http import Headers, assemble, header, serve
from vetro.http.client import HttpClient
from vetro.messaging import Mailboxes
from vetro.messaging.machines import Homes, Origin
from vetro.storage import Database

A, B = Origin("10.0.0.1"), Origin("10.0.0.2")


@dataclass
class Cloud:
    """What a compute service knows: machines by their addresses, and the mailboxes in their user data."""

    at: dict[str, list[str]] = field(
        default_factory=lambda: {"10.0.0.1": ["a"], "10.0.0.2": ["b"], "10.0.0.9": ["a", "b"]}
    )
    told: dict[str, list[str]] = field(default_factory=lambda: {"a": ["q"], "b": []})

    def relayed(self, headers: Headers) -> tuple[str, str] | None:
        """A relay that anybody believes."""
        address = header(headers, b"relayed")
        return (address, "node") if address else None

    async def having(self, address: str, node: str) -> list[str]:
        """The machines at an address."""
        return [one for one in self.at.get(address, []) if one in self.told]

    async def is_told(self, machine: str, queue: str) -> bool | None:
        """Whether a machine's user data name a mailbox."""
        return queue in self.told[machine] if machine in self.told else None


@pytest.fixture
def cloud() -> Cloud:
    """Machine a was made with the mailbox q, machine b with none."""
    return Cloud()


@pytest.fixture
async def homes(mailboxes: Mailboxes, cloud: Cloud) -> Homes:
    """The homes of a declared mailbox q."""
    await mailboxes.declare("q")
    return Homes(mailboxes.db, cloud)


async def test_a_copy_is_refused_while_its_original_is_there(homes: Homes) -> None:
    """The machine that was made with the mailbox reads it, and one that copied its credential does not."""
    assert await homes.admits("q", A)
    assert not await homes.admits("q", B)
    assert await homes.admits("q", A)


async def test_a_copy_that_came_first_gives_way(homes: Homes) -> None:
    """A mailbox of an older version has no machine yet: the copy's coming first does not help it."""
    assert await homes.admits("q", B)
    assert await homes.admits("q", A)
    assert not await homes.admits("q", B)


async def test_of_two_that_were_made_with_it_the_first_reads_it(homes: Homes, cloud: Cloud) -> None:
    """Copied user data are no right to the mailbox, until the first machine is gone."""
    cloud.told["b"] = ["q"]
    assert await homes.admits("q", A)
    assert not await homes.admits("q", B)
    del cloud.told["a"]
    assert await homes.admits("q", B)


async def test_an_agent_that_somebody_configured_keeps_its_mailbox(
    homes: Homes, cloud: Cloud
) -> None:
    """No user data name the mailbox: the machine that came first has it until it is gone."""
    cloud.told["a"] = []
    assert await homes.admits("q", B)
    assert not await homes.admits("q", A)
    del cloud.told["b"]
    assert await homes.admits("q", A)


async def test_what_is_not_known_to_be_another_machine_is_admitted(homes: Homes) -> None:
    """The address of a host, or of machines of several nodes, of which one is at home."""
    assert await homes.admits("q", A)
    assert await homes.admits("q", Origin("192.0.2.7"))
    assert await homes.admits("q", Origin("10.0.0.9"))
    assert not await homes.admits("q", B)


async def test_two_that_come_together_leave_one(homes: Homes) -> None:
    """Requests of copies at one time: the mailbox has one machine afterwards."""
    came = [homes.admits("q", one) for one in (A, B) * 4]
    await asyncio.gather(*came)
    assert await homes.admits("q", A)
    assert not await homes.admits("q", B)


@dataclass
class Served:
    """A served face."""

    url: str
    client: HttpClient

    async def call(self, method: str, path: str, token: str, address: str) -> tuple[int, str]:
        """Status and text of a request that a relay forwards for a guest."""
        headers = {"Authorization": f"Bearer {token}"} | ({"relayed": address} if address else {})
        given = await self.client.request(method, f"{self.url}/agents/v1{path}", headers=headers)
        return given.status, given.text


@pytest.fixture
async def served(database: Database, cloud: Cloud) -> AsyncIterator[Served]:
    """The guests' face with machines, on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop, ready = asyncio.Event(), asyncio.Event()
        faces = [Mailboxes(database).face(machines=cloud)]
        serving = asyncio.create_task(
            serve(assemble(faces), [listener], stop, drain_seconds=5, on_ready=ready.set)
        )
        await ready.wait()
        async with HttpClient() as client:
            yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", client)
        stop.set()
        await serving


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/plans?wait=0"), ("GET", "/plans?wait=60"), ("POST", "/plans/m/ack"),
     ("POST", "/results"), ("POST", "/alive")],
)  # fmt: skip
async def test_every_call_of_a_copy_is_refused(
    served: Served, mailboxes: Mailboxes, method: str, path: str
) -> None:
    """403 that names the mailbox and the address, at once also for a poll that would wait."""
    token = await mailboxes.issue_credential("q")
    assert (await served.call("POST", "/alive", token, "10.0.0.1"))[0] == 204
    status, said = await served.call(method, path, token, "10.0.0.2")
    assert status == 403
    assert "The mailbox q belongs to another machine than the one at 10.0.0.2" in said


async def test_a_copy_gets_no_plan_and_its_original_does(
    served: Served, mailboxes: Mailboxes
) -> None:
    """The plan is still there for the machine that it was sent to."""
    token = await mailboxes.issue_credential("q")
    assert (await served.call("GET", "/plans?wait=0", token, "10.0.0.1"))[0] == 204
    await mailboxes.send("q", "m", b"{}")
    assert (await served.call("GET", "/plans?wait=0", token, "10.0.0.2"))[0] == 403
    assert await served.call("GET", "/plans?wait=0", token, "10.0.0.1") == (200, "{}")


async def test_without_a_relay_the_address_of_the_connection_counts(
    served: Served, mailboxes: Mailboxes, cloud: Cloud
) -> None:
    """A guest at the service's own door says nothing of itself that is believed."""
    token = await mailboxes.issue_credential("q")
    assert (await served.call("POST", "/alive", token, "10.0.0.1"))[0] == 204
    assert (await served.call("POST", "/alive", token, ""))[0] == 204  # no machine has loopback
    cloud.at["127.0.0.1"] = ["b"]
    await mailboxes.declare("r")
    other = await mailboxes.issue_credential("r")
    cloud.told["a"] = ["q", "r"]
    assert (await served.call("POST", "/alive", other, "10.0.0.1"))[0] == 204
    assert (await served.call("POST", "/alive", other, ""))[0] == 403
