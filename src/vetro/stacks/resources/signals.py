"""Wait conditions: a resource is there when guests have said so, over an address of its handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from vetro.stacks.doors import SIGNALS, Signal, Signals
from vetro.stacks.errors import InvalidProperty, ResourceFailure
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    Shown,
    StackOnly,
    as_static,
    text,
)

LONGEST_SECONDS = 43_200
_REASONS = 5


class WaitConditionHandle(ResourceType):
    """`OS::Heat::WaitConditionHandle`: the address. `curl_cli` is the command that signals to it."""

    name = "OS::Heat::WaitConditionHandle"
    needs = SIGNALS
    properties = {
        "signal_transport": Property(
            ignored="a handle has one signed address",
            allowed=(
                "CFN_SIGNAL",
                "TEMP_URL_SIGNAL",
                "HEAT_SIGNAL",
                "TOKEN_SIGNAL",
                "ZAQAR_SIGNAL",
            ),
        ),
    }
    attributes = frozenset({"curl_cli", "endpoint", "token", "signal"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        address = await _signals(context).open(context.physical_id, context.project_id)
        await context.save({"address": address})

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await _signals(context).close(context.physical_id)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        address = text(context.data.get("address"))
        shown: dict[str, Json] = {
            "endpoint": address,
            # The address is the credential: commands that send a token as well may send anything.
            "token": address.partition("signature=")[2],
            "curl_cli": "curl -i -X POST -H 'Content-Type: application/json'"
            f" -H 'Accept: application/json' '{address}'",
        }
        signal = {"endpoint": address, "token": shown["token"]}
        shown["signal"] = msgspec.json.encode(signal).decode()
        return shown


class AwsWaitConditionHandle(WaitConditionHandle):
    """`AWS::CloudFormation::WaitConditionHandle`: `Ref` is the address."""

    name = "AWS::CloudFormation::WaitConditionHandle"
    properties = {}
    attributes = frozenset()

    def reference(self, physical_id: str, data: Mapping[str, Json]) -> Json:
        return text(data.get("address"), physical_id)


class WaitCondition(StackOnly):
    """`OS::Heat::WaitCondition`: waits for `count` successes; a failure or the time-out fails it."""

    name = "OS::Heat::WaitCondition"
    needs = SIGNALS
    waits = True
    keys = ("handle", "timeout", "count")
    properties = {
        "handle": Property(update=True),
        "timeout": Property("integer", update=True),
        "count": Property("integer", update=True),
    }
    required = (("handle",), ("timeout",))
    attributes = frozenset({"data"})

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        _, timeout, count = self.keys
        for key, least, most in ((timeout, 1, LONGEST_SECONDS), (count, 1, 1_000)):
            value = as_static(properties.get(key))
            if value is not None and not least <= int(value) <= most:
                raise InvalidProperty(
                    f"the property {key!r} is from {least} to {most}, not {value}",
                    resource=resource,
                )

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await self._wait(context, properties)

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await self._wait(context, properties)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        handle = _handle(text(properties[self.keys[0]]))
        if not _is_own(context, handle):
            return None
        received = await _signals(context).received(handle)
        data = {one.id: one.data for one in received if one.status == "SUCCESS"}
        return dict.fromkeys(self.attributes, msgspec.json.encode(data).decode())

    async def _wait(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        handle_key, timeout_key, count_key = self.keys
        handle = _handle(text(properties[handle_key]))
        if not _is_own(context, handle):
            raise ResourceFailure(
                f"{handle[:64]!r} is not a valid wait condition handle: name one of this stack's"
                f" resources of the type {WaitConditionHandle.name} with get_resource"
            )
        count = int(properties.get(count_key) or 1)
        seconds = int(properties[timeout_key])
        signals = _signals(context)

        def enough(received: Sequence[Signal]) -> bool:
            succeeded = _of(received, "SUCCESS")
            context.say(f"signals: {len(succeeded)} of {count} have come")
            return len(succeeded) >= count or bool(_of(received, "FAILURE"))

        received = await signals.wait(handle, enough, seconds)
        failures, succeeded = _of(received, "FAILURE"), _of(received, "SUCCESS")
        if failures:
            # They were reported now: the next deployment waits for new signals.
            await signals.forget_failures(handle)
            reasons = "; ".join(one.reason or "no reason given" for one in failures[:_REASONS])
            raise ResourceFailure(f"WaitConditionFailure: a guest has signalled: {reasons}")
        if len(succeeded) < count:
            raise ResourceFailure(
                f"WaitConditionTimeout: {len(succeeded)} of {count} signals have come within"
                f" {seconds} s; look into the log of the machine that should have sent them"
            )


class AwsWaitCondition(WaitCondition):
    """`AWS::CloudFormation::WaitCondition`."""

    name = "AWS::CloudFormation::WaitCondition"
    keys = ("Handle", "Timeout", "Count")
    properties = {
        "Handle": Property(update=True),
        "Timeout": Property("integer", update=True),
        "Count": Property("integer", update=True),
    }
    required = (("Handle",), ("Timeout",))
    attributes = frozenset({"Data"})


def _signals(context: ResourceContext) -> Signals:
    """The door for signals: `needs` has made sure that there is one."""
    return cast("Signals", context.doors.signals)


def _handle(reference: str) -> str:
    """The handle that a reference names: its id, or its address as CFN's `Ref` gives it."""
    return reference.partition("?")[0].rpartition("/")[2]


def _is_own(context: ResourceContext, handle: str) -> bool:
    """Whether the handle is the stack's: whoever knows another's name may not hear what it was told."""
    return not context.own(handle).isdisjoint(
        {WaitConditionHandle.name, AwsWaitConditionHandle.name}
    )


def _of(received: Sequence[Signal], status: str) -> list[Signal]:
    return [one for one in received if one.status == status]
