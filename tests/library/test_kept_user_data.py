"""What the service writes into a machine's user data changes; the machine stays, and its agent is told."""

from __future__ import annotations

import functools
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from vetro.compute.wire import Image
from vetro.engine.services import library_path
from vetro.engine.signing import PlanSigner
from vetro.stacks import DEFAULT_FLAVORS, NativeSettings
from vetro.stacks.native import StackEngine

APP = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
      - $.instance.agent.call({FormatVersion => '2.2.0', Name => n, Body => 'return 1', Scripts => {}}, null)
"""
WINDOWS = "io.murano.resources.WindowsInstance"
BROKER = {"rabbitmq.host": "broker.example", "rabbitmq.password": "first"}
OWN_USERS = {**BROKER, "rabbitmq.management_url": "https://broker.example:15671"}

#: By placeholder of the agent's configuration and of the scripts around it: settings before, settings that
#: change, and what the agent is told of it (section, option, value); `None`: only its first start needs it.
SETTINGS: dict[str, list[tuple[dict[str, Any], dict[str, Any], tuple[str, str, str] | None]]] = {
    "MAILBOX_URL": [
        (
            {},
            {"mailbox_url": "http://mailbox.example:8090"},
            ("mailbox", "url", "http://mailbox.example:8090"),
        ),
        ({}, {"mailbox_url": "https://other.example"}, ("mailbox", "url", "https://other.example")),
        ({}, BROKER, ("rabbitmq", "login", "guest")),
    ],
    "RABBITMQ_HOST": [
        (BROKER, {"rabbitmq.host": "other.example"}, ("rabbitmq", "host", "other.example"))
    ],
    "RABBITMQ_PORT": [(BROKER, {"rabbitmq.port": 5673}, ("rabbitmq", "port", "5673"))],
    "RABBITMQ_USER": [
        (BROKER, {"rabbitmq.login": "other"}, ("rabbitmq", "login", "other")),
        (BROKER, OWN_USERS, ("rabbitmq", "login", "eenv-hvm")),
    ],
    "RABBITMQ_PASSWORD": [
        (BROKER, {"rabbitmq.password": "next"}, ("rabbitmq", "password", "next"))
    ],
    "RABBITMQ_VHOST": [(BROKER, {"rabbitmq.virtual_host": "v"}, ("rabbitmq", "virtual_host", "v"))],
    "RABBITMQ_SSL": [(BROKER, {"rabbitmq.ssl": True}, ("rabbitmq", "ssl", "true"))],
    "RABBITMQ_INSECURE": [
        (
            {**BROKER, "rabbitmq.ssl": True},
            {"rabbitmq.insecure": True},
            ("rabbitmq", "insecure", "true"),
        )
    ],
    "RABBITMQ_CA_CERTS": [
        (
            {**BROKER, "rabbitmq.ssl": True},
            {"rabbitmq.ca_certs": "ca.pem"},
            ("rabbitmq", "ca_data", "PEM\n"),
        )
    ],
    "CA_ROOT_CERT_BASE64": [({}, {"rabbitmq.ca_certs": "ca.pem"}, None)],
    "RESULT_EXCHANGE": [(BROKER, OWN_USERS, ("rabbitmq", "result_exchange", "eenv-hvm"))],
    "RESULT_EXCHANGE_OPTION": [
        (OWN_USERS, {"rabbitmq.management_url": ""}, ("rabbitmq", "result_exchange", ""))
    ],
    "SIGNING_KEY": [
        ({}, {"signer": "other.pem"}, ("mailbox", "url", "http://mailbox.example:8082"))
    ],
    "MURANO_SERVER_ADDRESS": [({"type": WINDOWS}, {"engine.file_server": "files.example"}, None)],
    "PIP_SOURCE": [({}, {"engine.agent_source": "other-agent"}, None)],
    "AGENT_URL": [({}, {"engine.agent_source": "https://vetro.example/agent.pyz"}, None)],
    "AGENT_SHA256": [
        (
            {"engine.agent_source": "https://vetro.example/agent.pyz"},
            {"engine.agent_source": "https://vetro.example/agent.pyz#sha256=" + "0" * 64},
            None,
        )
    ],
}
#: What no setting has: the machine's own, and the texts of the release (see below).
OTHERS = {
    *("MAILBOX_TOKEN", "RABBITMQ_INPUT_QUEUE", "RESULT_QUEUE", "INTERNAL_HOSTNAME"),
    *("AGENT_CONFIG_BASE64", "MURANO_AGENT_CONF", "MURANO_AGENT_SERVICE", "MURANO_AGENT"),
}
RESOURCES = library_path() / "io.murano" / "Resources"


def use(lab: Any, directory: Path, options: dict[str, Any]) -> None:
    """Have the service run with these settings."""
    (directory / "ca.pem").write_text("PEM\n")
    given = {key: one for key, one in options.items() if key != "type"}
    if "signer" in given:
        lab.cloud.signer = PlanSigner.load_or_create(directory / given.pop("signer"))
    if "rabbitmq.ca_certs" in given:
        given["rabbitmq.ca_certs"] = str(directory / given["rabbitmq.ca_certs"])
    lab.cloud.options.update(given)


def shop(lab: Any, **properties: Any) -> Any:
    """An environment with a machine whose agent is asked at each deployment."""
    lab.add_class(APP)
    vm = lab.instance("vm", "web", **properties)
    return lab.environment(lab.application("app", "test.App", instance=vm))


def orders(lab: Any) -> list[dict[str, Any]]:
    """What agents were told, by whichever transport."""
    sent = [
        *lab.cloud.transport.plans,
        *(plan for one in lab.cloud.doors.values() for plan in one.plans),
    ]
    return [plan["Settings"] for _, plan in sent if plan.get("Action") == "Configure"]


def test_every_placeholder_of_the_user_data_is_in_the_table() -> None:
    """A new one says what its change does."""
    texts = [one.read_text() for one in RESOURCES.iterdir() if one.is_file()]
    found = {name for text in texts for name in re.findall(r"%([A-Z][A-Z0-9_]+)%", text)}
    assert found == SETTINGS.keys() | OTHERS


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("before", "change", "told"),
    [
        pytest.param(*row, id=f"{name}-{number}")
        for name, rows in SETTINGS.items()
        for number, row in enumerate(rows)
    ],
)
async def test_a_setting_that_changes_keeps_the_machine(
    lab: Any,
    tmp_path: Path,
    before: dict[str, Any],
    change: dict[str, Any],
    told: tuple[str, str, str] | None,
) -> None:
    """An unchanged deployment makes and removes nothing; the agent is told what concerns it, once."""
    machine = {"type_": before["type"]} if "type" in before else {}
    use(lab, tmp_path, {"signer": "key.pem", **before})
    model = await lab.deploy(shop(lab, **machine))
    servers = list(lab.cloud.compute.server_list)
    assert len(servers) == 1
    assert orders(lab) == []
    user_data = [one.spec.customer_metadata for one in lab.cloud.compute.server_list.values()]
    use(lab, tmp_path, change)
    lab.calls()
    for _ in range(2):
        model = await lab.deploy(model)
    assert list(lab.cloud.compute.server_list) == servers
    assert [
        one.spec.customer_metadata for one in lab.cloud.compute.server_list.values()
    ] == user_data
    assert lab.calls() == []
    if told is None:
        assert orders(lab) == []
        return
    section, option, value = told
    [said] = orders(lab)
    assert said[section][option] == value
    assert said["DEFAULT"]["engine_key"] == lab.cloud.signer.public_key()


@pytest.mark.parametrize("kind", ["LinuxMuranoInstance", "WindowsInstance", "Instance"])
async def test_a_new_release_of_the_core_library_keeps_the_machine(
    lab: Any, tmp_path: Path, kind: str
) -> None:
    """With another text of every resource that user data is made of; the next machine gets that."""
    type_ = f"io.murano.resources.{kind}"
    first = await lab.deploy(shop(lab, type_=type_))
    [server] = lab.cloud.compute.server_list
    release = tmp_path / "io.murano"
    shutil.copytree(library_path() / "io.murano", release)
    for file in (release / "Resources").iterdir():
        if file.is_file() and file.suffix not in (".template", ".conf"):
            file.write_text(file.read_text() + "\n# another release\n")

    lab.make = functools.partial(lab.runtimes.new, release)
    lab.calls()
    second = await lab.deploy(first)
    assert list(lab.cloud.compute.server_list) == [server]
    assert lab.calls() == []
    machine = second["Objects"]["applications"][0]["instance"]
    machine["image"] = "vetro-balancer"
    await lab.deploy(second)
    [other] = lab.cloud.compute.server_list.values()
    assert server not in lab.cloud.compute.server_list
    assert "# another release" in other.spec.customer_metadata["user-data"]


async def test_an_image_built_again_and_a_flavor_changed_keep_the_machine(lab: Any) -> None:
    """Names are compared: what the operator puts behind them is for machines that are made later."""
    model = await lab.deploy(shop(lab))
    [server] = lab.cloud.compute.server_list
    built = str(uuid.uuid4())
    lab.cloud.compute.images["debian"] = Image(uuid=built, name="debian")
    flavors = {**DEFAULT_FLAVORS, "m1.small": DEFAULT_FLAVORS["m1.large"]}
    before = lab.cloud.stacks
    lab.cloud.stacks = StackEngine(
        before.store, lab.cloud.compute, settings=NativeSettings(flavors=flavors)
    )
    lab.calls()
    model = await lab.deploy(model)
    assert list(lab.cloud.compute.server_list) == [server]
    assert lab.calls() == []
    model["Objects"]["applications"][0]["instance"]["keyname"] = "other"
    lab.cloud.compute.keypair_list["project", "other"] = "ssh-ed25519 AAAA other"
    await lab.deploy(model)
    [other] = lab.cloud.compute.server_list.values()
    assert (other.spec.image.uuid, other.spec.memory) == (built, flavors["m1.large"].memory)
