"""The compute service itself over HTTP: ping, info, metadata, the document of its calls."""

from __future__ import annotations

from tests.compute.conftest import NODE, MakeWorld, World


async def test_ping_info_diagnostics_and_log_level(world: World) -> None:
    """What operators ask a process."""
    ping = await world.ok("GET", "/ping", token="")
    assert ping["ready"] is True
    assert ping["services"] == {"workflow": "online", "moray": "online", "amqp": "online"}
    assert (await world.ok("GET", "/info", token=""))["version"]
    shown = await world.ok("GET", "/diagnostics")
    assert {"start_timestamp", "memory", "taskCallbacks", "pendingActivationsByServer"} <= set(
        shown
    )
    import logging

    before = logging.getLogger().level
    try:
        assert (await world.call("POST", "/loglevel?level=debug")).status == 200
        assert await world.ok("GET", "/loglevel") == {"level": "debug"}
        assert (await world.refused("POST", "/loglevel?level=loud"))[0] == 500
    finally:
        logging.getLogger().setLevel(before)


async def test_service_metadata(any_world: World) -> None:
    """Given keys merge, null deletes, unknown ones are kept, a bad value changes nothing."""
    world = any_world
    (one,) = await world.ok("GET", "/services?name=cnapi")
    assert await world.ok("GET", "/services?name=vmapi") == []
    path = f"/services/{one['uuid']}"
    given = {"ALLOC_FILTER_HEADNODE": "false", "MINE": {"a": 1}}
    assert (await world.ok("PUT", path, {"metadata": given}))["metadata"] == given
    bad = {"metadata": {"ALLOC_WEIGHT_UNRESERVED_RAM": "much", "MINE": None}}
    refused = await world.refused("PUT", path, bad)
    assert refused == (409, "InvalidArgument", "ALLOC_WEIGHT_UNRESERVED_RAM is not a number")
    for name, value, said in (
        ("ALLOC_SERVER_SPREAD", "sideways", "ALLOC_SERVER_SPREAD is not one of min-ram"),
        ("ALLOC_FILTER_DOCKER_MIN_PLATFORM", "today", "is not an ISO UTC timestamp"),
        ("ALLOC_OVERRIDE_OVERPROVISION_RAM", -1, "is not a number of 0 or more"),
        ("ALLOC_FILTER_OWNER_SERVER_EXPERIMENTAL", {NODE: "server."}, "ends too early"),
        ("SMT_ENABLED_DEFAULT", "perhaps", "SMT_ENABLED_DEFAULT is not boolean"),
    ):
        answer = await world.refused("PUT", path, {"metadata": {name: value}})
        assert answer[:2] == refused[:2]
        assert said in answer[2]
    after = await world.ok("PUT", path, {"metadata": {"MINE": None}})
    assert after["metadata"] == {"ALLOC_FILTER_HEADNODE": "false"}
    assert (await world.refused("PUT", f"/services/{NODE}", {"metadata": {}}))[0] == 404


async def test_the_openapi_document_names_every_call(world: World) -> None:
    """Operations, parameters and bodies are those that are checked."""
    answer = await world.http.request("GET", "/compute/schema/openapi.json")
    document = answer.json()
    listed = document["paths"]["/servers"]["get"]
    assert listed["operationId"] == "ServerList"
    names = {one["name"] for one in listed["parameters"]}
    assert {"extras", "limit", "setup"} <= names
    create = document["paths"]["/servers/{server_uuid}/tickets"]["post"]
    schema = create["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["scope", "id", "expires_at"]
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)


async def test_validation_status_may_be_another(make_world: MakeWorld) -> None:
    """An installation may answer 422 instead of the document's 500; the body is the same."""
    world = await make_world(validation_status=422)
    status, code, message = await world.refused("GET", "/servers?limit=x")
    assert (status, code) == (422, "InvalidParameters")
    assert message == "Request parameters failed validation"
