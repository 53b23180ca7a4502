"""A compute service that is killed, or stopped, while requests of others hang."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compute.conftest import NODE

from vetro.http.client import HttpClient, TransportError

HERE = Path(__file__).resolve().parent


class Running:
    """A service process and a way to call it."""

    def __init__(self, process: asyncio.subprocess.Process, http: HttpClient) -> None:
        self.process = process
        self.http = http

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """A request by the operator."""
        headers = {"X-Auth-Token": "operator"}
        return await self.http.request(method, f"/compute{path}", json=body, headers=headers)

    async def ok(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of a request that must succeed."""
        answer = await self.call(method, path, body)
        assert answer.status < 300, (answer.status, answer.text)
        return answer.json() if answer.text else None

    async def ticket(self, queue: str = "one") -> str:
        """A ticket that lasts."""
        body = {"scope": "vm", "id": queue, "expires_at": "3000", "action": "boot"}
        return (await self.ok("POST", f"/servers/{NODE}/tickets", body))["uuid"]

    async def end(self) -> None:
        """Let it stop by itself; it must."""
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        async with asyncio.timeout(240):
            await self.process.wait()


Start = Callable[[], Awaitable[Running]]


@pytest.fixture
async def start(database_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts services on one database; none is left running."""
    started: list[Running] = []

    async def begin() -> Running:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "service_process.py"), database_url, str(tmp_path),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        http = HttpClient(base_url=f"http://127.0.0.1:{port}", timeout_seconds=60)
        await http.__aenter__()
        one = Running(process, http)
        started.append(one)
        info = {"UUID": NODE, "Hostname": "n", "Setup": True, "Admin IP": "127.0.0.1"}
        await one.ok("POST", f"/servers/{NODE}/sysinfo", {"sysinfo": info})
        return one

    try:
        yield begin
    finally:
        for one in started:
            await one.http.__aexit__(None, None, None)
            with contextlib.suppress(ProcessLookupError):
                if one.process.returncode is None:
                    one.process.kill()
            await one.process.communicate()


@pytest.mark.sampled(only=["postgresql"])
async def test_a_killed_service_ends_its_waits_and_loses_no_ticket(start: Start) -> None:
    """Clients get an error at once; the next service has the same queue and grants in its order."""
    one = await start()
    tickets = [await one.ticket() for _ in range(3)]
    before = await one.ok("GET", f"/servers/{NODE}/tickets")
    waits = [asyncio.create_task(one.call("GET", f"/tickets/{name}/wait")) for name in tickets[1:]]
    assert (await one.call("GET", f"/tickets/{tickets[0]}/wait")).status == 204
    one.process.kill()
    async with asyncio.timeout(240):
        ends = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(end, TransportError) for end in ends), ends
    two = await start()
    assert await two.ok("GET", f"/servers/{NODE}/tickets") == before
    assert [ticket["status"] for ticket in before] == ["active", "queued", "queued"]
    waits = [asyncio.create_task(two.call("GET", f"/tickets/{name}/wait")) for name in tickets[1:]]
    await two.ok("PUT", f"/tickets/{tickets[0]}/release")
    async with asyncio.timeout(240):
        assert (await waits[0]).status == 204
        assert not waits[1].done()
        await two.ok("PUT", f"/tickets/{tickets[1]}/release")
        assert (await waits[1]).status == 204
    await two.end()


@pytest.mark.thorough
@pytest.mark.sampled(only=["sqlite"])
async def test_a_service_that_stops_ends_its_waits_with_an_answer(start: Start) -> None:
    """The service ends the waits with an error, and the clients ask the other service."""
    one = await start()
    two = await start()
    first, second = await one.ticket(), await one.ticket()
    wait = asyncio.create_task(one.call("GET", f"/tickets/{second}/wait"))
    assert (await one.call("GET", f"/tickets/{first}/wait")).status == 204
    await one.end()
    assert one.process.returncode == 0
    async with asyncio.timeout(240):
        end = (await asyncio.gather(wait, return_exceptions=True))[0]
    assert isinstance(end, TransportError) or end.status >= 500, end
    again = asyncio.create_task(two.call("GET", f"/tickets/{second}/wait"))
    await two.ok("PUT", f"/tickets/{first}/release")
    async with asyncio.timeout(240):
        assert (await again).status == 204
    await two.end()


@pytest.mark.thorough
@pytest.mark.sampled(only=["postgresql"])
async def test_two_services_grant_each_others_tickets_while_one_dies(start: Start) -> None:
    """The turn of a killed service's client continues after a release at the other service."""
    one = await start()
    two = await start()
    first, second = await one.ticket(), await two.ticket()
    wait = asyncio.create_task(two.call("GET", f"/tickets/{second}/wait"))
    assert (await two.call("GET", f"/tickets/{first}/wait")).status == 204
    one.process.kill()
    await one.process.wait()
    await two.ok("PUT", f"/tickets/{first}/release")
    async with asyncio.timeout(240):
        assert (await wait).status == 204
    assert (await two.ok("GET", f"/tickets/{second}"))["status"] == "active"
    await two.end()
