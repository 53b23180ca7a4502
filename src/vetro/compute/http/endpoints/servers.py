"""Servers: listing, changing, setup, reboot, agents, remote execution (compute-node-api.md §4, §10)."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import urlencode

import structlog

from vetro.compute.http.answers import (
    AN_OBJECT,
    ANY_JSON,
    EXECUTION,
    JOB_STARTED,
    NODE_KEY,
    RESET,
    SERVER,
    TASK_STARTED,
)
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.operations.removal import remove_server
from vetro.compute.operations.server_jobs import LAYOUTS
from vetro.compute.servers.recovery import check_recovery
from vetro.compute.servers.store import check_changes
from vetro.compute.values.faults import (
    internal_error,
    invalid_argument,
    invalid_parameters,
    not_allowed,
    precondition_failed,
    task_failed,
    unavailable,
)
from vetro.compute.values.records import Json, Record, mapping, shown, wants_capacity, without
from vetro.compute.work.node_tasks import About, NodeTaskError
from vetro.http import Reply, listed
from vetro.http.endpoint import Answer
from vetro.http.parameters import (
    ARRAY,
    BOOLEAN,
    BOOLEAN_TEXT,
    FILTER,
    INTEGER,
    NATURAL,
    NUMBER,
    OBJECT,
    STRING,
    TRIM,
    WORDS,
    FieldError,
    Param,
    as_number,
    body,
    boolean_of,
    pattern,
    query,
    words_of,
)
from vetro.json_texts import decode_json

log = structlog.get_logger(__name__)

FILTERS = ("setup", "reserved", "reservoir", "headnode")
EXECUTE_SECONDS = 3600.0


async def list_servers(call: Call) -> Json:
    """Servers by uuid: filtered, then a page of them."""
    limit, offset = int(call.get("limit") or 1000), int(call.get("offset") or 0)
    if not 1 <= (int(call.params["limit"]) if "limit" in call.params else 1000) <= 1000:
        raise invalid_parameters(
            [FieldError("limit", "limit must be in the range 1-1000 (inclusive)")], status=400
        )
    extras, fields = words_of(call.get("extras")), words_of(call.get("fields"))
    service = call.service
    if not call.is_operator:
        return await _for_user(call, limit, offset, fields)
    async with service.database.read() as tx:
        rows = await service.servers.find(
            tx,
            uuids=[one.lower() for one in words_of(call.get("uuids"))],
            hostname=call.get("hostname"),
            status=call.get("status"),
            flags={name: boolean_of(call.get(name)) for name in FILTERS if name in call.params},
            limit=limit,
            offset=offset,
        )
        records = await service.servers.records(tx, rows)
    if wants_capacity(extras, fields):
        records = await service.with_capacity(records)
    return [shown(one, extras or None, fields) for one in records]


#: The members of a server that users see where their VMs run; the rest is for operators.
USER_FIELDS = ("uuid", "status", "vms")
_OPERATORS_FILTERS = ("hostname", "status", *FILTERS)


async def _for_user(call: Call, limit: int, offset: int, fields: list[str]) -> Json:
    """The servers of the project's VMs: which they are, and these VMs."""
    for name in _OPERATORS_FILTERS:
        if name in call.params:
            raise not_allowed(f"Only operators choose servers by {name}")
    service, project = call.service, str(call.project)
    async with service.database.read() as tx:
        there = await service.servers.of_project(tx, project)
        asked = {one.lower() for one in words_of(call.get("uuids"))}
        wanted = sorted(there & asked if asked else there)
        rows = await service.servers.find(tx, uuids=wanted, limit=limit, offset=offset)
        records = await service.servers.records(tx, rows if wanted else [])
    result: list[Record] = []
    for one in records:
        mine = {k: vm for k, vm in one["vms"].items() if vm.get("owner_uuid") == project}
        whole = {"uuid": one["uuid"], "status": one["status"], "vms": mine}
        result.append({name: whole[name] for name in USER_FIELDS if name in (fields or whole)})
    return result


async def get_server(call: Call) -> Json:
    """One server with everything, capacity included."""
    if call.server is None:
        return {"uuid": "default", **await call.service.boot.default_record()}
    async with call.service.database.read() as tx:
        records = await call.service.servers.records(tx, [call.row])
    return (await call.service.with_capacity(records))[0]


async def update_server(call: Call) -> Json:
    """Change a server; a node reports its agents here."""
    values = without(call.body(), "etag_retries")
    if not call.is_operator and set(values) != {"agents"}:
        raise not_allowed("A node may report only its agents")
    check_changes(values)
    if call.server is None:
        await call.service.boot.change_default(_boot_values(values), replace=False)
        return None
    if "boot_platform" in values:
        values["boot_platform"] = await call.service.boot.platform_of(
            values["boot_platform"], "failed to find given platform image, {}"
        )
    nics = values.pop("nics", None)
    ratios = mapping(values.get("overprovision_ratios"))
    if "overprovision_ratios" in values and call.row.setup:
        try:
            params = {"value": urlencode(ratios)}
            await call.service.work.run(call.agent, "server_overprovision_ratio", params)
        except NodeTaskError as error:
            raise internal_error(str(error), error.details) from error
    if "reservation_ratio" in values:
        values["reservation_ratio"] = as_number(values["reservation_ratio"])
    await call.service.servers.change(call.server_uuid, values)
    if nics is not None:
        await call.service.jobs.create(
            "server-update-nics",
            call.server_uuid,
            {"server_uuid": call.server_uuid, "nic_action": "update", "nics": nics},
        )
    return None


def _boot_values(values: Record) -> Record:
    names = {"boot_platform": "platform", "boot_params": "kernel_args"}
    return {names.get(name, name): value for name, value in values.items()}


async def delete_server(call: Call) -> Json:
    """Forget a server; its machine is not touched and registers again if it still lives.

    As in the document, its VMs keep their records, and are its own again then. Ours: with ``force``
    given, these go, too, with its tasks and the places of its volumes. ``force`` false refuses that
    (409) for a server that is heard, or that has VMs.
    """
    if call.get("force") is None:
        await call.service.servers.forget(call.server_uuid)
    else:
        await remove_server(call.service, call.server_uuid, force=call.flag("force"))


async def reboot_server(call: Call) -> Json:
    """Reboot by a job; with ``nojob`` by one task."""
    agent = call.agent
    if call.flag("nojob"):
        if not agent.at_least(2, 11):
            raise unavailable("the server's agent cannot reboot it without a job")
        try:
            await call.service.work.run(agent, "server_reboot", {}, request_id=call.request_id)
        except NodeTaskError as error:
            raise task_failed(str(error), error.details) from error
        return Answer(204)
    return {"job_uuid": await _job(call, "server-reboot")}


async def _job(call: Call, name: str, **more: Json) -> str:
    params = {**call.body(), **more, "server_uuid": call.server_uuid, "target": call.server_uuid}
    return await call.service.jobs.create(name, call.server_uuid, params)


async def factory_reset(call: Call) -> Json:
    """Reset a server that has no VMs."""
    count = len(await call.service.machines.listing(call.server_uuid))
    if count:
        return Answer(409, f"Server may not be reset because it has {count} vms")
    return {"job_uuid": await _job(call, "server-factory-reset")}


async def setup_server(call: Call) -> Json:
    """Set a server up by a job; 204 when it is."""
    layout = call.get("disk_layout")
    if layout is not None and layout not in LAYOUTS:
        quoted = ", ".join(f"'{one}'" for one in LAYOUTS)
        raise invalid_argument(f"disk_layout must be one of: {quoted}")
    if call.row.setup:
        return Answer(204)
    params: Record = {"nic_action": "update"}
    for name in ("disk_cache", "encryption_enabled"):
        value = boolean_of(call.params.pop(name, None))
        if value is not None and (name != "disk_cache" or value is False):
            params[name] = value
    hostname = call.get("hostname")
    if hostname:
        await call.service.servers.change(call.server_uuid, {"hostname": str(hostname)[:255]})
    status = 202 if call.service.settings.compute.profile == "upstream" else 200
    return Answer(status, {"job_uuid": await _job(call, "server-setup", **params)})


async def register_sysinfo(call: Call) -> Json:
    """A node registers, or reports that it changed."""
    sysinfo = mapping(call.get("sysinfo"))
    given = sysinfo.get("UUID")
    if not isinstance(given, str) or given.lower() != call.server_uuid:
        raise invalid_argument("sysinfo UUID is not the server's")
    shared = not call.principal.user_id.startswith("node/")
    await call.service.servers.register(call.own_uuid, sysinfo, shared_key=shared)
    await call.service.copies.registered(call.server_uuid)
    await call.service.database.notify("compute/registered", call.server_uuid)
    return Answer(200, ...)


async def refresh_sysinfo(call: Call) -> Json:
    """Ask the node for its sysinfo; the record is renewed when this returns."""
    agent = call.agent
    try:
        if agent.version and not agent.at_least(2, 10):
            found = await call.service.work.run(
                agent, "command_execute", {"script": "#!/bin/sh\nsysinfo\n", "args": [], "env": {}}
            )
            info = mapping(decode_json(str(found.get("stdout") or "")))
        else:
            answer = await call.service.work.run(agent, "server_sysinfo", {})
            info = mapping(answer.get("sysinfo"))
    except (NodeTaskError, ValueError) as error:
        raise internal_error("Unable to gather latest sysinfo", {"reason": str(error)}) from error
    if not info:
        raise internal_error("Unable to gather latest sysinfo")
    await call.service.servers.register(
        call.server_uuid, info, shared_key=bool(call.row.shared_key)
    )
    return {}


async def execute(call: Call) -> Json:
    """Run a script on the node. Deprecated; every use is logged."""
    if not call.service.settings.compute.remote_execution:
        raise not_allowed("Remote execution is switched off (compute.remote_execution)")
    script = str(call.get("script"))
    digest = hashlib.sha256(script.encode()).hexdigest()
    params: Record = {
        "script": script,
        "args": call.get("args") or [],
        "env": call.get("env") or {},
        "server_uuid": call.server_uuid,
    }
    if call.get("timeout") is not None:
        params["timeout"] = as_number(call.get("timeout"))
    audit = log.bind(
        server=call.server_uuid, caller=call.principal.user_id, script_sha256=digest,
        request_id=call.request_id,
    )  # fmt: skip
    audit.warning("remote_execution_began", deprecated=True)
    result = await call.service.machines.ask(
        call.agent, "command_execute", params, seconds=EXECUTE_SECONDS,
        request_id=call.request_id, codes=(),
    )  # fmt: skip
    audit.info("remote_execution_ended", exit_code=result.get("exitCode"))
    if boolean_of(call.get("json")):
        return result
    if result.get("exitCode") == 0:
        return str(result.get("stdout") or "").strip()
    raise internal_error("Error executing on remote system", {"exitCode": result.get("exitCode")})


async def task_history(call: Call) -> Json:
    """The agent's last tasks."""
    return await _agent_call(call, "GET", "/history")


async def _agent_call(call: Call, method: str, path: str) -> object:
    try:
        return await call.service.work.agents.call(call.agent, method, path)
    except NodeTaskError as error:
        raise internal_error(str(error), error.details) from error


async def pause_agent(call: Call) -> Json:
    """The agent takes no new tasks."""
    await _agent_call(call, "POST", "/pause")


async def resume_agent(call: Call) -> Json:
    """The agent takes tasks again."""
    await _agent_call(call, "POST", "/resume")


async def start_task(call: Call, task: str, params: Record) -> Json:
    """A task of the server itself: ``{id}``."""
    about = About(request_id=call.request_id, job_uuid=call.job_uuid)
    return {"id": await call.service.work.start(call.agent, task, params, about)}


async def ensure_image(call: Call) -> Json:
    """Have an image on the node."""
    wanted = str(call.get("image_uuid") or "")
    if not wanted:
        raise invalid_parameters([FieldError("image_uuid", "value was not a string")])
    params = {**call.params}
    known = await call.service.images.find(wanted, call.project)
    if known is not None:
        params |= {"image_uuid": known.uuid, "image_sha256": known.sha256}
    return await start_task(call, "image_ensure_present", params)


async def install_agent(call: Call) -> Json:
    """Install an agent from its image."""
    return await start_task(call, "agent_install", call.params)


async def uninstall_agents(call: Call) -> Json:
    """Remove agents."""
    if not call.agent.at_least(2, 8):
        raise precondition_failed("the server's cn-agent must be at least 2.8.0 for this")
    return await start_task(call, "agents_uninstall", call.params)


async def recovery_config(call: Call) -> Json:
    """Stage or activate a recovery configuration of an encrypted pool."""
    params = check_recovery(call.params, call.agent, call.row.sysinfo)
    return await start_task(call, "recovery_config", params)


async def nop(call: Call) -> Json:
    """A task that does nothing, for ``sleep`` seconds; then fails with ``error``."""
    return await start_task(call, "nop", call.params)


async def node_key(call: Call) -> Json:
    """The key of the server's own agent; the server need not exist yet."""
    return {"server_uuid": call.own_uuid, "key": call.service.node_key(call.own_uuid)}


_CREATOR = body(STRING, "creator_uuid", "origin")
_UPDATE = (
    *body(ARRAY, "agents"),
    *body(OBJECT, "boot_params"),
    *body(TRIM, "boot_platform", "comments"),
    Param("datacenter", TRIM, aliases=("datacenter_name",)),
    *body(TRIM, "default_console", "rack_identifier", "serial", "transitional_status"),
    *body(NUMBER, "etag_retries", "reservation_ratio"),
    *body(TRIM, "next_reboot"),
    *body(ARRAY, "nics"),
    *body(OBJECT, "overprovision_ratios", "traits"),
    *body(BOOLEAN, "reserved", "reservoir", "setting_up", "setup"),
)
_UUIDS = pattern(r"[-a-z0-9]+(,[-a-z0-9]+)*", flags=2)
_OFFSET = pattern(r"\d{1,15}", schema={"type": "integer", "minimum": 0})
_LIST = (
    *query(_UUIDS, "uuids"),
    *query(FILTER, *FILTERS),
    *query(TRIM, "hostname"),
    *query(WORDS, "extras", "fields"),
    *query(INTEGER, "limit"),
    *query(_OFFSET, "offset"),
    *query(STRING, "status"),
)
_SERVER = "/servers/{server_uuid}"


def _at(name: str, verbs: str, path: str, run: Any, params: Any = (), **more: Any) -> Endpoint:
    return Endpoint(name, verbs, f"{_SERVER}{path}", run, params, **more)


ENDPOINTS = [
    Endpoint("ServerList", "GET", "/servers", list_servers, _LIST, access=Access.USER, strict=True,
             reply=listed(SERVER)),
    _at("ServerGet", "GET", "", get_server, strict=True, reply=SERVER),
    _at("ServerUpdate", "POST", "", update_server, _UPDATE, strict=True, status=204,
        access=Access.NODE),
    _at("ServerDelete", "DELETE", "", delete_server, query(BOOLEAN_TEXT, "force"), strict=True,
        status=204),
    _at("ServerReboot", "POST", "/reboot", reboot_server,
        (*_CREATOR, *body(BOOLEAN, "drain", "nojob")), running=True, strict=True, status=202,
        reply=Reply(JOB_STARTED, others={204: None})),
    _at("ServerFactoryReset", "PUT", "/factory-reset", factory_reset, _CREATOR, running=True,
        strict=True, status=202, any_accept=True, reply=RESET),
    _at("ServerSetup", "PUT", "/setup", setup_server,
        (*_CREATOR, *body(STRING, "hostname", "postsetup_script", "disk_layout", "disk_exclude"),
         *body(ARRAY, "nics"), *body(NATURAL, "disk_spares", "disk_width"),
         *body(BOOLEAN_TEXT, "disk_cache", "encryption_enabled")), running=True, strict=True,
        reply=Reply(JOB_STARTED, others={202: JOB_STARTED, 204: None})),
    _at("ServerSysinfoRegister", "POST", "/sysinfo", register_sysinfo,
        (Param("sysinfo", OBJECT, required=True),), strict=True, known=False, access=Access.NODE),
    _at("ServerSysinfoRefresh", "POST", "/sysinfo-refresh", refresh_sysinfo, running=True,
        strict=True, reply=AN_OBJECT),
    _at("CommandExecute", "POST", "/execute", execute,
        (*body(ARRAY, "args"), *body(OBJECT, "env"), *body(BOOLEAN_TEXT, "json"),
         Param("script", STRING, required=True), *body(NUMBER, "timeout")), running=True,
        deprecated=True, any_accept=True, reply=EXECUTION),
    _at("ServerTaskHistory", "GET", "/task-history", task_history, strict=True, reply=ANY_JSON),
    _at("ServerPauseCnAgent", "POST GET", "/cn-agent/pause", pause_agent, running=True, status=204),
    _at("ServerResumeCnAgent", "POST GET", "/cn-agent/resume", resume_agent, running=True,
        status=204),
    _at("ServerEnsureImage", "POST GET", "/ensure-image", ensure_image,
        (*body(STRING, "image_uuid", "zfs_storage_pool_name"), *body(ARRAY, "imgapiPeers")),
        running=True, strict=True, reply=TASK_STARTED),
    _at("ServerInstallAgent", "POST", "/install-agent", install_agent,
        body(STRING, "image_uuid", "package_name", "package_file"), running=True,
        reply=TASK_STARTED),
    _at("ServerUninstallAgents", "POST", "/uninstall-agents", uninstall_agents,
        (Param("agents", ARRAY, required=True),), running=True, errors=(412,), reply=TASK_STARTED),
    _at("ServerRecoveryConfig", "POST", "/recovery-config", recovery_config,
        body(STRING, "action", "recovery_uuid", "pivtoken", "template", "token"), running=True,
        errors=(412,), reply=TASK_STARTED),
    _at("DoNop", "POST", "/nop", nop, (*body(NUMBER, "sleep"), *body(STRING, "error")),
        running=True, reply=TASK_STARTED),
    _at("NodeKey", "GET", "/key", node_key, known=False, reply=NODE_KEY),
]  # fmt: skip

__all__ = ["ENDPOINTS", "start_task"]
