"""Constraints of parameters beyond their types: modulo, and the custom ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.stacks.conftest import PROJECT

from vetro.compute.client import NETWORKS
from vetro.compute.wire import NewNetwork
from vetro.stacks import StackEngine, TemplateError
from vetro.stacks.memory import EXTERNAL_NETWORK, MemoryCompute
from vetro.stacks.template.templates import parse

NESTED: dict[str, Any] = {"heat_template_version": "2013-05-23", "resources": {}}


def template(constraint: str, type_: str = "string", **more: Any) -> dict[str, Any]:
    """A template with one parameter that has a custom constraint."""
    declared = {"type": type_, "constraints": [{"custom_constraint": constraint}], **more}
    return {**NESTED, "parameters": {"p": declared}}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("ip_addr", "fe80::1", "10.0.0"),
        ("net_cidr", "10.0.0.0/24", "10.0.0.1"),
        ("ip_or_cidr", "10.0.0.1", "10.0.0.1/40"),
        ("mac_addr", "52:54:00:12:34:56", "52:54:00:12:34"),
        ("dns_name", "www.example.org", "-x.example"),
        ("rel_dns_name", "www", "a b"),
        ("dns_domain", "example.org.", "example.org"),
        ("timezone", "Europe/Vienna", "Europe"),
        ("expiration", "2030-01-31T12:00:00", "tomorrow"),
        ("cron_expression", "*/5 4 * * mon-fri", "now and then"),
    ],
)
def test_a_value_is_what_its_constraint_says(kind: str, good: str, bad: str) -> None:
    """Each kind that needs no cloud; an empty text is not a value; of a list every member counts."""
    for given in (good, ""):
        assert parse(template(kind), parameters={"p": given}).constraints == ()
    with pytest.raises(TemplateError, match="parameter 'p' is .*: it must be an? "):
        parse(template(kind), parameters={"p": bad})
    with pytest.raises(TemplateError, match="parameter 'p'"):
        parse(template(kind, "comma_delimited_list"), parameters={"p": [good, bad]})


def test_a_number_is_in_its_steps() -> None:
    """`modulo` is a constraint like the others; without a step it is none."""
    declared: dict[str, Any] = {
        "type": "number",
        "constraints": [{"modulo": {"step": 4, "offset": 1}}],
    }
    parse({**NESTED, "parameters": {"p": declared}}, parameters={"p": "9"})
    with pytest.raises(TemplateError, match="divided by 4 it must leave 1"):
        parse({**NESTED, "parameters": {"p": declared}}, parameters={"p": 8})
    declared["constraints"] = [{"modulo": {"step": 0, "offset": 1}}]
    with pytest.raises(TemplateError, match="needs a step"):
        parse({**NESTED, "parameters": {"p": declared}}, parameters={"p": 8})


@pytest.mark.parametrize(
    ("kind", "good", "said"),
    [
        ("nova.flavor", "m1.small", "There is no flavor 'absent'"),
        ("glance.image", "debian", "There is no image"),
        ("nova.keypair", "mine", "there is no keypair"),
        ("neutron.network", EXTERNAL_NETWORK, "there is no network"),
        ("neutron.network", "home", "there is no network"),
        ("neutron.security_group", None, "there is no security_group"),
        ("cinder.volume", None, "there is no volume"),
        ("nova.server", None, "there is no server"),
        ("keystone.user", None, "there is no custom constraint 'keystone.user' here"),
    ],
)
async def test_what_a_parameter_names_has_to_be_there(
    stacks: StackEngine, compute: MemoryCompute, kind: str, good: str | None, said: str
) -> None:
    """A stack is refused, created or changed or planned, before anything of it is made."""
    await compute.create_keypair("mine", project_id=PROJECT, public_key="ssh-ed25519 x")
    await compute.create(NETWORKS, NewNetwork(name="home", project_id=PROJECT))
    if good is not None:
        await stacks.create(PROJECT, "env", template(kind), parameters={"p": good})
    for call in (stacks.plan, stacks.create) if good is None else (stacks.plan, stacks.update):
        with pytest.raises(TemplateError, match="The parameter 'p' is 'absent'") as caught:
            await call(PROJECT, "env", template(kind), parameters={"p": "absent"})
        assert said in str(caught.value)
    assert (await stacks.get(PROJECT, "env") is None) == (good is None)


async def test_the_authors_words_come_first(stacks: StackEngine) -> None:
    """`description` of a constraint is what its violation says; nested templates have theirs, too."""
    declared = {"custom_constraint": "nova.flavor", "description": "choose a size"}
    given = {**NESTED, "parameters": {"p": {"type": "string", "constraints": [declared]}}}
    outer = {**NESTED, "resources": {"in": {"type": "inner.yaml", "properties": {"p": "absent"}}}}
    with pytest.raises(TemplateError, match="'absent': choose a size"):
        await stacks.create(PROJECT, "env", given, parameters={"p": "absent"})
    with pytest.raises(TemplateError, match="'absent': choose a size"):
        await stacks.create(PROJECT, "env", outer, files={"inner.yaml": json.dumps(given)})
