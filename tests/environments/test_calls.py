"""Static actions and schemas over HTTP; the engine's side is played by the test."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy import delete, func, select
from tests.environments.conftest import next_call
from tests.interrupting import interruptions

from vetro.environments import CallAnswer, EngineCall
from vetro.environments.static_calls import FAULTS, QUEUE, CallStore
from vetro.environments.tables import calls
from vetro.http import GatewayTimeout, Principal
from vetro.storage import Lease, LeaseLost, Worker
from vetro.storage.tables import leased_work

Api = Any  # the fixture of conftest.py
ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member"}))
HELLO = {"className": "ns.Bar", "methodName": "hello", "parameters": {"name": "John"}}


async def claim(store: CallStore) -> tuple[Lease, EngineCall]:
    """Be an engine: wait for a call and take it."""
    while True:
        claimed = await next_call(store)
        if claimed is not None:
            return claimed
        await store.queue.wait_for_work(60)


async def rows(api: Api) -> int:
    """How many answers are kept."""
    async with api.database.read() as tx:
        return (await tx.execute(select(func.count()).select_from(calls))).scalar_one()


async def answered(api: Api, request: Any, answer: CallAnswer) -> tuple[EngineCall, Any]:
    """Send a request and answer its call; what the engine was asked, and the response."""
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(request)
        lease, call = await claim(api.rooms.calls)
        await api.rooms.calls.answer(lease, answer)
    return call, sent.result()


async def test_a_static_action_answers_with_its_result(api: Api) -> None:
    """The engine gets class, method, arguments and caller; no row of the call is kept."""
    request = api.call("POST", "/actions", HELLO)
    call, response = await answered(api, request, CallAnswer("Hello, John"))
    assert (response.status, response.json()) == (200, "Hello, John")
    assert response.headers["content-type"].startswith("application/json")
    assert (call.kind, call.class_name, call.methods) == ("action", "ns.Bar", ["hello"])
    assert (call.arguments, call.package_name) == ({"name": "John"}, None)
    assert (call.class_version, call.project_id, call.user_id) == ("=0", "p", "id-ann")
    assert call.request_id == response.headers["x-openstack-request-id"]
    assert await rows(api) == 0
    assert await next_call(api.rooms.calls) is None


async def test_bad_names_of_classes_have_no_schemas(api: Api) -> None:
    """The answer is 400, and no engine is asked."""
    for path in ("/schemas/a%20b", "/schemas/A/b%20c", "/schemas/A?classVersion=x"):
        assert (await api.call("GET", path)).status == 400, path
    assert await next_call(api.rooms.calls) is None


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1]}])
async def test_every_json_value_is_a_result(api: Api, value: Any) -> None:
    """Null is the text null, not an empty body."""
    body = {**HELLO, "parameters": None, "packageName": "p", "classVersion": ">=1,<2"}
    call, response = await answered(api, api.call("POST", "/actions", body), CallAnswer(value))
    assert (response.status, response.json()) == (200, value)
    assert (call.arguments, call.package_name, call.class_version) == ({}, "p", ">=1,<2")


@pytest.mark.parametrize(("failure", "fault"), FAULTS.items())
async def test_failures_have_the_status_of_their_sort(
    api: Api, failure: Any, fault: type[Exception]
) -> None:
    """404 for unknown names, 400 for bad values, 503 for the program's failure, 504."""
    answer = CallAnswer(failure=failure, message="why", type="Kind", details="trace")
    _, response = await answered(api, api.call("POST", "/actions", HELLO), answer)
    assert response.status == fault.status
    error = response.json()["error"]
    assert (error["message"], error["type"], error["details"]) == ("why", "Kind", "trace")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "className"),
        ([], "className"),
        ({"methodName": "m"}, "className is required"),
        ({"className": "", "methodName": "m"}, "className is required"),
        ({"className": "C"}, "methodName is required"),
        ({"className": 5, "methodName": "m"}, "className must be text"),
        ({**HELLO, "parameters": [1]}, "parameters must be an object"),
        ({**HELLO, "packageName": 5}, "packageName must be text"),
        ({**HELLO, "classVersion": 1}, "classVersion must be text"),
        ({**HELLO, "classVersion": "seven"}, "'seven' is not a version spec"),
        ({**HELLO, "className": "a b"}, "className must be a name"),
        ({**HELLO, "methodName": "m\0"}, "NUL character in methodName"),
        ({**HELLO, "packageName": "x" * 300}, "packageName must be a name"),
    ],
)
async def test_bad_requests_never_reach_an_engine(api: Api, body: Any, said: str) -> None:
    """The answer is 400 with the name of the wrong member."""
    response = await api.call("POST", "/actions", body)
    assert response.status == 400
    assert said in response.json()["error"]["message"]
    assert await next_call(api.rooms.calls) is None


async def test_schemas_name_the_class_and_the_methods(api: Api) -> None:
    """Methods are a list with commas; version and package come with the query."""
    request = api.call("GET", "/schemas/ns.Bar")
    call, response = await answered(api, request, CallAnswer({"": {"type": "object"}}))
    assert (response.status, response.json()) == (200, {"": {"type": "object"}})
    assert (call.kind, call.class_name, call.methods) == ("schema", "ns.Bar", None)
    path = "/schemas/ns.Bar/one,%20two?classVersion=1&packageName=acme"
    call, _ = await answered(api, api.call("GET", path), CallAnswer({}))
    assert (call.methods, call.class_version, call.package_name) == (["one", "two"], "1", "acme")


async def test_a_call_nobody_answers_times_out(api: Api) -> None:
    """The error names the setting; the engine that comes later finds nothing to do."""
    impatient = CallStore(api.database, timeout_seconds=0.01)
    with pytest.raises(GatewayTimeout, match=r"ns.Bar.hello .*engine.static_call_timeout"):
        await impatient.act(ANN, "ns.Bar", "hello", {}, package_name=None, class_version="=0")
    assert await rows(api) == 0
    assert await next_call(api.rooms.calls) is None


async def test_an_answer_that_comes_too_late_is_not_kept(api: Api) -> None:
    """The engine's work ends normally; a second answer loses its lease."""
    impatient = CallStore(api.database, timeout_seconds=0.01)
    claimed: list[tuple[Lease, EngineCall]] = []

    async def engine() -> None:
        claimed.append(await claim(api.rooms.calls))

    taking = asyncio.create_task(engine())
    with pytest.raises(GatewayTimeout):
        await impatient.act(ANN, "ns.Bar", "hello", {}, package_name=None, class_version="=0")
    if not claimed:  # the caller was gone before the engine looked: both are right
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        return
    lease, _ = claimed[0]
    await api.rooms.calls.answer(lease, CallAnswer(5))
    assert await rows(api) == 0
    with pytest.raises(LeaseLost):
        await api.rooms.calls.answer(lease, CallAnswer(6))


async def test_a_caller_that_leaves_takes_its_call_along(api: Api) -> None:
    """A cancelled request leaves no row, and no engine runs its call."""
    store = api.rooms.calls
    async with api.database.listen(store.queue.channel) as submitted:
        asking = asyncio.create_task(
            store.schemas(ANN, "ns.Bar", None, package_name=None, class_version="=0")
        )
        assert await submitted.wait(60) is not None
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert await rows(api) == 0
    assert await next_call(store) is None


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("leaves", [False, True], ids=["waits", "left"])
async def test_an_engine_that_is_cancelled_while_it_takes_a_call_gives_it_back(
    api: Api, leaves: bool, again: bool
) -> None:
    """The next engine has it at once, and as a call that nobody has begun; a worker of a queue too."""
    store: CallStore = api.rooms.calls
    call = EngineCall("c", "action", "p", "id-ann", "ns.Bar", ["hello"], None, "=0", 60.0)
    ran: list[EngineCall] = []

    async def run(lease: Lease) -> None:
        found = await store.call_of(lease)
        if found is not None:
            ran.append(found)
            await store.answer(lease, CallAnswer(1))

    worker = Worker(store.queue, 1, run, owner="engine", ttl_seconds=3600)
    takers: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: next_call(store),
        worker.once,
    ]
    for take in takers:
        ends: list[bool] = []
        await store._submit(call)
        if leaves:
            await store._withdraw("c")
        async for ended in interruptions(take, again=again):
            ends.append(ended.cancelled())
            if ended.cancelled() and not ran:
                lease = await store.queue.claim("next", 60)
                if not leaves:
                    assert lease is not None, f"cancelled at wait {len(ends)}"
                    assert lease.attempt == 1, "a call that was not begun counted as begun"
                if lease is not None:
                    await store.queue.unclaim(lease)
            async with api.database.transaction() as tx:
                await tx.execute(delete(leased_work).where(leased_work.c.queue == QUEUE))
            ran.clear()
            await store._withdraw("c")
            await store._submit(call)
            if leaves:
                await store._withdraw("c")
        assert not ends[-1]
        async with api.database.transaction() as tx:
            await tx.execute(delete(leased_work).where(leased_work.c.queue == QUEUE))
        await store._withdraw("c")


async def test_rows_of_dead_callers_go_with_the_next_call(api: Api) -> None:
    """The row of a process that died while it waited is removed after its time."""
    from datetime import timedelta

    from sqlalchemy import insert

    past = api.database.clock.now() - timedelta(seconds=1)
    async with api.database.transaction() as tx:
        await tx.execute(insert(calls).values(id="left", expires=past))
    await answered(api, api.call("POST", "/actions", HELLO), CallAnswer(1))
    assert await rows(api) == 0
