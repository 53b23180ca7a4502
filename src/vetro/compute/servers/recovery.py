"""Recovery configurations of encrypted pools: what must hold before the agent is sent one (§4.2)."""

from __future__ import annotations

import uuid as uuids

from vetro.compute.servers.store import Agent
from vetro.compute.values.faults import precondition_failed
from vetro.compute.values.records import Json, Record, mapping

ACTIONS = ("stage", "activate")


def uuid_of_recovery(text: Json) -> str:
    """The uuid of a recovery's hex string; '' for what is none."""
    try:
        digits = bytearray(bytes.fromhex(text if isinstance(text, str) else "")[:16])
    except ValueError:
        return ""
    if len(digits) < 16:
        return ""
    digits[6] = (digits[6] & 0x0F) | 0x50
    digits[8] = (digits[8] & 0x3F) | 0xA0
    return str(uuids.UUID(bytes=bytes(digits)))


def check_recovery(params: Record, agent: Agent, sysinfo: Record) -> Record:
    """The parameters the agent gets. Errors: 412."""
    action = params.get("action")
    needed = [params.get(name) for name in ("recovery_uuid", "pivtoken", "action")]
    if not all(needed):
        raise precondition_failed(
            '"recovery_uuid", "pivtoken" and "action" params must be provided'
        )
    if action not in ACTIONS:
        raise precondition_failed('"action" must be one of: stage, activate')
    if action == "stage" and not (params.get("template") and params.get("token")):
        raise precondition_failed('"template" and "token" params must be provided to stage')
    if not agent.at_least(2, 13):
        raise precondition_failed("the server's cn-agent must be at least 2.13.0 for this")
    if sysinfo.get("Zpool Encrypted") is not True:
        raise precondition_failed("the server's pool is not encrypted")
    recovery = mapping(sysinfo.get("Zpool Recovery"))
    wanted = str(params["recovery_uuid"]).lower()
    if action == "activate":
        if uuid_of_recovery(recovery.get("active")) == wanted:
            raise precondition_failed(f"recovery configuration {wanted} is already active")
        if uuid_of_recovery(recovery.get("staged")) != wanted:
            raise precondition_failed(f"recovery configuration {wanted} is not staged")
    names = ("action", "recovery_uuid", "pivtoken", "template", "token")
    return {name: params[name] for name in names if params.get(name) is not None}
