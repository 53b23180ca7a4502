"""All resource types by name."""

from __future__ import annotations

import difflib

from vetro.stacks.errors import UnsupportedResource
from vetro.stacks.resources import (
    addresses,
    balancers,
    configs,
    deployments,
    groups,
    keypairs,
    networks,
    ports,
    security_groups,
    servers,
    signals,
    values,
    volumes,
)
from vetro.stacks.resources.base import ResourceType

TYPES: dict[str, ResourceType] = {
    one.name: one
    for one in (
        networks.Net(),
        networks.Subnet(),
        networks.Router(),
        networks.RouterInterface(),
        ports.Port(),
        addresses.FloatingIP(),
        addresses.FloatingIPAssociation(),
        addresses.NovaFloatingIP(),
        addresses.NovaFloatingIPAssociation(),
        security_groups.SecurityGroup(),
        security_groups.AwsSecurityGroup(),
        keypairs.KeyPair(),
        servers.Server(),
        servers.AwsInstance(),
        configs.CloudConfig(),
        configs.SoftwareConfig(),
        configs.MultipartMime(),
        deployments.StructuredConfig(),
        deployments.SoftwareDeployment(),
        deployments.StructuredDeployment(),
        groups.ServerGroup(),
        signals.WaitConditionHandle(),
        signals.WaitCondition(),
        signals.AwsWaitConditionHandle(),
        signals.AwsWaitCondition(),
        values.RandomString(),
        values.Value(),
        balancers.HealthMonitor(),
        balancers.Pool(),
        balancers.PoolMember(),
        balancers.LoadBalancer(),
        balancers.Balancing(),
        volumes.Volume(),
        volumes.VolumeAttachment(),
    )
}

_REFUSED = {
    "AWS::ElasticLoadBalancing::LoadBalancer": (
        "this back end has Neutron's load balancers (OS::Neutron::Pool, OS::Neutron::LoadBalancer)"
    ),
}
"""Types that packages in the wild use, and why they are not served."""


def resource_type(name: str, resource: str) -> ResourceType:
    """The type called `name`. Raises `UnsupportedResource` naming the resource."""
    found = TYPES.get(name)
    if found is None:
        if name in _REFUSED:
            reason = _REFUSED[name]
            raise UnsupportedResource(
                f"the type {name} is not supported: {reason}", resource=resource
            )
        near = difflib.get_close_matches(name, TYPES, n=1, cutoff=0.8)
        hint = f"did you mean {near[0]}?" if near else "this back end has no such resources"
        raise UnsupportedResource(f"the type {name} is not supported; {hint}", resource=resource)
    return found
