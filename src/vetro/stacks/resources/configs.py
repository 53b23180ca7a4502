"""Software configurations: texts that become user data. They live in the stack's rows only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import msgspec

from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    Shown,
    StackOnly,
    entries,
    items,
    text,
)


class _Config(StackOnly):
    attributes = frozenset({"config"})

    async def render(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        raise NotImplementedError

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        more = {
            key: properties[key]
            for key in ("group", "inputs", "outputs", "options")
            if key in properties
        }
        await context.save({**more, "config": await self.render(context, properties)})

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        return {"id": context.physical_id, "config": context.data.get("config")}


class CloudConfig(_Config):
    """`OS::Heat::CloudConfig`: a map, written as `#cloud-config` in JSON (which is YAML too)."""

    name = "OS::Heat::CloudConfig"
    properties = {"cloud_config": Property("any")}

    async def render(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        config: Json = properties.get("cloud_config") or {}
        if isinstance(config, str):
            return config if config.startswith("#cloud-config") else "#cloud-config\n" + config
        return "#cloud-config\n" + msgspec.json.encode(config).decode()


class SoftwareConfig(_Config):
    """`OS::Heat::SoftwareConfig`: a text."""

    name = "OS::Heat::SoftwareConfig"
    properties = {
        "group": Property(),
        "config": Property(),
        "inputs": Property("list"),
        "outputs": Property("list"),
        "options": Property("map"),
    }

    async def render(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        return text(properties.get("config"))


class MultipartMime(_Config):
    """`OS::Heat::MultipartMime`: several configurations in one MIME text."""

    name = "OS::Heat::MultipartMime"
    properties = {"parts": Property("list"), "group": Property(ignored="it is always mime")}

    async def render(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        # A fixed boundary: the same parts must give the same text, or redeploying would replace
        # the server. It is made of this resource's id, which no part can know beforehand.
        message = MIMEMultipart(boundary=f"=={context.physical_id}==")
        for number, one in enumerate(items(properties.get("parts"))):
            part = entries(one)
            given = text(part.get("config"))
            body = await context.config_text(given)
            filename = text(part.get("filename"), f"part-{number + 1}")
            message.attach(_part(body, filename, text(part.get("subtype"))))
        return message.as_string()


def with_authorized_key(user_data: str, key: str, boundary: str) -> str:
    """User data that also lets the owner of `key` log in."""
    return with_config(user_data, {"ssh_authorized_keys": [key]}, "authorized-keys", boundary)


def with_config(user_data: str, added: Mapping[str, Json], name: str, boundary: str) -> str:
    """User data with one more `#cloud-config`, which is called `name`."""
    config = "#cloud-config\n" + msgspec.json.encode(added).decode()
    if not user_data:
        return config
    if _is_mime(user_data):
        message: Message = message_from_string(user_data)
    else:
        message = MIMEMultipart(boundary=f"=={boundary}==")
        message.attach(_part(user_data, "user-data"))
    message.attach(_part(config, name))
    return message.as_string()


def rewritten(user_data: str, change: Callable[[str], str]) -> str:
    """User data with its texts changed, also those that MIME encodes because they are not ASCII."""
    encoded = "content-transfer-encoding: base64" in user_data.lower()
    if not encoded or not _is_mime(user_data):
        return change(user_data)
    message: Message = message_from_string(user_data)
    for part in message.walk():
        if part.is_multipart():
            continue
        charset = part.get_content_charset("utf-8")
        payload = part.get_payload(decode=True)
        before = payload.decode(charset, "replace") if isinstance(payload, bytes) else ""
        after = change(before)
        if after != before:
            del part["Content-Transfer-Encoding"]
            part.set_payload(after, charset)
    return message.as_string()


def _is_mime(user_data: str) -> bool:
    return user_data.lower().startswith(("content-type: multipart/", "mime-version:"))


def _part(body: str, filename: str, subtype: str = "") -> MIMEText:
    charset = "us-ascii" if body.isascii() else "utf-8"
    mime = MIMEText(body, subtype or _subtype(body), charset)
    mime.add_header("Content-Disposition", "attachment", filename=filename)
    return mime


def _subtype(body: str) -> str:
    if body.startswith("#!"):
        return "x-shellscript"
    if body.startswith("#cloud-config"):
        return "cloud-config"
    return "plain"
