"""Virtual machines: creation and life cycle, snapshots, images, docker (compute-node-api.md §8)."""

from __future__ import annotations

import base64
import binascii
import functools
from datetime import UTC
from typing import Any, cast

from litestar import Response

from vetro.compute.http.answers import (
    AN_OBJECT,
    ANY_JSON,
    INCARNATION,
    SCREEN,
    SCREENSHOT,
    TASK_STARTED,
    VM,
    VM_LEAVES,
)
from vetro.compute.http.endpoint import Access, Call, Endpoint, Run
from vetro.compute.http.endpoints.servers import start_task
from vetro.compute.networks.ownership import Reference, check_references, each
from vetro.compute.tables import ports
from vetro.compute.values.faults import internal_error, invalid_parameters, not_allowed, not_found
from vetro.compute.values.records import Json, Record, mapping, without
from vetro.compute.values.silence import is_silent
from vetro.compute.wire import HVM_BRANDS
from vetro.compute.work.node_tasks import About
from vetro.digits import is_number
from vetro.http import Fault, base_url, listed
from vetro.http.parameters import (
    BOOLEAN_TEXT,
    NUMBER_OR_STRING,
    OBJECT,
    STRING,
    TRIM,
    FieldError,
    Param,
    Problem,
    Rule,
    body,
    query,
    words_of,
)
from vetro.json_texts import NotJson, decode_json

DOCKER_CODES = (
    "VmNotFound",
    "FileNotFound",
    "PathNotDirectory",
    "VmNotRunning",
    "DockerCopyStoppedContainerNoPlatformSupport",
)
#: The oldest nodes need the gateway of the primary NIC as a property of the VM (§8).
OLD_NODES = (7, 0)


async def about_of(call: Call) -> About:
    """The call's request and job, and the turn of the ticket that it names. Errors: 404, 409."""
    ticket = call.params.pop("ticket", None)
    fence = await call.service.tickets.fence_of(str(ticket)) if ticket else None
    return About(request_id=call.request_id, fence=fence, job_uuid=call.job_uuid)


async def list_vms(call: Call) -> Json:
    """The VMs of a server."""
    if call.server is None:
        return []
    return await call.service.machines.listing(call.server_uuid)


async def create_vm(call: Call) -> Json:
    """Make a VM. Its image must be named; ``image`` its manifest, unless the service has it."""
    about = await about_of(call)
    payload = without(call.params, "server_uuid")
    await _check_project(call, payload)
    payload |= await _image_of(call, payload)
    if _version(call.row.sysinfo.get("SDC Version")) < OLD_NODES:
        for nic in _objects(payload.get("nics")):
            if nic.get("primary") and nic.get("gateway"):
                payload["default_gateway"] = nic["gateway"]
    return await call.service.machines.create(call.agent, payload, about)


async def _check_project(call: Call, payload: Record) -> None:
    """Who acts for a project makes its VMs, on its ports. Errors: 403, 404."""
    if call.project is None:
        return
    if payload.get("owner_uuid") != call.project:
        raise not_allowed("The VM's owner_uuid is not the project of the call")
    named = Reference("ports", ports, "port", each)
    await check_references(call.service.fabric, (named,), payload, call.project, "")


def _version(value: Json) -> tuple[int, ...]:
    """A dotted version; what is none counts as new."""
    parts = str(value or "").split(".")
    return tuple(int(part) for part in parts[:2]) if all(is_number(p) for p in parts[:2]) else (99,)


def _objects(value: Json) -> list[Record]:
    return [mapping(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


async def _image_of(call: Call, payload: Record) -> Record:
    """The part of the payload that describes the VM's image. Errors: 500 InvalidParameters."""
    if payload.get("brand") in HVM_BRANDS:
        disks = _objects(payload.get("disks"))
        wanted = disks[0].get("image_uuid") if disks else payload.get("image_uuid")
    else:
        wanted = payload.get("image_uuid")
    if not isinstance(wanted, str) or not wanted:
        raise invalid_parameters([FieldError("image_uuid", "value was not a string")])
    known = await call.service.images.find(wanted, call.project)
    given = payload.get("image")
    if given is None:
        if known is None:
            raise invalid_parameters([FieldError("image", f"image {wanted} is not known here")])
        return {"image_sha256": known.sha256} if known.sha256 else {}
    files = _objects(mapping(given).get("files"))
    if not isinstance(given, dict) or not files:
        raise invalid_parameters([FieldError("image.files", "value was not a non-empty array")])
    base = call.service.settings.images_url or base_url(call.request)
    added: Record = {
        "dataset_url": f"{base}/images/{wanted}/file",
        "dataset_url_compression": files[0].get("compression"),
    }
    origin = mapping(given).get("origin")
    if origin:
        found = await call.service.images.find(str(origin), call.project)
        if found is None:
            raise internal_error(f"the origin {origin} of image {wanted} is not known")
        manifest = call.service.images.view(found)
        origin_files = _objects(manifest.get("files"))
        added |= {
            "dataset_origin_uuid": found.uuid,
            "origin": manifest,
            "dataset_origin_url": f"{base}/images/{found.uuid}/file",
            "dataset_origin_url_compression": (
                origin_files[0].get("compression") if origin_files else None
            ),
        }
    return added


async def update_nics(call: Call) -> Json:
    """Change gateway, resolvers and routes of the VMs of a network."""
    if not call.row.sysinfo.get("SDC Version"):
        raise Fault("Unsupported compute node version", status=400, type_="InvalidVersion")
    return await start_task(call, "machine_update_nics", call.params)


async def load_vm(call: Call) -> Json:
    """A VM as its node sees it now; its owner may look.

    Asked for on any server: also while its server is silent. It is ``unknown`` then, and ``missing`` when
    that server was given up.
    """
    if is_silent(call.server):
        return await call.service.machines.unheard(call.vm_uuid, call.server)
    hidden = call.get("include_dni") == "true"
    try:
        found = await call.service.machines.load(
            call.agent, call.vm_uuid, include_dni=hidden, request_id=call.request_id
        )
    except Fault as fault:
        row = await call.service.machines.find(call.vm_uuid, call.server_uuid)
        is_hidden = row is None or row.vm.get("do_not_inventory")
        if fault.status != 404 or not call.on_any_server or is_hidden:
            raise
        return await call.service.machines.not_there(call.vm_uuid, call.row)
    if call.project is not None and found.get("owner_uuid") != call.project:
        raise not_found(f"VM {call.vm_uuid} not found")
    return found


async def list_incarnations(call: Call) -> Json:
    """Which root disk each VM of a project has: another value when it was made anew. Ours."""
    return await call.service.machines.incarnations(call.owner_of("VMs"))


async def processes(call: Call) -> Json:
    """The VM's processes by pid."""
    return await _ask(call, "machine_proc", {}, 20)


async def info(call: Call) -> Json:
    """What the hypervisor knows of a VM."""
    types = words_of(call.get("info")) or ["all"]
    return _object_of(await _ask(call, "machine_info", {"types": types}, 10))


async def vnc(call: Call) -> Json:
    """Where the VM's console listens."""
    answer = _object_of(await _ask(call, "machine_info", {"types": ["vnc"]}, 10))
    found = mapping(answer.get("vnc")) or answer
    return {"host": found.get("host"), "port": found.get("port")}


async def screenshot(call: Call) -> Json:
    """A picture of a virtual machine's screen (PNG). Ours."""
    answer = mapping(await _ask(call, "machine_screenshot", {}, 30, ("VmNotFound", "VmNotRunning")))
    try:
        picture = base64.b64decode(str(answer.get("image") or ""), validate=True)
    except binascii.Error:
        picture = b""
    if not picture:
        raise internal_error(f"The node of VM {call.vm_uuid} sent no screenshot")
    return Response(picture, media_type="image/png", headers={"Cache-Control": "no-store"})


def _object_of(answer: Json) -> Record:
    """An agent's answer that may be an object or its JSON text."""
    value = mapping(answer).get("result", answer)
    if isinstance(value, str):
        try:
            return mapping(decode_json(value))
        except NotJson:
            return {}
    return mapping(value)


async def _ask(
    call: Call, task: str, params: Record, seconds: float, codes: Any = ("VmNotFound",)
) -> Json:
    merged = {**call.params, **params, "uuid": call.vm_uuid, "server_uuid": call.server_uuid}
    return await call.service.machines.ask(
        call.agent, task, merged, seconds=seconds, request_id=call.request_id, codes=codes
    )


async def _act(call: Call, task: str, params: Record | None = None) -> Json:
    about = await about_of(call)
    given = {k: v for k, v in call.params.items() if k not in ("server_uuid", "uuid")}
    given |= params or {}
    return await call.service.machines.act(call.agent, call.vm_uuid, task, given, about)


def _action(task: str, doc: str) -> Run:
    async def run(call: Call) -> Json:
        return await _act(call, task)

    run.__doc__ = doc
    return run


def _with_update(task: str, what: str, doc: str) -> Run:
    """Start and reboot: ``update`` may hold set_internal_metadata only."""

    async def run(call: Call) -> Json:
        given = mapping(call.get("update"))
        if set(given) - {"set_internal_metadata"}:
            raise Fault(
                f"Vm.{what} update param only allows set_internal_metadata",
                status=500,
                type_="InvalidArgument",
            )
        return await _act(call, task)

    run.__doc__ = doc
    return run


async def destroy_vm(call: Call) -> Json:
    """Destroy a VM and its disk. On a server that was given up only its record goes, without a task."""
    if is_silent(call.server):
        return await call.service.machines.destroy_unheard(call.vm_uuid, call.server)
    about = await about_of(call)
    given = {k: v for k, v in call.params.items() if k not in ("server_uuid", "uuid")}
    return await call.service.machines.destroy(call.agent, call.vm_uuid, given, about)


async def create_snapshot(call: Call) -> Json:
    """Keep the VM's state under a name; by default the time."""
    name = call.get("snapshot_name")
    if not name:
        now = call.service.database.clock.now().astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        found = await call.service.machines.find(call.vm_uuid, call.server_uuid)
        taken: set[object] = set()
        if found is not None:
            taken = {one.get("name") for one in _objects(found.vm.get("snapshots"))}
        name, number = now, 1
        while name in taken:
            number += 1
            name = f"{now}-{number}"
    return await _act(call, "machine_create_snapshot", {"snapshot_name": name})


async def create_image(call: Call) -> Json:
    """Make an image of a stopped VM."""
    manifest = mapping(call.get("manifest"))
    missing = [name for name in ("uuid", "owner", "name", "version") if not manifest.get(name)]
    if missing:
        raise invalid_parameters([FieldError("manifest", f"must have {', '.join(missing)}")])
    return await _act(call, "machine_create_image")


def _docker(task: str, seconds: float, doc: str) -> Run:
    async def run(call: Call) -> Json:
        answer = await _ask(call, task, {}, seconds, DOCKER_CODES)
        if answer.get("host") and answer.get("port") and not answer.get("address"):
            answer = {**answer, "address": f"{answer['host']}:{answer['port']}"}
        return answer

    run.__doc__ = doc
    return run


async def get_image(call: Call) -> Json:
    """The manifest of an image on the node."""
    uuid = str(call.get("uuid"))
    return await call.service.machines.ask(
        call.agent, "image_get", {"uuid": uuid, "server_uuid": call.server_uuid}, seconds=60,
        request_id=call.request_id, codes=("ImageNotInstalled",),
    )  # fmt: skip


def _task_object(name: str, value: Json) -> list[Problem]:
    """migrationTask: an object with a text ``action`` and an object ``record``."""
    if not isinstance(value, dict):
        return list(OBJECT.check(name, value))
    given = mapping(value)
    errors = STRING.check(name, given.get("action", ...))
    return [*errors, *OBJECT.check(name, given.get("record", {}))]


_MIGRATION = Rule("migration task", _task_object, {"type": "object"})
_IDEMPOTENT = (*body(BOOLEAN_TEXT, "idempotent", "force"), Param("timeout"))
_SERVER = "/servers/{server_uuid}"
_VM = f"{_SERVER}/vms/{{uuid}}"
_vm = functools.partial(Endpoint, running=True, reply=TASK_STARTED)

ENDPOINTS = [
    Endpoint("VmList", "GET", f"{_SERVER}/vms", list_vms, reply=listed(VM)),
    _vm("VmCreate", "POST", f"{_SERVER}/vms", create_vm,
        (*body(STRING, "uuid", "jobid", "image_uuid", "brand", "owner_uuid", "alias"),
         *body(OBJECT, "image")), errors=(422,)),
    _vm("VmNicsUpdate", "POST", f"{_SERVER}/vms/nics/update", update_nics,
        (Param("networks"), Param("original_network"))),
    _vm("VmLoad", "GET", _VM, load_vm, query(STRING, "include_dni"), access=Access.USER, unheard=True,
        reply=VM),
    Endpoint("VmIncarnations", "GET", "/incarnations", list_incarnations,
             query(STRING, "project_id"), access=Access.USER, reply=listed(INCARNATION)),
    _vm("VmProc", "GET", f"{_VM}/proc", processes, reply=ANY_JSON),
    _vm("VmInfo", "GET", f"{_VM}/info", info, query(STRING, "info"), reply=AN_OBJECT),
    _vm("VmVnc", "GET", f"{_VM}/vnc", vnc, reply=SCREEN),
    _vm("VmScreenshot", "GET", f"{_VM}/screenshot", screenshot, any_accept=True, reply=SCREENSHOT),
    _vm("VmUpdate", "POST", f"{_VM}/update", _action("machine_update", "Change a VM."),
        errors=(422,)),
    _vm("VmStart", "POST", f"{_VM}/start", _with_update("machine_boot", "start", "Start a VM."),
        (*body(BOOLEAN_TEXT, "idempotent"), *body(OBJECT, "update"))),
    _vm("VmStop", "POST", f"{_VM}/stop", _action("machine_shutdown", "Stop a VM."), _IDEMPOTENT),
    _vm("VmKill", "POST", f"{_VM}/kill", _action("machine_kill", "Signal a VM."),
        (*body(NUMBER_OR_STRING, "signal"), *body(BOOLEAN_TEXT, "idempotent"))),
    _vm("VmReboot", "POST", f"{_VM}/reboot",
        _with_update("machine_reboot", "reboot", "Reboot a VM."),
        (*_IDEMPOTENT, *body(OBJECT, "update"))),
    _vm("VmReprovision", "POST", f"{_VM}/reprovision",
        _action("machine_reprovision", "Replace a VM's root file system."),
        (Param("image_uuid", TRIM, required=True),)),
    _vm("VmDestroy", "DELETE", _VM, destroy_vm, query(STRING, "include_dni"), unheard=True,
        reply=VM_LEAVES),
    _vm("VmMigrate", "POST", f"{_VM}/migrate",
        _action("machine_migrate", "One step of a migration."),
        (Param("migrationTask", _MIGRATION, required=True),)),
    _vm("VmSnapshotCreate", "PUT", f"{_VM}/snapshots", create_snapshot,
        body(STRING, "snapshot_name")),
    _vm("VmSnapshotRollback", "PUT", f"{_VM}/snapshots/{{snapshot_name}}/rollback",
        _action("machine_rollback_snapshot", "Go back to a snapshot.")),
    _vm("VmSnapshotDestroy", "DELETE", f"{_VM}/snapshots/{{snapshot_name}}",
        _action("machine_delete_snapshot", "Delete a snapshot.")),
    _vm("VmImagesCreate", "POST", f"{_VM}/images", create_image,
        (*body(STRING, "compression", "imgapi_url"), Param("manifest", OBJECT, required=True),
         *body(BOOLEAN_TEXT, "incremental"), *body(STRING, "prepare_image_script"))),
    _vm("VmDockerExec", "POST", f"{_VM}/docker-exec",
        _docker("docker_exec", 60, "Run a command in a VM; where its streams are served."),
        (Param("command", OBJECT, required=True),), reply=AN_OBJECT),
    _vm("VmDockerCopy", "POST", f"{_VM}/docker-copy",
        _docker("docker_copy", 10, "Copy files into or out of a VM."),
        (*body(STRING, "path", "mode"), *body(BOOLEAN_TEXT, "no_overwrite_dir"),
         *body(OBJECT, "payload")), reply=AN_OBJECT),
    _vm("VmDockerStats", "POST", f"{_VM}/docker-stats",
        _docker("docker_stats", 30, "Where a VM's statistics are served."),
        body(OBJECT, "payload"), reply=AN_OBJECT),
    _vm("VmDockerBuild", "POST", f"{_VM}/docker-build",
        _docker("docker_build", 30, "Where the build of an image is served."),
        body(OBJECT, "payload"), reply=AN_OBJECT),
    Endpoint("ImageGet", "GET", f"{_SERVER}/images/{{uuid}}", get_image, reply=AN_OBJECT),
]  # fmt: skip
