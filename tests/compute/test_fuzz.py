"""Every parameter of every call, fuzzed from the OpenAPI document against simulated nodes.

No answer but documented ones: whatever is sent ends in an error body of the document's form, never in a
500 that is an accident (its message would name the log), never in a dropped connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import string
import time
from typing import Any
from urllib.parse import quote, urlencode

import hypothesis
import pytest
import schemathesis
from schemathesis.core.result import Ok
from tests.compute.conftest import NODE, VM, World
from tests.effort import EFFORT, ONE_IN, examples

SECONDS = examples(5)
EXAMPLES = examples(2 * ONE_IN)
ROUNDS = 6
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 1e308, 0.5, "", " ", "x", " x ", "true",
    "FALSE", "0", "-1", "1e9", "9" * 40, "\0", "a\0b", "é\U0001f600", "%2F", "../..", "'; --",
    "*", "x" * 300, "x" * 70_000, [], [None], [[]], [{}], ["a", 1], {}, {"a": None}, {"": ""},
    {"uuid": 5}, {"\0": "\0"}, {"a": {"b": {"c": []}}}, NODE, VM, "default", "3000",
    "2030-01-01T00:00:00Z", "99999-01-01", "20260101T000000Z",
]  # fmt: skip
#: Calls that end on purpose when something else happens.
PATIENT = {"timeout": "0.01"}


def of_schema(chance: random.Random, schema: dict[str, Any]) -> Any:
    """A value as the schema wants it, mostly."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    if "enum" in schema and chance.random() < 0.8:
        return chance.choice(schema["enum"])
    if kind == "object":
        names = chance.sample(string.ascii_letters, chance.randint(0, 3))
        return {name: chance.choice(ODD) for name in names}
    if kind == "array":
        return [chance.choice(ODD) for _ in range(chance.randint(0, 3))]
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in ("number", "integer"):
        return chance.choice((0, 1, 5, 1000))
    if kind == "string":
        return chance.choice(("x", NODE, VM, "true", "vm", "3000", "a,b", "1"))
    return chance.choice(ODD)


def text(value: Any) -> str:
    """A value as a query has it."""
    return value if isinstance(value, str) else str(value)


class Fuzzer:
    """Requests made from one operation of the document."""

    def __init__(self, world: World, document: dict[str, Any], chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.operations = [
            (path, verb, operation)
            for path, verbs in sorted(document["paths"].items())
            for verb, operation in sorted(verbs.items())
        ]

    def value(self, schema: dict[str, Any]) -> Any:
        """Sometimes what is wanted, sometimes not."""
        if self.chance.random() < 0.5:
            return of_schema(self.chance, schema)
        return self.chance.choice(ODD)

    def path_value(self, name: str) -> str:
        """A path parameter: often one that is there."""
        good = {"server_uuid": NODE, "uuid": VM, "dataset": "zones%2Fa"}.get(name, VM)
        if self.chance.random() < 0.7:
            return good
        odd = text(self.chance.choice(ODD))[:500]
        return quote(odd, safe="") or "x"

    def request(self, path: str, verb: str, operation: dict[str, Any]) -> tuple[str, str, Any]:
        """One request: verb, path with query, body."""
        chance = self.chance
        queries: list[tuple[str, str]] = []
        for parameter in operation.get("parameters") or []:
            if parameter["in"] == "path":
                filled = self.path_value(parameter["name"])
                path = path.replace(f"{{{parameter['name']}}}", filled)
            elif parameter["in"] == "query" and chance.random() < 0.6:
                value = self.value(parameter.get("schema") or {})
                queries.append((parameter["name"], text(value)[:2000]))
        # Waits are not the subject: they would only cost time.
        if path.endswith(("/wait", "/next-task")):
            queries = [*(one for one in queries if one[0] != "timeout"), *PATIENT.items()]
        if chance.random() < 0.1:
            queries.append((chance.choice(("nonsense", "uuid", "force")), "1"))
        body: Any = None
        content = (operation.get("requestBody") or {}).get("content", {})
        schema = (content.get("application/json") or {}).get("schema")
        if schema is not None:
            properties = schema.get("properties") or {}
            wanted = set(schema.get("required") or ())
            body = {
                name: self.value(given)
                for name, given in properties.items()
                if chance.random() < (0.9 if name in wanted else 0.4)
            }
            if chance.random() < 0.1:
                body = chance.choice(ODD)
            elif chance.random() < 0.1:
                body["nonsense"] = 1
        elif chance.random() < 0.2:
            body = chance.choice(ODD)
        if path.endswith("/nop") and isinstance(body, dict):
            body.pop("sleep", None)
        suffix = f"?{urlencode(queries, errors='replace')}" if queries else ""
        return verb.upper(), path + suffix, body

    async def send(self, verb: str, path: str, body: Any) -> None:
        """Send and judge."""
        try:
            async with asyncio.timeout(240):
                answer = await self.world.http.request(
                    verb, f"/compute{path}", json=body, headers={"X-Auth-Token": "operator"}
                )
        except TimeoutError:
            if path.partition("?")[0].endswith(("/wait", "/next-task")):
                return
            raise
        said = f"{verb} {path[:200]} {str(body)[:300]} -> {answer.status} {answer.text[:300]}"
        assert answer.status < 600, said
        if answer.status >= 400 and answer.content:
            given = answer.json()
            if isinstance(given, str):  # FactoryReset's own
                assert answer.status == 409, said
                return
            assert isinstance(given.get("code"), str), said
            assert isinstance(given.get("message"), str), said
            assert "unexpected error" not in given["message"], said
            if answer.status == 500:
                assert given["code"] in ("InvalidParameters", "InternalError", "InvalidArgument"), (
                    said
                )
            assert answer.status != 503 or given["code"] == "ServiceUnavailable", said
            assert "does not answer at the moment" not in given["message"], said


def generated(document: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Valid and invalid requests of every operation, as schemathesis makes them; always the same."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.base_url = "http://compute/compute"
    found: list[tuple[str, str, Any]] = []

    def collect(operation: Any, mode: Any) -> None:
        @hypothesis.settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            # Half of the calls are about what is there: what is random never gets far.
            given = dict(case.path_parameters or {})
            if len(found) % 2:
                known = {"server_uuid": NODE, "uuid": VM}
                given = {name: known.get(name, value) for name, value in given.items()}
            path = operation.path
            for name, value in given.items():
                path = path.replace(f"{{{name}}}", quote(text(value), safe="", errors="replace"))
            queries = {name: text(value) for name, value in (case.query or {}).items()}
            if path.endswith(("/wait", "/next-task")):
                queries |= PATIENT
            suffix = f"?{urlencode(queries, errors='replace')}" if queries else ""
            body = case.body if isinstance(case.body, dict | list | str | int | float) else None
            if path.endswith("/nop"):
                body = {}
            found.append((operation.method.upper(), path + suffix, body))

        with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # nothing can be wrong about it
            one()

    modes = list(schemathesis.GenerationMode)
    for number, result in enumerate(schema.get_all_operations()):
        assert isinstance(result, Ok)
        if number % ONE_IN:
            continue
        # Making a strategy is what takes time: an operation is tried in one mode, unless asked for more.
        for mode in modes if EFFORT > 1 else [modes[number % len(modes)]]:
            collect(result.ok(), mode)
    return found


@pytest.mark.timeout(1800)
async def test_no_generated_request_breaks_the_service(world: World) -> None:
    """What schemathesis makes of the document: answered, refusals explained."""
    document = (await world.http.request("GET", "/compute/schema/openapi.json")).json()
    await world.vm(uuid=VM)
    # Generating is not asynchronous: it must not hold the service's own loop.
    requests = await asyncio.to_thread(generated, document)
    assert len(requests) > 120 // ONE_IN
    fuzzer = Fuzzer(world, document, random.Random(1))
    for number, request in enumerate(requests):
        await fuzzer.send(*request)
        if number % 40 == 0:
            await world.server()  # what was deleted comes back
    assert (await world.ok("GET", "/ping"))["ready"] is True


@pytest.mark.timeout(1800)
async def test_no_request_breaks_the_service(any_world: World) -> None:
    """A seeded number of requests to every call; afterwards the service still works."""
    world = any_world
    chance = random.Random(20260101)
    document = (await world.http.request("GET", "/compute/schema/openapi.json")).json()
    fuzzer = Fuzzer(world, document, chance)
    assert len(fuzzer.operations) > 90
    deadline = time.process_time() + SECONDS
    await world.vm(uuid=VM)
    for number in range(ROUNDS):
        for path, verb, operation in fuzzer.operations:
            if number and time.process_time() > deadline:
                break
            request = fuzzer.request(path, verb, operation)
            await fuzzer.send(*request)
            if chance.random() < 0.1:
                await world.server()  # what was deleted comes back
    await world.server()
    assert (await world.ok("GET", f"/servers/{NODE}"))["status"] == "running"
    assert (await world.ok("GET", "/ping"))["ready"] is True
