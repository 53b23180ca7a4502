"""Key pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vetro.stacks.errors import InvalidProperty
from vetro.stacks.resources.base import (
    Json,
    Property,
    Relation,
    ResourceContext,
    Shown,
    as_static,
    flag,
    text,
)

_LONGEST_NAME = 255


class KeyPair(Relation):
    """`OS::Nova::KeyPair`: given a public key, or made here. One that is there already is refused."""

    name = "OS::Nova::KeyPair"
    properties = {
        "name": Property(),
        "public_key": Property(),
        "save_private_key": Property("boolean"),
        "type": Property(ignored="keys are of SSH", only=("ssh",)),
        "user": Property(ignored="a key pair belongs to the project", only=("",)),
    }
    required = (("name",),)
    attributes = frozenset({"public_key", "private_key"})

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        name = as_static(properties.get("name"))
        if name is not None and not _is_name(text(name)):
            raise InvalidProperty(
                f"the property 'name' is a text of 1 to {_LONGEST_NAME} characters without '/', not"
                f" {text(name)[:60]!r}",
                resource=resource,
            )

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...]:
        return "key pair", text(properties["name"])

    def new_id(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        return text(properties["name"])

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        public = properties.get("public_key") or context.data.get("public_key")
        if not public:
            private, public = await asyncio.to_thread(_generate)
            saved: dict[str, Json] = {"public_key": public}
            if flag(properties.get("save_private_key"), False):
                saved["private_key"] = private
            await context.save(saved)
        await context.compute.create_keypair(
            context.physical_id,
            project_id=context.project_id,
            public_key=text(public),
            made_by=context.claim,
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.delete_keypair(
            context.physical_id, project_id=context.project_id, made_by=context.claim
        )

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        return {
            "public_key": properties.get("public_key") or context.data.get("public_key"),
            "private_key": context.data.get("private_key", ""),
        }


def _is_name(name: str) -> bool:
    """Whether the name can be part of an address, as the compute service has it."""
    fits = 1 <= len(name) <= _LONGEST_NAME and name.isprintable()
    return fits and "/" not in name and name not in (".", "..")


def _generate() -> tuple[str, str]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private.decode(), public.decode()
