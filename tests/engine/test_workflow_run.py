"""Tasks of flat services on the engine: shipped definitions, stacks in memory, mailboxes in a database."""

from __future__ import annotations

import base64
import json
import re
import uuid
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vetro import environments
from vetro.compute.client.calls import NETWORKS, ROUTERS
from vetro.compute.wire import NewRouter
from vetro.engine.settings import EngineSection, NetworkSection
from vetro.engine.system.memory import MemoryTransport
from vetro.engine.worker import workflow_port, workflow_run
from vetro.messaging import (
    BrokerSettings,
    BrokerUnreachable,
    Guest,
    MailboxSection,
    RabbitmqSection,
)
from vetro.messaging.mailboxes import MailboxSettings
from vetro.stacks import ResourceFailure
from vetro.storage import Database

from .conftest import GOOD, NETWORK, Place, telnet


async def test_a_service_is_deployed_and_deleted(place: Place) -> None:
    """Router, range, stack and plan follow each other; what was done stands in the model; a second
    task sends no plan; a deletion leaves nothing.
    """
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert (result.is_exception, result.result) == (False, None), result.result
    unit = result.model["Objects"]["services"][0]["units"][0]
    assert unit["state"] == {"hostname": "linu1", "TelnetInstalled": True}
    assert "token" not in result.model["Objects"]
    (plan,) = place.plans
    assert {one["Name"] for one in plan["Files"].values()} == {
        "Linux/runTelnetDeploy.sh", "Linux/installer.sh", "Linux/common.sh",
    }  # fmt: skip
    stack = await place.stacks.get("p", "ee1")
    assert stack is not None
    assert {"linu1", "network", "port-linu1"} <= set(stack.resources)
    (server,) = place.stacks.compute.server_list.values()
    assert server is not None
    again = await place.run(result.model["Objects"], result.model["ObjectsCopy"])
    assert not again.is_exception
    assert len(place.plans) == 1
    async with place.database.read() as tx:
        trace = await environments.Environments(place.database).tasks.history.trace(tx, "t")
    assert [one["round"] for one in trace] == [1, 2, 3, 4, 5]
    assert any(one["subject"] == "deploy" and one["kind"] == "rule" for one in trace[3]["events"])
    assert any(one["kind"] == "command" for one in trace[3]["events"])
    same = await place.stacks.get("p", "ee1")
    assert same is not None
    assert same.updated == stack.updated  # the template is the same: it was not pushed again
    assert [one[2] for one in place.reports.said].count(
        "The instance of unit linu1 is created"
    ) == 2
    # Clients tell by it whether a line is about the environment, a service or a unit.
    assert {("unit", "u1"), ("service", "s1")} <= set(place.reports.entities)
    gone = await place.run(None, again.model["Objects"])
    assert (gone.is_exception, gone.model["ObjectsCopy"]) == (False, None)
    assert await place.stacks.get("p", "ee1") is None
    assert await place.mailboxes.queues_of("") == []  # and no credential of the guest


async def test_a_unit_that_is_removed_loses_its_credential(place: Place) -> None:
    """Its mailbox goes when its machine has gone; those of other units and environments stay."""
    two = telnet()
    two["services"][0]["units"].append({"id": "u2", "name": "n2"})
    first = await place.run(two, guests=("ee1-s1-u1", "ee1-s1-u2"))
    await place.mailboxes.declare("ee10-s1-u2")
    model = first.model["Objects"]
    before = deepcopy(model)
    del model["services"][0]["units"][1]
    place.stacks.compute.fail["delete_server"] = ResourceFailure("busy")
    await place.run(model, before)
    assert len(await place.mailboxes.queues_of("ee1-")) == 2
    place.stacks.compute.fail.clear()
    await place.run(model, before)
    assert await place.mailboxes.queues_of("") == ["ee1-s1-u1", "ee10-s1-u2"]


async def test_a_machine_that_a_request_did_not_let_go_stays_with_its_mailbox(place: Place) -> None:
    """The task fails and changes nothing; with the names it is done."""
    two = telnet()
    two["services"][0]["units"].append({"id": "u2", "name": "n2"})
    first = await place.run(two, guests=("ee1-s1-u1", "ee1-s1-u2"))
    before, machines = first.model["Objects"], [*place.stacks.compute.server_list]
    model = deepcopy(before)
    del model["services"][0]["units"][1]
    place.services.may_lose = []
    refused = await place.run(deepcopy(model), deepcopy(before))
    assert (refused.is_exception, refused.untouched) == (True, True)
    keys = [one["key"] for one in refused.result["losses"]]
    assert keys == ["machine ee1-linu2"]
    assert [*place.stacks.compute.server_list] == machines
    assert len(await place.mailboxes.queues_of("ee1-")) == 2
    place.services.may_lose, place.services.refused = keys, None
    done = await place.run(model, before)
    assert not done.is_exception, done.result
    assert len(place.stacks.compute.server_list) == 1
    assert await place.mailboxes.queues_of("") == ["ee1-s1-u1"]


@pytest.mark.parametrize(
    ("management", "login"),
    [
        ("", "guests in the open []"),
        ("http://mq:15672", "ee1-s1-u1 token-1 [result_exchange=ee1-s1-u1\n]"),
    ],
)
async def test_guests_of_an_installation_with_a_broker_are_reached_over_it(
    place: Place, tmp_path: Path, management: str, login: str
) -> None:
    """Plans go to the broker's queues, agents are told its address and login (or the user that each has of
    its own) instead of a mailbox, and a deletion removes the queues. Agent configurations of the
    installation win over those that ship.
    """
    (tmp_path / "Linux.template").write_text(
        "%RABBITMQ_HOST%:%RABBITMQ_PORT% %RABBITMQ_INPUT_QUEUE% %RESULT_QUEUE% "
        "[%MAILBOX_URL%%MAILBOX_TOKEN%] %RABBITMQ_USER% %RABBITMQ_PASSWORD% [%RESULT_EXCHANGE_OPTION%]"
    )
    door = MemoryTransport(own_users=bool(management))
    opened: list[tuple[str, str]] = []

    def brokers(broker: BrokerSettings, results: str) -> MemoryTransport:
        opened.append((broker.host, results))
        return door

    place.services.brokers = brokers
    place.services.settings = replace(
        place.services.settings,
        rabbitmq=RabbitmqSection(
            host="mq", login="guests", password="in the open", management_url=management
        ),
        engine=EngineSection(agent_config_dir=str(tmp_path), file_server="files.example.org"),
    )
    done = await place.run(telnet())
    assert [one for one in place.reports.said if one[1] == "error"] == []
    assert [queue for queue, _ in door.plans] == ["ee1-s1-u1"]
    assert opened == [("mq", "-execution-results-ee1")]
    assert await place.mailboxes.queues_of("") == []
    stack = await place.stacks.get("p", "ee1")
    assert stack is not None
    script = stack.template["Resources"]["linu1"]["Properties"]["UserData"]
    assert "files.example.org" in script
    (encoded,) = re.findall(r"echo '(\S+)' \| base64 -d > /etc/murano/agent.conf", script)
    assert base64.b64decode(encoded).decode() == (
        f"mq:5672 ee1-s1-u1 -execution-results-ee1 [] {login}"
    )
    await place.run(None, done.model["Objects"])
    assert (door.queues, door.results_forgotten) == (set(), True)


async def test_a_broker_that_cannot_be_used_is_an_error_that_says_so(place: Place) -> None:
    """Without its file of authorities, or when it does not answer, the task ends with a report."""
    door = MemoryTransport()
    place.services.brokers = lambda broker, results: door

    async def unreachable(queue: str) -> str:
        raise BrokerUnreachable("amqp://guests@mq", "connection refused")

    door.issue_credential = unreachable
    for section, said in (
        (RabbitmqSection(host="mq", ssl=True, ca_certs="/none/ca.pem"), "/none/ca.pem"),
        (
            RabbitmqSection(host="mq"),
            "prepare-user-data: The broker amqp://guests@mq cannot be used",
        ),
    ):
        place.reports.said.clear()
        place.services.settings = replace(place.services.settings, rabbitmq=section)
        result = await place.run(telnet())
        assert result.is_exception
        assert said in result.result["message"]
        assert [one[1] for one in place.reports.said][-1] == "error"


async def test_a_plan_that_cannot_be_sent_fails_alone(place: Place) -> None:
    """A plan above the limit of mailboxes is an error of its unit that names the limit."""
    place.mailboxes.settings = MailboxSettings(sizes=MailboxSection(plan_limit=100))
    assert not (await place.run(telnet())).is_exception
    (failed,) = [one for one in place.reports.said if one[1] == "error"]
    assert failed[0] == "u1"
    assert "limit of 100" in (failed[3] or "")


@pytest.mark.parametrize(
    ("names", "chosen", "has_gateway"),
    [
        (["one", "two"], "one", True),
        (["one", "murano-x"], "murano-x", True),
        (["murano-default-router", "one"], "murano-default-router", True),
        (["one"], "one", False),
    ],
)
async def test_a_router_of_the_project_is_used(
    place: Place, names: list[str], chosen: str, has_gateway: bool
) -> None:
    """One called murano, else the first (§11); without a gateway there are no floating addresses."""
    networks = await place.stacks.compute.all(NETWORKS, "p")
    (outside,) = [one.uuid for one in networks if one.external]
    for number, name in enumerate(names):
        gateway = outside if has_gateway else None
        id_ = str(uuid.UUID(int=number))
        router = NewRouter(uuid=id_, project_id="p", name=name, external_network=gateway)
        await place.stacks.compute.create(ROUTERS, router)
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    networking = result.model["Objects"]["networking"]
    assert networking["routerId"] == str(uuid.UUID(int=names.index(chosen)))
    assert networking.get("floatingId") == (outside if has_gateway else None)
    assert [one for one in place.reports.said if one[1] == "error"] == []


async def test_without_networks_of_its_own_a_server_joins_the_only_one(place: Place) -> None:
    """With ``nova`` on Vetro's own back end a server joins its project's only network."""
    settings = place.services.settings
    place.services.settings = replace(settings, network=NetworkSection(topology="nova"))
    refused = await place.run(telnet())
    failed = [one[3] or "" for one in place.reports.said if one[1] == "error"]
    assert any("the project has none: create one" in one for one in failed), failed
    await place.stacks.create("p", "net", NETWORK)
    done = await place.run(refused.model["Objects"], guests=("ee1-s1-u1",))
    (unit,) = done.model["Objects"]["services"][0]["units"]
    assert unit["state"]["TelnetInstalled"] is True


async def test_a_topology_is_a_setting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``nova`` an environment has no network of its own: only servers and their security group."""
    settings = place.services.settings
    place.services.settings = replace(settings, network=NetworkSection(topology="nova"))
    pushed: list[dict[str, Any]] = []

    async def create(project: str, name: str, template: dict[str, Any], **given: Any) -> Any:
        pushed.append(template)
        raise ResourceFailure("seen")

    monkeypatch.setattr(place.stacks, "create", create)
    assert (await place.run(telnet())).model["Objects"]["networking"]["topology"] == "nova"
    assert set(pushed[0]["Resources"]) == {"linu1", "MuranoSecurityGroup-dev"}


def farm() -> dict[str, Any]:
    """An environment with a web farm of two units."""
    units = [{"id": "u1", "name": "n1"}, {"id": "u2", "name": "n2"}]
    service = {
        "id": "s1", "type": "webServerFarm", "name": "farm", "osImage": "debian",
        "unitNamingPattern": "web#", "loadBalancerPort": 8080, "assignFloatingIP": True,
        "units": units,
    }  # fmt: skip
    return {"id": "e1", "name": "dev", "services": [service]}


async def test_a_farm_has_a_load_balancer(place: Place) -> None:
    """Both units become members of one pool, and the farm has its address and a floating one."""
    place.answer = lambda plan: {"IsException": False, "Result": []}
    result = await place.run(farm(), guests=("ee1-s1-u1", "ee1-s1-u2"))
    (service,) = result.model["Objects"]["services"]
    assert [one for one in place.reports.said if one[1] != "info"] == []
    assert all(one["state"]["iisInstalled"] for one in service["units"])
    stack = await place.stacks.get("p", "ee1")
    assert stack is not None
    vip = stack.outputs["s1-loadBalancerIp"]
    assert service["uri"] == f"http://{vip}:8080"
    assert service["floatingip"] == stack.outputs["s1-FloatingIPaddress"]
    members = stack.template["Resources"]["s1-LoadBalancer"]["Properties"]["members"]
    assert members == [{"Ref": "web1"}, {"Ref": "web2"}]
    again = await place.run(result.model["Objects"], result.model["ObjectsCopy"])
    assert again.model["Objects"]["services"][0]["floatingip"] == service["floatingip"]


async def test_a_farm_of_an_earlier_release_keeps_its_balancer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade, another name for farm and environment, and a second farm of the first name move and
    install nothing of it; the second has a balancer and an address of its own.
    """
    place.answer = lambda plan: {"IsException": False, "Result": []}
    today = workflow_run.definitions_of

    async def earlier(database: Database, project: str) -> dict[str, bytes]:
        files = await today(database, project)
        rules = files["workflows/WebApps.xml"].replace(b'"::state.balancer"', b'"::name"')
        rules = rules.replace(b'"state.balancer" source', b'"name" source')
        return {**files, "workflows/WebApps.xml": rules}

    with monkeypatch.context() as patched:
        patched.setattr(workflow_run, "definitions_of", earlier)
        first = (await place.run(farm(), guests=("ee1-s1-u1", "ee1-s1-u2"))).model["Objects"]
    stack = await place.stacks.get("p", "ee1")
    assert stack is not None
    assert "farm-Pool.server" in stack.resources
    for noted in (first["services"][0]["state"], first, first["networking"]):
        for key in ("balancer", "machines", "groupName"):
            noted.pop(key, None)
    place.services.may_lose = []
    servers, plans = set(place.stacks.compute.server_list), len(place.plans)
    upgraded = (await place.run(deepcopy(first), first)).model["Objects"]
    upgraded["name"] = upgraded["services"][0]["name"] = "other"
    renamed = (await place.run(deepcopy(upgraded), upgraded)).model["Objects"]
    assert set(place.stacks.compute.server_list) == servers
    assert len(place.plans) == plans
    second = farm()["services"][0] | {
        "id": "s2", "unitNamingPattern": "more#", "loadBalancerPort": 8081,
        "units": [{"id": "u3", "name": "n3"}],
    }  # fmt: skip
    twins = deepcopy(renamed)
    twins["services"].append(second)
    both = await place.run(twins, renamed, guests=("ee1-s2-u3",))
    assert not both.is_exception, both.result
    old, new = both.model["Objects"]["services"]
    assert [old[key] for key in ("uri", "floatingip")] == [
        first["services"][0][key] for key in ("uri", "floatingip")
    ]
    assert len({old["floatingip"], new["floatingip"]}) == 2
    assert new["uri"].removesuffix(":8081") != old["uri"].removesuffix(":8080")
    assert servers < set(place.stacks.compute.server_list)
    assert [one for one in place.reports.said if one[1] != "info"] == []


@pytest.mark.parametrize("lost", ["s1-Pool.server", "web1"])
@pytest.mark.parametrize("units", [2, 3])
async def test_a_machine_of_a_farm_that_is_gone_is_made_again(
    place: Place, lost: str, units: int
) -> None:
    """Its balancer or a member, by a deployment with a change or without one: what was on it is installed
    again, nothing else is, and the reports say it.
    """
    place.answer = lambda plan: {"IsException": False, "Result": []}
    first = (await place.run(farm(), guests=("ee1-s1-u1", "ee1-s1-u2"))).model["Objects"]
    made = await place.stacks.get("p", "ee1")
    assert made is not None
    uuid_, plans = made.resources[lost].physical_id, len(place.plans)
    assert uuid_ is not None
    await place.stacks.compute.delete_server(uuid_)
    before = deepcopy(first)
    if units > 2:
        first["services"][0]["units"].append({"id": "u3", "name": "n3"})
    queues = tuple(f"ee1-s1-u{number}" for number in range(1, units + 1))
    place.reports.said.clear()
    result = await place.run(first, before, guests=queues)
    assert not result.is_exception, result.result
    assert uuid_ in place.stacks.compute.server_list
    assert all(
        one["state"]["iisInstalled"] for one in result.model["Objects"]["services"][0]["units"]
    )
    assert len(place.plans) - plans == (units - 2) + (lost == "web1")
    said = [text for _, level, text, _ in place.reports.said if level != "info"]
    assert f"The machine ee1-{lost} was not there any more and was made again" in said[0]
    assert ["The machine of unit web1 is a new one" in one for one in said[1:]] == (
        [True] if lost == "web1" else []
    )
    place.reports.said.clear()
    await place.run(result.model["Objects"], first, guests=queues)
    assert [one for one in place.reports.said if one[1] != "info"] == []
    assert len(place.plans) - plans == (units - 2) + (lost == "web1")


async def test_a_farm_without_a_load_balancer_says_why(place: Place) -> None:
    """Where the image of load balancers is missing, the service gets the reason and nothing is pushed."""
    del place.stacks.compute.images["vetro-balancer"]
    await place.run(farm())
    (error,) = [one for one in place.reports.said if one[1] == "error"]
    assert error[0] == "s1"
    assert "engine.balancer_image" in error[2]
    assert await place.stacks.get("p", "ee1") is None


async def test_a_guest_that_fails_stops_the_task(place: Place) -> None:
    """The error of the plan is in a report on the unit, and the flag is not set."""
    place.answer = lambda plan: {
        **GOOD, "SourceID": plan["ID"], "ErrorCode": 100, "Body": {"Message": "boom"},
    }  # fmt: skip
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert "TelnetInstalled" not in result.model["Objects"]["services"][0]["units"][0]["state"]
    (failed,) = [one for one in place.reports.said if one[1] == "error"]
    assert failed[0] == "u1"
    assert "boom" in (failed[3] or "")


async def test_a_guest_that_answers_twice_answers_once(place: Place) -> None:
    """The second answer changes nothing."""
    place.times = 2
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert result.model["Objects"]["services"][0]["units"][0]["state"]["TelnetInstalled"] is True
    assert [one for one in place.reports.said if one[1] != "info"] == []


async def test_a_guest_that_answers_garbage_fails_its_step(place: Place) -> None:
    """What is no JSON is an error of the plan, reported on the unit."""
    place.answer = lambda plan: b"\xff no json"
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert "TelnetInstalled" not in result.model["Objects"]["services"][0]["units"][0]["state"]
    assert [one[0] for one in place.reports.said if one[1] == "error"] == ["u1"]


async def test_a_guest_that_is_silent_or_late(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its time a plan has failed, and says so; an answer that comes then is a dead letter."""
    monkeypatch.setattr(workflow_port, "FIRST_CONTACT_SECONDS", 0.0)
    settings = place.services.settings
    place.services.settings = replace(settings, engine=EngineSection(agent_timeout=1))
    place.times = 0
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert "TelnetInstalled" not in result.model["Objects"]["services"][0]["units"][0]["state"]
    (failed,) = [one for one in place.reports.said if one[1] == "error"]
    assert '"timeout"' in (failed[3] or "")
    (plan,) = place.plans
    late = json.dumps({**GOOD, "SourceID": plan["ID"]}).encode()
    await place.mailboxes.accept_result(Guest("ee1-s1-u1"), late, plan["ID"])
    (letter,) = await place.mailboxes.dead_letters("ee1-s1-u1")
    assert letter.reason == "late"


async def test_a_guest_has_time_to_boot_until_it_was_heard(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first plan of a guest may take half an hour longer; those of later tasks may not."""
    given: list[float | None] = []
    send = place.mailboxes.send

    async def seen(*arguments: Any, **options: Any) -> Any:
        given.append(options["lifetime"])
        return await send(*arguments, **options)

    monkeypatch.setattr(place.mailboxes, "send", seen)
    limit = place.services.settings.engine.agent_timeout
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert given == [limit + 1800]
    model = result.model["Objects"]
    del model["services"][0]["units"][0]["state"]["TelnetInstalled"]
    await place.mailboxes.record_contacts({"ee1-s1-u1": place.database.clock.now()})
    await place.run(model, guests=("ee1-s1-u1",))
    assert given == [limit + 1800, limit]


async def test_a_stack_that_fails_is_reported(place: Place) -> None:
    """A resource that cannot be made is an error on the unit; no plan is sent."""
    place.stacks.compute.fail["create_server"] = ResourceFailure("no room")
    result = await place.run(telnet())
    errors = [one for one in place.reports.said if one[1] == "error"]
    assert errors
    assert all("no room" in (one[3] or "") for one in errors)
    assert place.plans == []
    assert not result.is_exception
