"""Tasks of flat services on the engine: shipped definitions, stacks in memory, mailboxes in a database."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from vetro import catalog, engine, environments, messaging, repository
from vetro.compute.client.calls import NETWORKS, ROUTERS
from vetro.compute.wire import NewRouter
from vetro.engine.checkpoints import Checkpoints, TakenOver
from vetro.engine.journal import JournalEffects, forget
from vetro.engine.services import EngineServices
from vetro.engine.settings import EngineSection, EngineSettings, NetworkSection
from vetro.engine.system.memory import MemoryTransport
from vetro.engine.worker import workflow_port, workflow_run
from vetro.engine.worker.deployment import is_flat
from vetro.engine.worker.messages import send_message
from vetro.engine.worker.workflow_port import first_free_range
from vetro.engine.worker.workflow_run import run_workflows
from vetro.environments import EngineTask, TaskResult
from vetro.messaging import (
    BrokerSettings,
    BrokerUnreachable,
    Guest,
    Mailboxes,
    MailboxSection,
    RabbitmqSection,
)
from vetro.messaging.mailboxes import MailboxSettings
from vetro.messaging.results import MalformedResult
from vetro.stacks import ComputeNetworkDirectory, MemoryStacks, ResourceFailure
from vetro.storage import Database, migrate

NETWORK = {
    "heat_template_version": "2016-10-14",
    "resources": {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.77.0.0/24"},
        },
    },
}
GOOD = {"FormatVersion": "2.0.0", "ErrorCode": 0, "Body": "done", "Action": "Execution:Result"}


class Reports:
    """Keeps the reports of a task."""

    def __init__(self) -> None:
        self.said: list[tuple[str | None, str, str, str | None]] = []

    async def report(
        self, entity_id: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """One report."""
        self.said.append((entity_id, level, text, details))


class Place:
    """An engine's back ends, and guests that answer every plan."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.stacks = MemoryStacks()
        self.mailboxes = Mailboxes(database)
        self.reports = Reports()
        self.fence = 0
        self.plans: list[dict[str, Any]] = []
        self.times = 1
        self.answer: Callable[[dict[str, Any]], Any] = lambda plan: {**GOOD, "SourceID": plan["ID"]}
        reports: Any = self.reports
        self.services = EngineServices(
            settings=EngineSettings(
                database_url="",
                data_dir=directory,
                compute_url="",
                service_key="",
                mailbox_url="http://mail.example.org/agents",
                package_dir=directory,
            ),
            project_id="p",
            user_id="u",
            environment_id="e1",
            stacks=self.stacks,
            directory=ComputeNetworkDirectory(self.stacks.compute),
            transport=self.mailboxes,
            reports=reports,
            signer=None,
        )

    async def guest(self, queue: str) -> None:
        """Answer the plans of one mailbox, for ever."""
        guest = Guest(queue)
        await self.mailboxes.declare(queue)
        while True:
            message = await self.mailboxes.next_plan(guest, None, 5.0)
            if message is not None:
                plan = json.loads(message.body)
                self.plans.append(plan)
                await self.mailboxes.acknowledge(guest, message.message_id)
                answer = self.answer(plan)
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                for _ in range(self.times):
                    with contextlib.suppress(MalformedResult):
                        await self.mailboxes.accept_result(guest, body, message.message_id)

    async def run(
        self,
        objects: Any,
        before: Any = None,
        guests: tuple[str, ...] = (),
        orders: socket.socket | None = None,
    ) -> TaskResult:
        """Run one task beside its guests."""
        task = EngineTask(
            "t", "e1", "s", "p", "u", None, {"Objects": objects, "ObjectsCopy": before}
        )
        assert is_flat(task.model)
        self.fence += 1
        effects = JournalEffects(self.database, task.id, self.fence)
        kept = Checkpoints(self.database, task.id, self.fence)
        async with self.answering(guests):
            result = await run_workflows(self.services, self.database, task, effects, kept, orders)
            await forget(self.database, task.id)
            return result

    @contextlib.asynccontextmanager
    async def answering(self, guests: tuple[str, ...]) -> AsyncGenerator[None]:
        """Guests with these mailboxes."""
        running = [asyncio.create_task(self.guest(queue)) for queue in guests]
        try:
            yield
        finally:
            for one in running:
                one.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await one


@pytest.fixture
async def place(database_url: str, tmp_path: Path) -> AsyncIterator[Place]:
    """A database with what the engine uses."""
    opened = await Database.open(database_url, data_dir=tmp_path)
    try:
        await migrate(
            opened,
            [room.MIGRATIONS for room in (catalog, environments, engine, messaging, repository)],
        )
        yield Place(opened, tmp_path)
    finally:
        await opened.close()


def telnet() -> dict[str, Any]:
    """An environment with one Telnet service of one unit."""
    unit = {"id": "u1", "name": "n1"}
    service = {
        "id": "s1", "type": "linuxTelnetService", "name": "tel", "osImage": "debian",
        "unitNamingPattern": "linu#", "units": [unit],
    }  # fmt: skip
    return {"id": "e1", "name": "dev", "services": [service]}


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
    result = await place.run(telnet())
    assert not result.is_exception
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
    result = await place.run(telnet())
    assert result.model["Objects"]["networking"]["topology"] == "nova"
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
    vip = stack.outputs["farm-loadBalancerIp"]
    assert service["uri"] == f"http://{vip}:8080"
    assert service["floatingip"] == stack.outputs["farm-FloatingIPaddress"]
    members = stack.template["Resources"]["farm-LoadBalancer"]["Properties"]["members"]
    assert members == [{"Ref": "web1"}, {"Ref": "web2"}]
    again = await place.run(result.model["Objects"], result.model["ObjectsCopy"])
    assert again.model["Objects"]["services"][0]["floatingip"] == service["floatingip"]


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


@pytest.mark.parametrize(
    ("environments", "hosts", "used", "expected"),
    [
        (20, 250, [], "10.0.0.0/24"),
        (20, 250, ["10.0.0.0/24", "10.0.1.128/25"], "10.0.2.0/24"),
        (20, 250, ["10.0.0.0/19"], None),
        (20, 250, ["fd00::/64"], "10.0.0.0/24"),
        (1, 2, [], "10.0.0.0/31"),
    ],
)
def test_the_first_free_range(
    environments: int, hosts: int, used: list[str], expected: str | None
) -> None:
    """The first block that meets no range in use (§11)."""
    assert first_free_range("10.0.0.0", environments, hosts, used) == expected


class Killed(BaseException):
    """The worker was killed here."""


class Deadly:
    """Kills the worker at the n-th step that leaves something behind: before it, or after it."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.after, self.steps = 0, False, 0
        for owner, name in (
            (Checkpoints, "save"),
            (Checkpoints, "keep_answer"),
            (place.mailboxes, "send"),
            (place.mailboxes, "discard"),
            (place.stacks, "create"),
            (place.stacks, "update"),
        ):
            monkeypatch.setattr(owner, name, self.wrapped(getattr(owner, name)))

    def wrapped(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step that may be the last."""

        async def call(*given: Any, **named: Any) -> Any:
            self.steps += 1
            dies = self.steps == self.at
            if dies and not self.after:
                raise Killed
            result = await step(*given, **named)
            if dies:
                raise Killed
            return result

        return call


async def small(*_given: Any) -> dict[str, bytes]:
    """Definitions of a project: ``SMALL``."""
    return SMALL


SMALL = {
    "workflows/Small.xml": b"""<workflow>
  <rule id="range" match="$[?(not @.networking.cidr)]">
    <get-cidr routerId="r" result="found"><success>
      <set path="networking.cidr"><select source="found" path="cidr"/></set>
      <set path="networking.mark"><uuid/></set>
    </success></get-cidr>
  </rule>
  <rule id="name" match="$.services[*].units[?(not @.state.hostname)]">
    <set path="state.hostname">
      <generate-hostname><parameter name="pattern"><select path="::unitNamingPattern"/></parameter>
        <parameter name="service_id"><select path="::id"/></parameter></generate-hostname>
    </set>
  </rule>
  <rule id="server" match="$[?(@.networking.cidr and not @.temp.server)]">
    <update-cf-stack template="Server"><success><set path="temp.server"><true/></set>
      <report entity="environment"><parameter name="id"><select path="id"/></parameter>
        <parameter name="text">the server is there</parameter></report></success></update-cf-stack>
  </rule>
  <rule id="first" match="$[?(@.temp.server)].services[*].units[?(not @.state.first)]">
    <mute/>
    <send-command template="Plan">
      <parameter name="service"><select path="::id"/></parameter>
      <parameter name="unit"><select path="id"/></parameter>
      <success><set path="state.first"><true/></set></success>
    </send-command>
  </rule>
  <rule id="group" match="$[?(@.temp.server and not @.temp.group)].services[0].units[?(@.state.first)]">
    <update-cf-stack template="Group">
      <success><set path="/temp.group"><true/></set></success></update-cf-stack>
  </rule>
</workflow>""",
    **{
        f"templates/cf/{name}.template": json.dumps(
            {
                "Resources": {
                    name: {
                        "Type": "AWS::EC2::SecurityGroup",
                        "Properties": {"GroupDescription": name},
                    }
                }
            }
        ).encode()
        for name in ("Server", "Group")
    },
    "templates/agent/Plan.template": b'{"FormatVersion": "2.0.0", "Body": "return 1", "Scripts": {}}',
}


async def test_a_task_goes_on_wherever_it_was_killed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two steps, a second run ends as an undisturbed one; every plan ran once."""
    # Two networks, two stacks, two plans at once: all that a checkpoint has, at a third of the time.
    monkeypatch.setattr(workflow_run, "definitions_of", small)
    deadly = Deadly(place, monkeypatch)
    units = [{"id": "u1", "name": "n1"}, {"id": "u2", "name": "n2"}]
    given = {**telnet(), "services": [{**telnet()["services"][0], "units": units}]}
    guests = ("ee1-s1-u1", "ee1-s1-u2")
    whole = await place.run(given, guests=guests)
    assert whole.result is None
    assert len(place.plans) == 2
    steps = deadly.steps
    assert steps >= 12
    for point in range(1, steps + 2):
        # Before each step, which is after the one before it; and after the last.
        deadly.at, deadly.after = (point, False) if point <= steps else (steps, True)
        await place.stacks.delete("p", "ee1")
        for queue in guests:
            await place.mailboxes.delete(queue)
        place.plans.clear()
        place.reports.said.clear()
        deadly.steps = 0
        async with place.answering(guests):  # what a guest has accepted it answers, to whom it be
            with pytest.raises(Killed):
                await place.run(given)
            result = await place.run(given)
        assert (result.is_exception, result.model) == (False, whole.model), deadly.at
        assert len(place.plans) == 2, deadly.at
        assert any("was cut off in round" in one[2] for one in place.reports.said) or deadly.at == 1


async def test_an_engine_that_was_overtaken_stores_nothing(place: Place) -> None:
    """Of two engines with a task the later one has it."""
    first, second = (Checkpoints(place.database, "t", fence) for fence in (1, 2))
    assert await first.take_over() is None
    await first.save({"round": 1}, 1)
    assert await second.take_over() == {"round": 1}
    with pytest.raises(TakenOver, match="deployment t"):
        await first.save({"round": 2}, 2)
    with pytest.raises(TakenOver):
        await first.take_over()


@pytest.mark.parametrize("fetched", [True, False], ids=["fetched", "waiting"])
async def test_a_task_that_is_cancelled_ends_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, fetched: bool
) -> None:
    """It ends while a guest is silent, says why, keeps what was done, and takes its plan back."""
    monkeypatch.setattr(workflow_run, "definitions_of", small)
    place.times = 0
    ours, theirs = socket.socketpair()
    with ours, theirs:
        running = asyncio.create_task(
            place.run(telnet(), guests=("ee1-s1-u1",) if fetched else (), orders=theirs)
        )
        if fetched:
            await eventually(lambda: bool(place.plans))
        else:
            await eventually(lambda: place.mailboxes.unfinished("ee1-s1-u1"))
        send_message(ours, {"cancel": "Cancelled by ann: wrong image"})
        result = await running
    assert result.is_exception
    assert result.result == {"message": "Cancelled by ann: wrong image", "details": None}
    assert place.reports.said[-1] == (
        "e1", "error", "Cancelled by ann: wrong image", None,
    )  # fmt: skip
    unit = result.model["Objects"]["services"][0]["units"][0]
    assert unit["state"] == {"hostname": "linu1"}
    assert [one.awaited for one in await place.mailboxes.unfinished("ee1-s1-u1")] == (
        [False] if fetched else []
    )
