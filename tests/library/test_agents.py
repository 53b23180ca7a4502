"""`Agent` and `AgentListener`: plans to guests and results from them (core-library.md §4.2, §4.3)."""

from __future__ import annotations

import asyncio
import base64
import re
from datetime import UTC, datetime
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from vetro.engine.signing import PlanSigner, SigningKeyError
from vetro.engine.system.memory import MemoryTransport
from vetro.messaging import Unfinished

PLAN = "{FormatVersion => '2.0.0', Name => n, Body => b, Scripts => {}}"


def answering(**result: Any) -> Any:
    """A guest that gives this result to every plan."""
    return lambda queue, plan: {"FormatVersion": "2.0.0", **result}


async def ask(lab: Any, body: str, **options: Any) -> Any:
    """Run statements with `$agent`."""
    vm = lab.instance(
        networks={"useEnvironmentNetwork": False, "useFlatNetwork": False, "customNetworks": []}
    )
    return await lab.probe("- $agent: $.vm.agent\n" + body, vm=vm, **options)


async def test_a_result_is_returned(lab: Any) -> None:
    """The body of a good result is the call's value; an empty one is null."""
    lab.cloud.transport.guest = answering(ErrorCode=0, Body={"exitCode": 0})
    assert await ask(lab, f"- Return: $agent.callRaw({PLAN})") == {"exitCode": 0}
    lab.cloud.transport.guest = answering(Body=None)
    assert await ask(lab, f"- Return: $agent.callRaw({PLAN})") is None


async def test_an_error_is_an_exception_with_its_map(lab: Any) -> None:
    """The old name catches it; `extra` has what the guest said."""
    lab.cloud.transport.guest = answering(
        ErrorCode=100, Time="t", Body={"Message": "m", "AdditionalInfo": "a", "more": 1}
    )
    text = f"""
- Try:
    - $agent.callRaw({PLAN})
  Catch:
    With: 'murano.engine.system.agent.AgentException'
    As: e
    Do:
      - Return: $e.extra
"""
    assert await ask(lab, text) == {
        "message": "m", "details": "a", "errorCode": 100, "time": "t", "extra": {"more": 1},
    }  # fmt: skip


async def test_a_guest_that_never_answers_is_named(lab: Any) -> None:
    """The exception has the exact text, the report says queue, plan and last contact."""
    lab.cloud.transport.guest = lambda queue, plan: None
    text = f"""
- Try:
    - $agent.callRaw({PLAN}, 7)
  Catch:
    With: 'murano.common.exceptions.TimeoutException'
    As: e
    Do:
      - Return: [$e.message, $e.extra]
"""
    message, extra = await ask(lab, text)
    assert message == "The murano-agent did not respond within 7 seconds"
    assert extra == {
        "instance": "web", "queue": "eenv-hvm", "plan": "n", "lastContact": None, "blockedBy": [],
    }  # fmt: skip
    (report,) = lab.texts("warning")
    for part in (
        "web",
        "eenv-hvm",
        "plan n",
        "7 seconds",
        "has never contacted the service",
        "it has not finished",
    ):
        assert part in report
    assert lab.cloud.transport.discarded


BLOCKERS = [
    Unfinished("1", "Install", datetime(2026, 1, 1, 9, tzinfo=UTC), awaited=False),
    Unfinished("2", "Tune", datetime(2026, 1, 1, 10, tzinfo=UTC), awaited=True),
]


async def test_the_report_says_which_plan_is_in_the_way(lab: Any) -> None:
    """A guest runs one plan at a time: a waiting call reports the plans before its own."""
    lab.cloud.transport.guest = lambda queue, plan: None
    lab.cloud.transport.before = BLOCKERS
    await ask(lab, f"- $agent.callRaw({PLAN}, 7)", fails=True)
    (report,) = lab.texts("warning")
    assert "Install (sent 2026-01-01 09:00:00 UTC, no deployment waits for it)" in report
    assert "1 more: Tune" in report
    assert "told to stop it" in report


async def test_a_call_that_timed_out_is_cancelled(lab: Any, tmp_path: Path) -> None:
    """The guest gets a signed cancellation; an agent that does not know it runs an empty plan."""
    signer = lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "k.pem")
    lab.cloud.transport.guest = lambda queue, plan: None
    transport = lab.cloud.transport
    built = "{FormatVersion => '2.0.0', Name => n, Body => b, Scripts => {}}"
    await ask(lab, f"- $agent.call({built}, new(sys:Resources), 7)", fails=True)
    (_, plan), (queue, order) = transport.plans
    assert (plan["Timeout"], plan["Lifetime"]) == (7, 7)
    assert transport.lifetimes[plan["ID"]] == 7.0
    assert (order["Action"], order["ID"]) == ("Cancel", plan["ID"])
    assert (order["FormatVersion"], order["Body"], order["Scripts"], order["Files"]) == (
        "2.0.0", "return", {}, {},
    )  # fmt: skip
    message = f"{plan['ID']}-cancel"
    assert transport.signatures[message] == signer.sign(queue, transport.bodies[message])
    assert transport.orders == {message}


@pytest.mark.parametrize(
    ("said", "sent"), [("60", 60), ("3600", 90), ("'a while'", "a while"), ("null", 90)]
)
async def test_a_plan_may_have_a_time_of_its_own(lab: Any, said: str, sent: Any) -> None:
    """The shorter one holds; the agent refuses a value that is not a time."""
    built = f"{{FormatVersion => '2.0.0', Body => b, Scripts => {{}}, Timeout => {said}}}"
    await ask(lab, f"- $agent.call({built}, new(sys:Resources), 90)")
    ((_, plan),) = lab.cloud.transport.plans
    assert (plan["Timeout"], plan["Lifetime"]) == (sent, 90)


async def test_what_is_not_waited_for_has_no_end(lab: Any) -> None:
    """`send` bounds nothing; plans of format 1, and such as are given as they are, stay as they are."""
    first = "{Scripts => [], Commands => []}"
    built = "{FormatVersion => '2.0.0', Body => b, Scripts => {}}"
    lab.cloud.transport.guest = lambda queue, plan: None
    await ask(lab, f"- $agent.send({built}, new(sys:Resources))")
    await ask(lab, f"- $agent.call({first}, new(sys:Resources), 9)", fails=True)
    assert lab.cloud.transport.lifetimes[lab.cloud.transport.plans[0][1]["ID"]] is None
    assert len(lab.cloud.transport.plans) == 2  # an agent of format 1 knows no order to end it
    await ask(lab, f"- $agent.callRaw({PLAN}, 9)", fails=True)
    plans = [plan for _, plan in lab.cloud.transport.plans]
    assert [set(plan) & {"Timeout", "Lifetime"} for plan in plans[:3]] == [set(), set(), set()]
    assert plans[3]["Action"] == "Cancel"


async def test_what_a_killed_session_waited_for_is_withdrawn(lab: Any) -> None:
    """Before the next one sends its first plan, once; what was only sent is left to run."""
    transport = lab.cloud.transport
    transport.before = BLOCKERS
    await ask(lab, f"- $agent.callRaw({PLAN})\n- $agent.callRaw({PLAN})")
    sent = [(plan.get("Action"), plan.get("ID")) for _, plan in transport.plans]
    assert sent == [("Cancel", "2"), (None, None), (None, None)]


async def test_a_plan_withdrawn_in_time_needs_no_order(lab: Any) -> None:
    """What no guest has fetched is taken back; the report says that it will not run."""

    class Unfetched(MemoryTransport):
        async def discard(self, message_id: str) -> bool:
            await super().discard(message_id)
            return True

    lab.cloud.transport = Unfetched(lambda queue, plan: None)
    await ask(lab, f"- $agent.callRaw({PLAN}, 7)", fails=True)
    assert len(lab.cloud.transport.plans) == 1
    assert "will not run" in lab.texts("warning")[0]


async def test_a_result_that_cannot_be_read_is_an_error(lab: Any) -> None:
    """The plan's failure says that its result cannot be read."""

    class Broken(MemoryTransport):
        async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
            return b"[" * 100_000

    lab.cloud.transport = Broken()
    assert "cannot be read" in await ask(lab, f"- $agent.callRaw({PLAN})", fails=True)


async def test_readiness_is_asked_without_failing(lab: Any) -> None:
    """`isReady` tells, `waitReady` raises; being not ready yet is no warning."""
    assert await ask(lab, "- Return: $agent.isReady()") is True
    lab.cloud.transport.guest = lambda queue, plan: None
    assert await ask(lab, "- Return: $agent.isReady(1)") is False
    assert lab.texts() == []
    assert "within 2 seconds" in await ask(lab, "- $agent.waitReady(2)", fails=True)
    (queue, plan) = lab.cloud.transport.plans[0]
    assert queue == "eenv-hvm"
    assert (plan["FormatVersion"], plan["Body"], plan["Scripts"]) == ("2.0.0", "return", {})


async def test_the_time_to_wait_has_a_default(lab: Any) -> None:
    """Null is the engine's setting, in seconds."""
    lab.cloud.options["engine.agent_timeout"] = 55.0
    await ask(lab, f"- $agent.callRaw({PLAN})\n- $agent.callRaw({PLAN}, 3)")
    assert [seconds for _, seconds in lab.cloud.transport.waited] == [55.0, 3.0]


async def test_sending_does_not_wait(lab: Any) -> None:
    """The plan is on its way; no result is asked for."""
    lab.cloud.transport.guest = lambda queue, plan: None
    assert await ask(lab, f"- Return: $agent.sendRaw({PLAN})") is None
    assert len(lab.cloud.transport.plans) == 1
    assert lab.cloud.transport.waited == []


async def test_plans_are_signed(lab: Any, tmp_path: Path) -> None:
    """Over the queue's name and the exact body, by the key that `signingKey` shows."""
    lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "key.pem")
    shown = await ask(lab, f"- $agent.callRaw({PLAN})\n- Return: $agent.signingKey('# ')")
    lines = shown.splitlines()
    assert all(line.startswith("# ") for line in lines)
    assert lines[0] == "# -----BEGIN RSA PUBLIC KEY-----"
    key = serialization.load_pem_public_key("\n".join(line[2:] for line in lines).encode())
    assert isinstance(key, rsa.RSAPublicKey)
    ((id_, signature),) = lab.cloud.transport.signatures.items()
    body = lab.cloud.transport.bodies[id_]
    key.verify(signature, b"eenv-hvm" + body, padding.PKCS1v15(), hashes.SHA256())


async def test_without_a_key_nothing_is_signed(lab: Any) -> None:
    """The key's text is empty then."""
    assert await ask(lab, f"- $agent.callRaw({PLAN})\n- Return: $agent.signingKey()") == ""
    assert list(lab.cloud.transport.signatures.values()) == [None]


@pytest.mark.parametrize(
    "call",
    [
        f"$agent.callRaw({PLAN})",
        f"$agent.sendRaw({PLAN})",
        f"$agent.call({PLAN}, new(sys:Resources))",
        f"$agent.send({PLAN}, new(sys:Resources))",
        "$agent.waitReady()",
        "$agent.isReady()",
        "$region.agentListener.subscribe('1', null)",
        "$region.agentListener.unsubscribe('1')",
    ],
)
async def test_agents_that_are_switched_off(lab: Any, call: str) -> None:
    """Every call raises the policy's exception; names and starting still work."""
    lab.cloud.options["engine.disable_murano_agent"] = True
    text = f"""
- $region.agentListener.start()
- $region.agentListener.stop()
- Try:
    - {call}
  Catch:
    With: 'murano.common.exceptions.PolicyViolationException'
    As: e
    Do:
      - Return: [$e.message, $agent.enabled, $agent.queueName(), $agent.signingKey()]
"""
    assert await ask(lab, text) == [
        "Use of murano-agent is disallowed by the server configuration", False, "eenv-hvm", "",
    ]  # fmt: skip


async def test_plans_are_built_from_resources(lab: Any) -> None:
    """Scripts and files come from the package of the class that made the resources object."""
    text = """
- $agent.call({FormatVersion => '2.0.0', Name => n, Parameters => {}, Body => x, Scripts => {
    run => {Type => Application, EntryPoint => 'run.sh', Files => ['<data.bin>', {alias => 'other.txt'}]}}},
    new(sys:Resources))
"""
    lab.resources = {
        "scripts/run.sh": "#!/bin/sh\r\necho 1\r\n",
        "scripts/data.bin": b"\x00\xff",
        "scripts/other.txt": "other",
    }
    await ask(lab, text)
    ((_, plan),) = lab.cloud.transport.plans
    files = {body["Name"]: body for body in plan["Files"].values()}
    assert files["run.sh"] == {"Name": "run.sh", "BodyType": "Text", "Body": "#!/bin/sh\necho 1\n"}
    assert files["data.bin"]["Body"] == base64.b64encode(b"\x00\xff").decode() + "\n"
    assert files["alias"]["Body"] == "other"
    assert plan["Files"][plan["Scripts"]["run"]["EntryPoint"]]["Name"] == "run.sh"
    assert len(plan["ID"]) == 32
    assert plan["Action"] == "Execute"


async def test_stamps_rise(lab: Any) -> None:
    """Every plan has a larger stamp than the ones before, however fast they come."""
    built = "{FormatVersion => '2.0.0', Body => b, Scripts => {}}"
    await ask(
        lab, f"- $r: new(sys:Resources)\n- $agent.call({built}, $r)\n- $agent.call({built}, $r)"
    )
    first, second = [plan["Stamp"] for _, plan in lab.cloud.transport.plans]
    assert second > first


@pytest.mark.parametrize("ahead", [-3600, 0, 3600, 86_400 * 365])
async def test_stamps_rise_over_sessions_whatever_the_clocks_say(lab: Any, ahead: int) -> None:
    """A guest drops a plan whose stamp is not above the last: also an engine that lags goes over it."""
    last = int((datetime.now(UTC).timestamp() + ahead) * 10_000)
    lab.cloud.transport.stamps["eenv-hvm"] = last
    for _session in range(2):
        await ask(lab, f"- $agent.call({PLAN}, null)\n- $agent.send({PLAN}, null)")
    sent = [plan["Stamp"] for queue, plan in lab.cloud.transport.plans if queue == "eenv-hvm"]
    assert len(sent) == 4
    assert sorted({last, *sent}) == [last, *sent]


async def test_a_listener_starts_once_and_stops_with_the_session(lab: Any) -> None:
    """Its queue is named after the region's stack."""
    text = """
- $listener: $region.agentListener
- $before: $listener.isStarted
- $listener.start()
- $listener.start()
- Return: [$before, $listener.isStarted, $listener.queueName(), $env.agentListener = $listener]
"""
    assert await lab.probe(text) == [False, True, "-execution-results--env", True]


async def test_removing_the_machine_removes_its_mailbox(lab: Any) -> None:
    """Credential and queue end with the guest."""
    await ask(lab, "- $agent.mailboxToken()")
    assert lab.cloud.transport.credentials
    await lab.destroy(lab.model)
    assert lab.cloud.transport.credentials == {}
    assert lab.cloud.transport.queues == set()


def test_two_processes_agree_on_one_signing_key(tmp_path: Path) -> None:
    """The second process uses the first one's key, and no other file remains (mode 0600)."""
    path = tmp_path / "key.pem"
    keys = {PlanSigner.load_or_create(path).public_key() for _ in range(2)}
    assert len(keys) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["key.pem"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "no key"])
def test_a_key_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    """An invalid key is an error that names it; signing is never silently disabled."""
    path = tmp_path / "key.pem"
    path.write_text(content)
    with pytest.raises(SigningKeyError, match="key.pem"):
        PlanSigner.load_or_create(path)


ROOM = """
Name: Room
Extends: std:Application
Properties:
  vms:
    Contract: [$.class(res:Instance).notNull()]
Methods:
  deploy:
    Body:
      - $.vms.pselect($.deploy())
      - $.vms.pselect($.agent.waitReady())
"""


def agent_config(lab: Any, name: str = "web") -> dict[str, str]:
    """The options of the agent's configuration in a server's user data."""
    (server,) = [one for one in lab.cloud.compute.server_list.values() if one.spec.name == name]
    mail = message_from_string(server.spec.customer_metadata["user-data"])
    script = "".join(
        bytes(part.get_payload(decode=True) or b"").decode()
        for part in mail.walk()
        if not part.is_multipart()
    )
    found = re.search(r"echo '([A-Za-z0-9+/=]*)' \| base64 -d > \"\$root/etc/murano/agent", script)
    assert found
    return dict(re.findall(r"^(\w+) =[ ]?(.*)$", base64.b64decode(found[1]).decode(), re.M))


async def test_guests_behind_a_broker(lab: Any, tmp_path: Path) -> None:
    """With a configured broker every plan goes there, the guest gets its login, no queue stays."""
    (tmp_path / "ca.pem").write_text("the certificate\n")
    lab.cloud.options |= {
        "rabbitmq.host": "broker.example", "rabbitmq.port": 5671, "rabbitmq.ssl": True,
        "rabbitmq.login": "guests", "rabbitmq.password": "s", "rabbitmq.virtual_host": "v",
        "rabbitmq.ca_certs": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    lab.add_class(ROOM)
    room = lab.application("room", "test.Room", vms=[lab.instance()])
    model = await lab.deploy(lab.environment(room))
    (((broker, results), door),) = lab.cloud.doors.items()
    assert repr(broker) == "amqps://guests@broker.example:5671/v"
    assert broker.ca_certs == str(tmp_path / "ca.pem")
    assert [queue for queue, _ in door.plans] == ["eenv-hvm"]
    assert lab.cloud.transport.plans == []
    config = agent_config(lab)
    assert config["url"] == ""
    assert {key: config[key] for key in ("host", "port", "login", "password", "virtual_host")} == {
        "host": "broker.example", "port": "5671", "login": "guests", "password": "s",
        "virtual_host": "v",
    }  # fmt: skip
    assert (config["ssl"], config["ca_certs"]) == ("true", "/etc/murano/certs/ca_certs")
    assert config["result_routing_key"] == results == "-execution-results--env"
    await lab.destroy(model)
    assert door.queues == set()
    assert door.results_forgotten


async def test_guests_with_users_of_their_own(lab: Any) -> None:
    """Each logs in with its own name and credential, and packages do not learn the service's login."""
    lab.cloud.options |= {
        "rabbitmq.host": "broker.example", "rabbitmq.login": "service", "rabbitmq.password": "s",
        "rabbitmq.management_url": "https://broker.example:15671",
    }  # fmt: skip
    lab.add_class(ROOM)
    room = lab.application("room", "test.Room", vms=[lab.instance()])
    model = await lab.deploy(lab.environment(room))
    ((broker, _), door) = next(iter(lab.cloud.doors.items()))
    assert (broker.login, broker.password) == ("service", "s")
    config = agent_config(lab)
    assert (config["login"], config["result_exchange"]) == ("eenv-hvm", "eenv-hvm")
    assert config["password"] == door.credentials["eenv-hvm"]
    settings = lab.cloud.settings()
    assert [settings.config("rabbitmq", key) for key in ("login", "password")] == [None, None]
    await lab.destroy(model)
    assert door.credentials == {}


async def test_each_region_has_its_own_broker(lab: Any) -> None:
    """A region that names a broker uses it; the others keep the mailboxes."""
    lab.class_configs = {
        "io.murano.Environment": {
            "regionConfigs": {"south": {"agentRabbitMq": {"host": "south.example", "login": "l"}}}
        }
    }
    lab.add_class(ROOM)
    vms = [lab.instance("a", "here"), lab.instance("b", "there", regionName="south")]
    model = await lab.deploy(lab.environment(lab.application("room", "test.Room", vms=vms)))
    (((broker, results), door),) = lab.cloud.doors.items()
    assert repr(broker) == "amqp://l@south.example:5672/"
    assert results == "-execution-results-south-env"
    assert [queue for queue, _ in door.plans] == ["eenv-hb"]
    assert [queue for queue, _ in lab.cloud.transport.plans] == ["eenv-ha"]
    assert agent_config(lab, "here")["url"] == "http://mailbox.example:8082"
    assert agent_config(lab, "there")["url"] == ""
    await lab.destroy(model)
    assert door.queues == lab.cloud.transport.queues == set()


class SlowTransport(MemoryTransport):
    """Guests that have received their plan and never finish it."""

    def __init__(self, guest: Any) -> None:
        super().__init__(guest)
        self.working = asyncio.Event()

    async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
        self.working.set()
        return await asyncio.Future()


async def test_a_cancelled_deployment_cancels_its_plan(lab: Any, tmp_path: Path) -> None:
    """The guest gets a signed order to end the running plan, and its result is not awaited."""
    signer = lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "k.pem")
    transport = lab.cloud.transport = SlowTransport(lambda queue, plan: None)
    lab.add_class(ROOM)
    model = lab.environment(lab.application("room", "test.Room", vms=[lab.instance()]))
    session = lab.session()
    action = {"object_id": "env", "method": "deploy", "args": {}}
    running = asyncio.create_task(session.run_task_async({"action": action, "model": model}))
    await transport.working.wait()
    waits = session.services.waiting
    name = transport.plans[0][1].get("Name") or transport.plans[0][1]["ID"]
    assert waits.text == f"the agent of web, which runs the plan {name}"
    session.cancel("Cancelled by ann")
    reply = await running
    assert (reply.is_exception, reply.message) == (True, "Cancelled by ann")
    assert waits.text == ""
    (_, plan), (queue, order) = transport.plans
    assert (queue, order["Action"], order["ID"]) == ("eenv-hvm", "Cancel", plan["ID"])
    assert transport.discarded == [plan["ID"]]
    message = f"{plan['ID']}-cancel"
    assert transport.signatures[message] == signer.sign(queue, transport.bodies[message])
