"""Stacks on every store: memory, SQLite, PostgreSQL; templates as the class library writes them."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from vetro.stacks import MIGRATIONS, NativeSettings, StackEngine
from vetro.stacks.memory import EXTERNAL_NETWORK, MemoryCompute, MemoryStore
from vetro.stacks.state.store import DatabaseStore
from vetro.storage import Database, migrate

POSTGRES_URL = os.environ.get("VETRO_TEST_POSTGRES_URL")
PROJECT = "9f7c1b3a4a0e4c0d8a3cf4f4b7c1f111"


@pytest.fixture
def compute() -> MemoryCompute:
    """A compute service in memory."""
    return MemoryCompute()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """An empty store."""
    if request.param == "memory":
        yield MemoryStore()
        return
    url = f"sqlite:///{tmp_path}/test.db"
    name = f"s{secrets.token_hex(8)}"
    if request.param == "postgresql":
        if POSTGRES_URL is None:
            pytest.skip("VETRO_TEST_POSTGRES_URL is not set")
        async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
            await admin.execute(f"CREATE DATABASE {name}")
        url = POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    database = await Database.open(url)
    await migrate(database, [MIGRATIONS])
    yield DatabaseStore(database)
    await database.close()
    if request.param == "postgresql":
        assert POSTGRES_URL is not None
        async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def make_stacks(store: Any, compute: MemoryCompute) -> Callable[[], StackEngine]:
    """Another engine on the same store and service, as after a restart."""
    settings = NativeSettings(waiting_seconds=0.05)
    return lambda: StackEngine(store, compute, settings=settings)


@pytest.fixture
def stacks(make_stacks: Callable[[], StackEngine]) -> StackEngine:
    """The stacks under test."""
    return make_stacks()


def application_template(servers: int = 1, **server: Any) -> dict[str, Any]:
    """What an environment with one network and some Linux instances pushes."""
    resources: dict[str, Any] = {
        "router": {
            "type": "OS::Neutron::Router",
            "properties": {"external_gateway_info": {"network": "ext-net"}},
        },
        "network-1": {"type": "OS::Neutron::Net", "properties": {"name": "env-network-1"}},
        "subnet-1": {
            "type": "OS::Neutron::Subnet",
            "properties": {
                "network": {"get_resource": "network-1"},
                "ip_version": 4,
                "dns_nameservers": [None],
                "cidr": "10.0.7.0/24",
            },
        },
        "ri-1": {
            "type": "OS::Neutron::RouterInterface",
            "properties": {
                "router_id": {"get_resource": "router"},
                "subnet": {"get_resource": "subnet-1"},
            },
        },
        "group": {
            "type": "OS::Neutron::SecurityGroup",
            "properties": {
                "description": "Composite security group",
                "rules": [
                    {"protocol": "icmp", "remote_ip_prefix": "0.0.0.0/0"},
                    {
                        "port_range_min": 22,
                        "port_range_max": 22,
                        "protocol": "tcp",
                        "direction": "ingress",
                        "ethertype": "IPv4",
                        "remote_ip_prefix": "0.0.0.0/0",
                    },
                    {
                        "port_range_min": None,
                        "protocol": "tcp",
                        "direction": "ingress",
                        "remote_mode": "remote_group_id",
                    },
                ],
            },
        },
    }
    outputs: dict[str, Any] = {"network-id": {"value": {"get_resource": "network-1"}}}
    for number in range(servers):
        name = f"web.{number} x"
        resources |= {
            f"boot_config-{name}": {
                "type": "OS::Heat::CloudConfig",
                "properties": {"cloud_config": {"hostname": name}},
            },
            f"boot_script_{name}": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {"group": "ungrouped", "config": f"#!/bin/sh\necho {number}\n"},
            },
            f"user_data-{name}": {
                "type": "OS::Heat::MultipartMime",
                "properties": {
                    "parts": [
                        {"config": {"get_resource": f"boot_config-{name}"}},
                        {"config": {"get_resource": f"boot_script_{name}"}},
                    ]
                },
            },
            f"port-{name}": {
                "type": "OS::Neutron::Port",
                "properties": {
                    "network": {"get_resource": "network-1"},
                    "replacement_policy": "AUTO",
                    "fixed_ips": [{"subnet": {"get_resource": "subnet-1"}}],
                    "security_groups": [{"get_resource": "group"}],
                },
            },
            f"fip-{name}": {
                "type": "OS::Neutron::FloatingIP",
                "depends_on": ["ri-1"],
                "properties": {
                    "floating_network": EXTERNAL_NETWORK,
                    "port_id": {"get_resource": f"port-{name}"},
                },
            },
            name: {
                "type": "OS::Nova::Server",
                "properties": {
                    "name": name,
                    "flavor": "m1.tiny",
                    "image": "debian",
                    "availability_zone": "nova",
                    "key_name": None,
                    "metadata": {"role": "web"},
                    "networks": [{"port": {"get_resource": f"port-{name}"}}],
                    "user_data": {"get_resource": f"user_data-{name}"},
                    "user_data_format": "RAW",
                    **server,
                },
            },
        }
        outputs |= {
            f"{name}-id": {"value": {"get_resource": name}},
            f"addresses-{name}": {"value": {"get_attr": [name, "addresses", "env-network-1"]}},
            f"{name}-floating": {"value": {"get_attr": [f"fip-{name}", "floating_ip_address"]}},
        }
    return {"heat_template_version": "2013-05-23", "resources": resources, "outputs": outputs}


@pytest.fixture(name="application_template")
def _application_template() -> Callable[..., dict[str, Any]]:
    """Makes environment templates."""
    return application_template
