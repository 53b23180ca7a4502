"""Key pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    Shown,
    flag,
    text,
)


class KeyPair(ResourceType):
    """`OS::Nova::KeyPair`: given a public key, or made here."""

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
    delete_first = True

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
            context.physical_id, project_id=context.project_id, public_key=text(public)
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.delete_keypair(context.physical_id, project_id=context.project_id)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        return {
            "public_key": properties.get("public_key") or context.data.get("public_key"),
            "private_key": context.data.get("private_key", ""),
        }


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
